"""The guide to tables of catalogs runs as it stands there: one table from its first row to time travel."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from metastore.cli.app import app

GUIDE = Path(__file__).parents[3] / "docs" / "guide" / "tables-of-catalogs.md"


def test_the_guide_runs_and_shows_what_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its blocks in order: Python, statements, and after a statement the rows that it returns; then the command."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    text = GUIDE.read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    shown = 0
    rows: list[str] = []
    names: dict[str, Any] = {}
    for language, content in blocks:
        if language == "hocon":
            Path("site.conf").write_text(content.replace("/var/lib/lake", str(tmp_path)))
        elif language == "python":
            exec(compile(content, str(GUIDE), "exec"), names)  # noqa: S102 - our own guide
        elif language == "sql":
            found = names["ms"].sql(content).to_pylist()
            assert found, content
            rows = [" | ".join("NULL" if value is None else str(value) for value in row.values()) for row in found]
        elif not language:
            assert rows == content.splitlines(), content
            shown += 1
    assert shown == 16
    names["ms"].close()
    [line] = re.findall(r"`metastore (inspect [^`]+)`", text)
    ran = CliRunner().invoke(app, ["--conf", "site.conf", "--json", *shlex.split(line)])
    assert ran.exit_code == 0, ran.output
    assert sorted(row["record_count"] for row in json.loads(ran.stdout)["rows"]) == [1, 2]
