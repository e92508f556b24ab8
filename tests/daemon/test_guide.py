"""The guide does what it says, its table of thresholds is the code's, and the files in conf are ones to begin with."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from metastore.cli.app import app
from metastore.config import load_text
from metastore.daemon.health import PARTS
from metastore.daemon.process import check

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guide" / "daemon.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)


def test_the_guide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Command lines and Python, one after the other, over the configuration that stands there."""
    [conf] = [text for kind, text in BLOCKS if kind == "hocon"]
    (tmp_path / "site.conf").write_text(conf.replace("/srv", str(tmp_path)))
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    try:
        for kind, text in BLOCKS:
            if kind == "python":
                exec(compile(text, "daemon.md", "exec"), names)  # noqa: S102 - ours
            for line in text.splitlines() if not kind else []:
                ran = CliRunner().invoke(app, shlex.split(line)[2:])
                assert ran.exit_code == 0, ran.output
    finally:
        names["ms"].close()


def test_the_thresholds_of_the_guide_are_the_codes() -> None:
    """Name, good and bad value of every part."""
    rows = re.findall(r"^ +\| `(\w+)` \| .+ \| ([\d.]+) \| ([\d.]+) \|$", GUIDE, re.MULTILINE)
    assert {name: (float(good), float(bad)) for name, good, bad in rows} == {
        part.name: (part.good, part.bad) for part in PARTS.values()
    }


def test_the_example_is_one_that_a_daemon_runs_with() -> None:
    """It loads without a warning, its schedules are schedules, its endpoint is protected."""
    text = (ROOT / "conf" / "metastore-daemon.conf.example").read_text(encoding="utf-8")
    settings = load_text(text, environ={"DAEMON_TOKEN": "open sesame"})
    assert settings.warnings == ()
    check(settings)
    assert settings.daemon.endpoint.token == "open sesame"


def test_the_unit_ends_it_as_it_ends_itself() -> None:
    """The manager waits for longer than the daemon takes, reloads by SIGHUP, and takes its exit code for success."""
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment, method-assign] # keys are case-sensitive
    unit.read_string((ROOT / "conf" / "metastore-daemon.service").read_text(encoding="utf-8"))
    service = unit["Service"]
    assert int(service["TimeoutStopSec"]) > 10
    assert (service["ExecReload"], service["SuccessExitStatus"]) == ("/bin/kill -HUP $MAINPID", "75")
    assert "metastore --conf /etc/metastore/daemon.conf daemon" in service["ExecStart"]
