"""ANALYZE TABLE by the door of statements."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.analyze.request import AnalyzeRequest
from metastore.config import Settings
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.model.statistics_json import read_column_holders
from metastore.model.vocabulary import MetadataType
from metastore.session import Session, connect
from metastore.sql.analyze import _request
from metastore.sql.statement import Cursor, Statement


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """Two tables: one of Parquet, one of text without a suffix."""
    for name, start in (("a", 0), ("b", 10)):
        path = tmp_path / "data/nation" / f"{name}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"id": range(start, start + 10), "st": [{"x": n % 3} for n in range(10)]}), path)
    (tmp_path / "data/plain").mkdir()
    (tmp_path / "data/plain/part-0").write_text("a,b\n1,007\n2,\n")
    given = {
        "drill.metastore.iceberg.location": {"base_path": str(tmp_path), "relative_path": "metastore"},
        "drill.metastore.storage.dfs.workspaces.shop.location": str(tmp_path / "data"),
    }
    with connect(Settings.from_mapping(given)) as opened:
        yield opened


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("REFRESH METADATA", AnalyzeRequest()),
        ("columns (a, b.c, `d.e`) refresh metadata", AnalyzeRequest(["`a`", "`b`.`c`", "`d.e`"])),
        ("COLUMNS NONE REFRESH METADATA 'file' LEVEL", AnalyzeRequest([], "file")),
        ("COMPUTE STATISTICS", AnalyzeRequest(statistics=True)),
        (
            "REFRESH METADATA 'SEGMENT' LEVEL COMPUTE STATISTICS (a) SAMPLE 10 PERCENT",
            AnalyzeRequest(None, "SEGMENT", ["`a`"], 10.0),
        ),
        ("ESTIMATE STATISTICS SAMPLE 2.5 PERCENT", AnalyzeRequest(statistics=True, sample=2.5)),
        (
            "(format => 'csv', schema => 'a INT') REFRESH METADATA COMPUTE STATISTICS",
            AnalyzeRequest(statistics=True, format="csv", schema="a INT"),
        ),
    ],
)
def test_a_statement_says_what_is_wanted(text: str, request_: AnalyzeRequest) -> None:
    """In Drill's words, in any case."""
    assert _request(Cursor(Statement.parse(text))) == request_


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("ANALYZE TABLE dfs.shop.nation", "column 30"),
        ("ANALYZE TABLE shop.nation. REFRESH METADATA", "column 36"),
        ("ANALYZE TABLE dfs.shop.nation COLUMNS () REFRESH METADATA", "column 40"),
        ("ANALYZE TABLE dfs.shop.nation COLUMNS a REFRESH METADATA", "column 39"),
        ("ANALYZE TABLE dfs.shop.nation REFRESH METADATA 'FILE'", "column 54"),
        ("ANALYZE TABLE dfs.shop.nation REFRESH METADATA SAMPLE 10 PERCENT", "column 48"),
        ("ANALYZE TABLE dfs.shop.nation COMPUTE STATISTICS SAMPLE ten PERCENT", "column 57"),
        ("ANALYZE TABLE dfs.shop.nation (size => '1') REFRESH METADATA", "column 32"),
        ("ANALYZE TABLE dfs.shop.nation DROP METADATA IF", "column 47"),
    ],
)
def test_an_error_says_where(session: Session, text: str, place: str) -> None:
    """Line and column of what is not expected."""
    with pytest.raises(InvalidRequestError, match=f"line 1, {place}:"):
        session.sql(text)


