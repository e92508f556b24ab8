"""The guide to tables of catalogs runs as it stands there: one table from its first row to time travel."""

from __future__ import annotations

import re
from pathlib import Path

from metastore.session import Session

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "tables-of-catalogs.md"


def test_the_guide_runs_and_shows_what_comes_back(session: Session) -> None:
    """Its blocks in order: Python, statements, and after a statement the rows that it returns."""
    session.catalogs.open("iceberg").drop_namespace("logging")
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", GUIDE.read_text(), re.DOTALL | re.MULTILINE)
    shown = 0
    rows: list[str] = []
    for language, content in blocks:
        if language == "python":
            exec(compile(content, str(GUIDE), "exec"), {"ms": session})  # noqa: S102 - our own guide
        elif language == "sql":
            found = session.sql(content).to_pylist()
            assert found, content
            rows = [" | ".join("NULL" if value is None else str(value) for value in row.values()) for row in found]
        elif not language:
            assert rows == content.splitlines(), content
            shown += 1
    assert shown == 7
