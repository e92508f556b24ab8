"""Drill's view files: what Drill wrote is taken over, what we write has all that Drill asks for."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest

from metastore.errors import FormatError, InvalidRequestError, NotFoundError
from metastore.session import Session
from metastore.sql.views.definition import Definition
from metastore.sql.views.drill_file import write_file

Rows = Callable[..., list[dict[str, Any]]]

THEIRS = {
    "name": "theirs",
    "sql": "SELECT `id`, CAST(`Region` AS INTEGER) AS `r`\nFROM `sales`\nWHERE `id` > 7",
    "fields": [
        {"name": "id", "type": "INTEGER", "isNullable": True},
        {"name": "r", "type": "INTEGER", "isNullable": True},
    ],
    "workspaceSchemaPath": ["dfs", "tmp"],
}


def test_a_file_of_drills(session: Session, data: Path, rows: Rows) -> None:
    """In its dialect; its columns are found out anew, and it answers as any view does."""
    (data / "theirs.view.drill").write_text(json.dumps(THEIRS))
    session.views.from_drill_file("dfs.tmp.theirs")
    unit = session.views.get("dfs.tmp.theirs")
    assert (unit.dialect, unit.sql, unit.workspace_schema_path) == ("drill", THEIRS["sql"], ["dfs", "tmp"])
    assert json.loads(unit.fields or "") == THEIRS["fields"]
    assert rows("SELECT * FROM theirs") == [{"id": 8, "r": 2}, {"id": 9, "r": 0}]


def test_a_file_for_drill_and_back(session: Session, data: Path, rows: Rows) -> None:
    """Names, types with their digits, and the path survive; an existing file is only replaced on demand."""
    query = "SELECT id, amount, `item name` AS item, id > 3 AS late FROM sales WHERE `item name` LIKE 'item%'"
    session.views.define("dfs.tmp.v", query)
    path = session.views.to_drill_file("dfs.tmp.v")
    assert path == str(data / "v.view.drill")
    document = json.loads(Path(path).read_text())
    assert list(document) == ["name", "sql", "fields", "workspaceSchemaPath"]
    assert document["fields"] == [
        {"name": "id", "type": "INTEGER", "isNullable": True},
        {"name": "amount", "type": "DECIMAL", "precision": 9, "scale": 2, "isNullable": True},
        {"name": "item", "type": "VARCHAR", "isNullable": True},
        {"name": "late", "type": "BOOLEAN", "isNullable": True},
    ]
    expected = rows("SELECT * FROM v")
    with pytest.raises(InvalidRequestError, match="exists already"):
        session.views.to_drill_file("dfs.tmp.v")
    session.views.to_drill_file("dfs.tmp.v", replace=True)
    session.views.drop("dfs.tmp.v")
    session.views.from_drill_file("dfs.tmp.v")
    assert rows("SELECT * FROM v") == expected


def test_of_many_writers_one_creates_the_file(tmp_path: Path) -> None:
    """The others are refused, and what stands there is the winner's, whole: nobody's view is written over."""
    texts = [f"{number}" * 10_000 for number in range(4)]
    for turn in range(25):
        path, together = str(tmp_path / f"{turn}.view.drill"), Barrier(len(texts))

        def wrote(text: str, path: str = path, together: Barrier = together) -> bool:
            together.wait(60)
            try:
                write_file(path, text, {}, replace=False)
            except InvalidRequestError:
                return False
            return True

        with ThreadPoolExecutor(len(texts)) as threads:
            won = list(threads.map(wrote, texts))
        assert [Path(path).read_text()] == [text for text, is_mine in zip(texts, won, strict=True) if is_mine]
    assert len(list(tmp_path.iterdir())) == 25


def test_what_drill_cannot_say_is_refused(session: Session, data: Path) -> None:
    """Rather than left for Drill to fail at."""
    session.views.define("dfs.tmp.v", Definition("SELECT my_function(id) AS a FROM sales"))
    with pytest.raises(InvalidRequestError, match=r"cannot be written for Drill: my_function"):
        session.views.to_drill_file("dfs.tmp.v")
    assert not (data / "v.view.drill").exists()


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"sql": 7}', '{"sql": "SELECT 1 AS a", "workspaceSchemaPath": [1]}', b"\xff\xfe"]
)
def test_other_files_are_refused(session: Session, data: Path, content: str | bytes) -> None:
    """The error names the file."""
    (data / "v.view.drill").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(FormatError, match=r"v\.view\.drill is no view file"):
        session.views.from_drill_file("dfs.tmp.v")


def test_no_file(session: Session) -> None:
    """Is not found."""
    with pytest.raises(NotFoundError, match=r"v\.view\.drill"):
        session.views.from_drill_file("dfs.tmp.v")
