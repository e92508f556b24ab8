"""A text in double quotes that is a column's name has two readings, and no door chooses one silently."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore import SparkCondition
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect

AMBIGUOUS = (
    "\"name\" = 'n3'",
    "'n3' = \"NAME\"",
    'name = "n3" AND NOT "name" > \'n4\'',
    "\"name\" IN ('n1', 'n3')",
    "\"name\" LIKE 'n%'",
    "upper(\"name\") = 'N3'",
    '"year" = 2024',
)


@pytest.fixture
def ms(tmp_path: Path) -> Session:
    """A table of three rows in a directory ``year=2024``."""
    folder = tmp_path / "lake" / "t" / "year=2024"
    folder.mkdir(parents=True)
    pq.write_table(pa.table({"name": ["n1", "n2", "n3"], "n": [1, 2, 3]}), folder / "a.parquet")
    (tmp_path / "site.conf").write_text(
        f'drill.metastore {{ iceberg.location.base_path = "{tmp_path}/own"\n'
        f'storage.dfs.workspaces.w.location = "{tmp_path}/lake" }}'
    )
    session = connect(tmp_path / "site.conf")
    session.analyze("dfs.w.t")
    return session


@pytest.mark.parametrize("where", AMBIGUOUS)
def test_two_readings_are_refused_and_named(ms: Session, where: str) -> None:
    """By prune, scans and aggregates; the error has both readings and how to write each."""
    for act in (
        lambda: ms.prune("dfs.w.t", where),
        lambda: ms.tables.scan("dfs.w.t", where),
        lambda: ms.tables.scan("dfs.w.t", where, list_files=False),
    ):
        with pytest.raises(InvalidRequestError, match=r"SQL reads the column \w+, Spark the text") as refused:
            act()
        assert "Write `" in str(refused.value)


@pytest.mark.parametrize("where", AMBIGUOUS[:5])
def test_each_way_out_has_its_reading(ms: Session, where: str) -> None:
    """Backquotes answer as SELECT does with double quotes; ``SparkCondition`` as if single quotes stood there."""
    in_sql, text = where.replace('"n3"', "'n3'"), where.replace('"', "'")
    expected = ms.sql(f"SELECT n FROM dfs.w.t WHERE {in_sql}")["n"].to_pylist()
    assert ms.tables.scan("dfs.w.t", in_sql.replace('"', "`")).to_arrow()["n"].to_pylist() == expected
    spark = SparkCondition(where)
    assert ms.tables.scan("dfs.w.t", spark).count() == ms.tables.scan("dfs.w.t", text).count()
    assert ms.prune("dfs.w.t", spark).paths == ms.prune("dfs.w.t", text).paths


def test_a_text_that_names_no_column_stays_a_text(ms: Session) -> None:
    """Double quotes enclose texts as in Spark, and a text in single quotes may be a column's name."""
    assert ms.tables.scan("dfs.w.t", 'name = "n3"').count() == 1
    assert ms.tables.scan("dfs.w.t", "name != 'name'").count() == 3