def test_the_metadata_is_refreshed_and_dropped(session: Session) -> None:
    """One row tells what was done; unchanged data is up to date."""
    told: list[tuple[int, int]] = []
    text = "ANALYZE TABLE dfs.shop.nation COLUMNS (id) REFRESH METADATA 'FILE' LEVEL COMPUTE STATISTICS (st.x)"
    [row] = session.sql(text, on_progress=lambda done, total: told.append((done, total))).to_pylist()
    assert (row["ok"], row["files"], row["new"], row["rows"]) == (True, 2, 2, 20)
    assert told[-1] == (4, 4), "footers, then data"
    [unit] = session.tables.read().metadata_types(MetadataType.TABLE).to_arrow().to_pylist()
    assert unit["interestingColumns"] == ["`id`", "`st`.`x`"], "what is described is analyzed, too"
    assert read_column_holders(dict(unit["columnsStatistics"])["`st`.`x`"])["approx_count_distinct"] == 3
    assert "up to date" in session.sql(text)["summary"][0].as_py()
    assert session.sql("ANALYZE TABLE dfs.shop.nation DROP METADATA")["ok"].to_pylist() == [True]
    assert session.sql("ANALYZE TABLE dfs.shop.nation DROP METADATA IF EXISTS")["ok"].to_pylist() == [False]
    with pytest.raises(NotFoundError, match="nation"):
        session.sql("ANALYZE TABLE dfs.shop.nation DROP METADATA")


def test_format_and_schema_can_be_told(session: Session) -> None:
    """A declared schema wins over what the values look like, and is kept for later runs."""
    session.sql("ANALYZE TABLE dfs.shop.plain (format => 'CSV', schema => 'b VARCHAR') REFRESH METADATA")
    [unit] = session.tables.requests.tables_metadata()
    assert unit.table_type == "CSV"
    statistics = dict(unit.columns_statistics or {})
    assert set(statistics) == {"`b`"}
    assert '"007"' in statistics["`b`"]
    assert "up to date" in session.sql("ANALYZE TABLE dfs.shop.plain REFRESH METADATA")["summary"][0].as_py()


class TestPartitions:
    """Named partitions, in SQL."""

    @pytest.fixture
    def days(self, session: Session, tmp_path: Path) -> Path:
        """A table of three days, analyzed before another file came to each."""
        root = tmp_path / "data/days"
        for file in (1, 2):
            for day in ("2026-11-23", "2026-11-24", "2026-12-01"):
                path = root / f"day={day}" / f"{file}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                pq.write_table(pa.table({"id": [file]}), path)
            if file == 1:
                session.sql("ANALYZE TABLE dfs.shop.days REFRESH METADATA")
        return root

    @pytest.mark.parametrize(
        ("text", "new"),
        [
            ("PARTITION (day = '2026-11-24')", 1),
            ("partition (day = '2026-11-*') refresh metadata", 2),
            ("PARTITION (day >= '2026-11-24')", 2),
            ("PARTITION (day = '2026-11-*', day >= '2026-11-24') REFRESH METADATA 'ROW_GROUP' LEVEL", 1),
            ("PARTITION (day = '2026-11-23'), (`dir0` = 'day=2026-12-01')", 2),
        ],
    )
    @pytest.mark.usefixtures("days")
    def test_only_they_are_looked_at(self, session: Session, text: str, new: int) -> None:
        """By value, pattern, or least value."""
        [row] = session.sql(f"ANALYZE TABLE dfs.shop.days {text}").to_pylist()
        assert (row["new"], row["files"]) == (new, 2 * new)
        assert session.analyze("dfs.shop.days").new == 3 - new

    @pytest.mark.parametrize(
        ("text", "error"),
        [
            ("PARTITION", "( is expected, not the end"),
            ("PARTITION (day)", "= or >= is expected"),
            ("PARTITION (day = 'a', day = 'b')", "day once is expected"),
            ("PARTITION (day = 'a', k >= 1), (day = 'b')", "the same >= in every partition is expected"),
            ("PARTITION (day = '2026-11-24') LEVEL", "is expected, not LEVEL"),
        ],
    )
    def test_what_it_cannot_mean_is_an_error(self, session: Session, text: str, error: str) -> None:
        """With its place."""
        with pytest.raises(InvalidRequestError, match=f"line 1, column .*{re.escape(error)}"):
            session.sql(f"ANALYZE TABLE dfs.shop.days {text}")
