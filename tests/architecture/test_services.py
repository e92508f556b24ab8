"""Tests of services run in CI: each mark that `make test` leaves out is asked for there, or is an exception."""

from __future__ import annotations

import re
from pathlib import Path

from services.selection import ON_REQUEST

ROOT = Path(__file__).parents[2]
LEFT_OUT = {"gcs", "versions"}
"""Services that CONTRIBUTING.md says CI does not run: Go, and other versions of Python."""


def test_marks_on_request_are_those_of_pyproject() -> None:
    """A mark that says `--services` is known to the option, and the option knows no other."""
    marks = re.findall(
        r'^  "(\w+): .*run with --services (\w+)",$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE
    )
    assert {mark for mark, asked in marks if mark == asked} == ON_REQUEST


def test_ci_runs_each_service() -> None:
    """All but the exceptions, which CONTRIBUTING.md names."""
    [listed] = re.findall(r"^readonly services=(\S+)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert set(listed.split(",")) == ON_REQUEST - LEFT_OUT
    [named] = re.findall(r"`\.ci/run` does for all but (`\w+` and `\w+`)", (ROOT / "CONTRIBUTING.md").read_text())
    assert set(re.findall(r"\w+", named)) - {"and"} == LEFT_OUT
