"""The demo of engines runs from nothing and finds its own claims true."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from services.programs import installed

import metastore
from demos.engines import __main__ as demo
from demos.engines.asking import make_environment


@pytest.mark.iceberg
@pytest.mark.exhaustive
@pytest.mark.spark
@pytest.mark.timeout(600)
def test_the_demo_runs_end_to_end(tmp_path: Path) -> None:
    """On two of the twelve months: three engines answer alike, and open fewer files by name."""
    environment = installed("demo-engines", ["sh", "-c", "true"], hint="a shell")
    make_environment(environment)
    folder = tmp_path / "demo"
    options = ["--folder", str(folder), "--environment", str(environment), "--months", "1,6"]
    ran = subprocess.run(
        [sys.executable, "-m", "demos.engines", *options],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(metastore.__file__).parents[1])},
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-4000:]
    assert "7 claims checked, all true" in ran.stdout
    made = ["demo-engines.conf", "lake.db", "metastore", "plain", "published"]
    assert sorted(path.name for path in folder.iterdir()) == made


def test_a_folder_of_others_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What no demo made stays."""
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "precious").touch()
    assert demo.main(["--folder", str(tmp_path)]) == 1
    assert f"error: {tmp_path}/plain would be replaced" in capsys.readouterr().err
    assert (tmp_path / "plain" / "precious").exists()
