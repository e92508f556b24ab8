"""The examples of the guide run in their order, and say what it says they do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect

GUIDE = (Path(__file__).parents[2] / "docs/guide/views.md").read_text()
BLOCKS: list[tuple[str, str]] = re.findall(r"```(sql|python|text)\n(.*?)```", GUIDE, re.DOTALL)
STARTS = re.compile(r"^(?=CREATE|SELECT count|SELECT \* FROM dfs|DESCRIBE|SHOW|ALTER|DROP|REFRESH)", re.MULTILINE)


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[Session]:
    """A session with the analyzed table ``dfs.tmp.flights``."""
    (tmp_path / "data/flights").mkdir(parents=True)
    rows = [
        {"carrier": "UA", "number": "1", "dep_delay": 20},
        {"carrier": "UA", "number": "2", "dep_delay": 90},
        {"carrier": "B6", "number": "3", "dep_delay": 5},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "data/flights/a.parquet")
    workspaces = {"tmp": {"location": f"{tmp_path}/data", "writable": True}}
    given = {"iceberg.location.base_path": str(tmp_path), "storage.dfs.workspaces": workspaces}
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as session:
        session.analyze("dfs.tmp.flights")
        yield session


def test_the_examples(ms: Session, capsys: pytest.CaptureFixture[str]) -> None:
    """All but those for Spark and for a REST catalog, which have tests of their own."""
    answers = []
    for language, block in BLOCKS:
        if language == "python" and "spark)" not in block and "# catalog" not in block:
            exec(compile(block, "views.md", "exec"), {"ms": ms})  # noqa: S102 - our own document
        elif language == "sql":
            answers += [ms.sql(text).to_pylist() for text in STARTS.split(block) if text.strip()]
    assert [{"n": 1}] in answers
    assert [{"carrier": "UA", "flights": 2, "mean": 55.0, "worst": 90}] in answers
    said = capsys.readouterr().out
    assert "SELECT `number` AS n FROM flights WHERE carrier = 'UA'\n()\n" in said
    assert "COMPLETE\n" in said
    assert 'FROM "dfs"."tmp"."by_carrier/' in said


def test_the_mistake(ms: Session) -> None:
    """Is answered as the guide prints it."""
    [(_, create), *_] = [block for block in BLOCKS if block[0] == "sql"]
    [(_, said), *_] = [block for block in BLOCKS if block[0] == "text"]
    with pytest.raises(InvalidRequestError, match=re.escape(said.strip())):
        ms.sql(create.replace("dep_delay FROM", "dep_dely FROM"))
