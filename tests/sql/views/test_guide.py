"""The examples of the guide run in their order, and say what it says they do."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect

GUIDE = (Path(__file__).parents[3] / "docs/guide/views.md").read_text()
BLOCKS: list[tuple[str, str]] = re.findall(r"```(sql|python|text)\n(.*?)```", GUIDE, re.DOTALL)
STARTS = re.compile(r"^(?=CREATE|SELECT count|SELECT \* FROM dfs|DESCRIBE|SHOW|ALTER|DROP|REFRESH)", re.MULTILINE)


@pytest.fixture
def ms(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Session]:
    """A session with the analyzed table ``dfs.tmp.flights``, and for a test marked ``rest`` the catalog ``lake``."""
    (tmp_path / "data/flights").mkdir(parents=True)
    rows = [
        {"carrier": "UA", "number": "1", "dep_delay": 20},
        {"carrier": "UA", "number": "2", "dep_delay": 90},
        {"carrier": "B6", "number": "3", "dep_delay": 5},
    ]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "data/flights/a.parquet")
    workspaces = {"tmp": {"location": f"{tmp_path}/data", "writable": True}}
    given: dict[str, Any] = {"iceberg.location.base_path": str(tmp_path), "storage.dfs.workspaces": workspaces}
    if request.node.get_closest_marker("rest"):
        uri = request.getfixturevalue("rest_catalog")
        given["catalogs.lake"] = {"type": "rest", "uri": uri}
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as session:
        session.analyze("dfs.tmp.flights")
        yield session


def test_the_examples(ms: Session, capsys: pytest.CaptureFixture[str]) -> None:
    """All but those for Spark (tests/spark/test_documents.py) and for a REST catalog (below)."""
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


@pytest.mark.rest
@pytest.mark.integration
def test_the_rest_catalog(ms: Session) -> None:
    """The view of the guide goes there, and comes back by another name with the same rows."""
    ms.catalogs.open("lake").create_namespace("prod")
    [example] = [block for _, block in BLOCKS if "# catalog" in block]
    exec(compile(example, "views.md", "exec"), {"ms": ms})  # noqa: S102 - our own document
    assert ms.sql("SELECT * FROM dfs.tmp.again") == ms.sql("SELECT * FROM dfs.tmp.plain")
