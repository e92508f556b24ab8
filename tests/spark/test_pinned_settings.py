"""Who refreshes a materialized view does not matter: under any setting of the session, rows and files are the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from metastore.config.settings import Settings
from metastore.errors import EngineError
from metastore.session import Session
from metastore.spark import connect
from metastore.spark.pinned_settings import KEPT, PINNED, pin_settings, settings_to_drop

pytestmark = pytest.mark.spark

HOSTILE = {
    "spark.sql.ansi.enabled": "false",
    "spark.sql.storeAssignmentPolicy": "LEGACY",
    "spark.sql.ansi.doubleQuotedIdentifiers": "true",
    "spark.sql.ansi.enforceReservedKeywords": "true",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true",
    "spark.sql.caseSensitive": "true",
    "spark.sql.groupByAliases": "false",
    "spark.sql.groupByOrdinal": "false",
    "spark.sql.orderByOrdinal": "false",
    "spark.sql.session.timeZone": "America/Los_Angeles",
    "spark.sql.timestampType": "TIMESTAMP_NTZ",
    "spark.sql.decimalOperations.allowPrecisionLoss": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.function.concatBinaryAsString": "true",
    "spark.sql.function.eltOutputAsString": "true",
    "spark.sql.jsonGenerator.ignoreNullFields": "false",
    "spark.sql.icu.caseMappings.enabled": "false",
    "spark.sql.charAsVarchar": "true",
    "spark.sql.readSideCharPadding": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MILLIS",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInWrite": "LEGACY",
    "spark.sql.parquet.datetimeRebaseModeInRead": "LEGACY",
    "spark.sql.parquet.int96RebaseModeInRead": "LEGACY",
    "spark.sql.parquet.writeLegacyFormat": "true",
    "spark.sql.parquet.fieldId.write.enabled": "false",
    "spark.sql.parquet.fieldId.read.enabled": "true",
    "spark.sql.parquet.compression.codec": "gzip",
    "spark.sql.parquet.binaryAsString": "true",
    "spark.sql.parquet.int96AsTimestamp": "false",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "false",
    "spark.sql.parquet.mergeSchema": "true",
    "spark.sql.files.ignoreCorruptFiles": "true",
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.legacy.timeParserPolicy": "LEGACY",
    "spark.sql.legacy.sizeOfNull": "true",
    "spark.sql.legacy.castComplexTypesToString.enabled": "true",
    "spark.sql.legacy.literal.pickMinimumPrecision": "false",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "true",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.legacy.interval.enabled": "true",
    "parquet.writer.version": "v2",
    "parquet.enable.dictionary": "false",
}
"""Settings that a session may have, each of which changes rows or files of some query."""

QUERY = r"""
SELECT id, "it's" AS quoted, 'a\tb' AS tab, upper('straße') AS up, amount / 3 AS third, amount * amount AS product,
  DATE '1500-03-01' AS day, TIMESTAMP '1500-03-01 12:00:00' AS moment, cast(at AS string) AS said,
  cast(at AS date) AS d, date_format(at, 'yyyy-MM-dd HH') AS hour, elt(1, 'x', 'y') AS el,
  concat(cast(name AS binary), cast(name AS binary)) AS bin, 1e1 AS exponent, array(at) AS moments,
  map('a', id) AS m, named_struct('x', amount) AS st, cast(array(1, null) AS string) AS arr,
  to_json(named_struct('n', cast(null AS int), 'i', id)) AS js, size(cast(null AS array<int>)) AS sz, ID AS other
FROM sales"""
GROUPED = "SELECT name AS Name, max(at) AS latest, sum(amount) AS total, min(day) AS first FROM sales GROUP BY name"


@contextmanager
def settings_of(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """Give the session other settings for a while, and see that nobody else changed them meanwhile."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    every = dict(spark.conf.getAll)
    try:
        yield
        assert dict(spark.conf.getAll) == every
    finally:
        for key, old in before.items():
            spark.conf.unset(key)
            if old is not None and spark.conf.get(key, None) != old:
                spark.conf.set(key, old)


