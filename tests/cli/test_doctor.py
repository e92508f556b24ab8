"""``metastore doctor files``: its screen, its document and its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from typer.testing import CliRunner

from metastore.cli.doctor_app import app


def test_the_outcome_of_each_file_is_shown_without_any_configuration(tmp_path: Path) -> None:
    """A refused file is no failure: it was refused by name."""
    pq.write_table(pa.table({"a": [1, 2]}), tmp_path / "a.parquet")
    (tmp_path / "c.parquet").write_text("nonsense")
    shown = CliRunner().invoke(app, ["doctor", "files", str(tmp_path)])
    assert shown.exit_code == 0, shown.output
    assert "1 equal, 1 refused" in shown.stdout
    told = json.loads(CliRunner().invoke(app, ["doctor", "files", str(tmp_path), "--json"]).stdout)
    assert told["outcomes"] == {"equal": 1, "partly": 0, "refused": 1, "different": 0}
    assert [each["file"] for each in told["files"]] == ["a.parquet", "c.parquet"]


def test_a_file_with_a_lying_footer_fails_the_command(tmp_path: Path) -> None:
    """The report is shown all the same."""
    path = tmp_path / "lies.parquet"
    pq.write_table(pa.table({"a": pa.array([5, 6], pa.int64())}), path, use_dictionary=False, compression="none")
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    path.write_bytes(content[:footer] + content[footer:].replace((5).to_bytes(8, "little"), (6).to_bytes(8, "little")))
    shown = CliRunner().invoke(app, ["doctor", "files", str(tmp_path)])
    assert shown.exit_code == 1
    assert "different" in shown.stdout