@pytest.fixture(scope="module")
def ms(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session on Spark over one table."""
    folder = tmp_path_factory.mktemp("pinned")
    (folder / "data/sales").mkdir(parents=True)
    columns: list[tuple[str, pa.DataType]] = [
        ("id", pa.int32()),
        ("name", pa.string()),
        ("amount", pa.decimal128(18, 6)),
        ("at", pa.timestamp("us", tz="UTC")),
        ("day", pa.date32()),
    ]
    rows = [{"id": n, "name": f"n{n % 2}", "amount": n, "at": (n - 2) * 10**15, "day": -100_000 * n} for n in range(5)]
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(columns)), folder / "data/sales/a.parquet")
    given = {
        "iceberg.location": {"base_path": str(folder), "relative_path": "metastore"},
        "storage.dfs.workspaces": {"tmp": {"location": str(folder / "data"), "writable": True}},
    }
    with connect(spark, Settings.from_mapping({"drill.metastore": given}, environ={})) as session:
        session.analyze("dfs.tmp.sales")
        yield session


def stored(ms: Session, query: str) -> tuple[list[Any], list[Any]]:
    """What a refresh of the query stores: its rows, and how its files are laid out."""
    ms.materialized_views.define("dfs.tmp.m", query, replace=True)
    ms.materialized_views.refresh("dfs.tmp.m", "full")
    unit = ms.materialized_views.get("dfs.tmp.m")
    settings = ms.metastore.settings.storage["dfs"].workspaces["tmp"].location
    rows: list[Any] = []
    layout: list[Any] = []
    for path in sorted(Path(settings, unit.data_location or "").glob("part-*.parquet")):
        file = pq.ParquetFile(path)
        rows += file.read().to_pylist()
        group = file.metadata.row_group(0)
        columns = [group.column(number) for number in range(group.num_columns)]
        said = file.metadata
        layout.append((str(file.schema).partition(chr(10))[2], said.metadata, said.format_version, said.created_by))
        layout += [(each.path_in_schema, each.physical_type, each.compression, each.encodings) for each in columns]
    return sorted(map(repr, rows)), layout


@pytest.mark.parametrize("query", [QUERY, GROUPED])
def test_hostile_settings_change_nothing(spark: SparkSession, ms: Session, query: str) -> None:
    """All of them at once; the session keeps them."""
    expected = stored(ms, query)
    assert len(expected[0]) in (2, 5)
    with settings_of(spark, HOSTILE):
        assert stored(ms, query) == expected


def test_an_overflow_is_an_error_whoever_refreshes(spark: SparkSession, ms: Session) -> None:
    """It stores no null, and no number that wrapped around."""
    for query in ("SELECT id + 2147483647 AS n FROM sales", "SELECT cast(name AS int) AS n FROM sales"):
        with settings_of(spark, {"spark.sql.ansi.enabled": "false"}), pytest.raises(EngineError):
            stored(ms, query)


def test_every_setting_is_pinned_kept_or_dropped(spark: SparkSession) -> None:
    """Of all that this release of Spark knows: what is neither pinned nor kept has no value in the copy."""
    known = {row[0]: row[1] for row in spark.sql("SET -v").collect()}
    left = [key for key in known if key not in PINNED and not key.startswith(tuple(KEPT))]
    changed = {key: known[key] for key in left if spark.conf.isModifiable(key) and not known[key].startswith("<")}
    assert len(changed) > 50
    static = set(spark.conf.getAll)
    with settings_of(spark, {**changed, **HOSTILE}), pin_settings(spark) as copy:
        found = copy.conf.getAll
        assert {key: found[key] for key in PINNED} == {key: pin.value for key, pin in PINNED.items()}
        assert set(settings_to_drop(found)) <= static


def test_what_is_kept(spark: SparkSession) -> None:
    """Speed, places, and what the caller made: views and functions."""
    spark.createDataFrame([(1,)], "a int").createOrReplaceTempView("made_by_the_caller")
    with settings_of(spark, {"spark.sql.shuffle.partitions": "7"}), pin_settings(spark) as copy:
        assert copy.conf.get("spark.sql.shuffle.partitions") == "7"
        assert copy.table("made_by_the_caller").count() == 1
    spark.catalog.dropTempView("made_by_the_caller")


def test_every_pin_is_tried() -> None:
    """Each pinned setting has a hostile value here, or says the same in every session."""
    assert set(PINNED) - set(HOSTILE) <= {
        "spark.sql.variable.substitute",
        "spark.sql.datetime.java8API.enabled",
        "spark.sql.optimizer.excludedRules",
    }
    assert all(HOSTILE[key] != pin.value for key, pin in PINNED.items() if key in HOSTILE)
