"""ANALYZE of PostgreSQL's tables through Spark: figures that PostgreSQL itself gives, for every type that it has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import Connection, create_engine, make_url, text

from metastore import MetadataType, Session
from metastore.config import Settings
from metastore.engines.engine import LocalEngine
from metastore.errors import EngineError
from metastore.model.statistics import ColumnStatistics
from metastore.session import connect
from metastore.spark import SparkEngine

pytestmark = [pytest.mark.spark, pytest.mark.postgres]

ROWS = 500

ORDERED = {
    "small": ("smallint", "n * 31 - 9000"),
    "whole": ("integer", "n * -70001"),
    "big": ("bigint", "n * 30000000000000 - 5"),
    "single": ("real", "n / 8.0"),
    "double": ("double precision", "n / 7.0"),
    "price": ("numeric(12,3)", "n * 1.125 - 7"),
    "flag": ("boolean", "mod(n, 3) = 0"),
    "name": ("text", "'日本 ' || lpad(mod(n, 26)::text, 2, '0')"),
    "code": ("varchar(20)", "'c' || lpad(n::text, 4, '0')"),
    "day": ("date", "date '1969-06-01' + n * 11"),
    "local": ("timestamp", "timestamp '1969-06-01 10:11:12.123456' + n * interval '7 hours'"),
    "moment": ("timestamptz", "timestamptz '1969-06-01 10:11:12.123456+02' + n * interval '7 hours'"),
    "Mixed Case": ("integer", "n"),
}
"""Columns that PostgreSQL and we order in the same way: name, type, and the value of row ``n``."""

TEXTS = {
    "id": ("uuid", "md5(n::text)::uuid"),
    "mood": ("mood", "case mod(n, 2) when 1 then 'glad'::mood else 'sad' end"),
    "docb": ("jsonb", "jsonb_build_object('n', n)"),
}
"""Columns that Spark has as text, and so are ordered as their text is."""

OTHER = {
    "fixed": ("char(5)", "'x' || mod(n, 7)"),
    "bytes": ("bytea", "decode(lpad(to_hex(n), 8, '0'), 'hex')"),
    "doc": ("json", "json_build_object('n', n)"),
    "clock": ("time", "time '10:00' + n * interval '1 minute'"),
    "span": ("interval", "n * interval '1 hour'"),
    "address": ("inet", "inet '10.0.0.1' + n"),
    "any": ("numeric", "n * 1.5"),
    "never": ("integer", "null::integer"),
}
"""Columns whose values are counted, whatever their bounds."""

LISTS = {"list": ("integer[]", "array[n, n + 1]"), "words": ("text[]", "array['a', n::text]")}
"""Columns with several values a row, of which nothing is said."""


@pytest.fixture
def database(postgres_uri: str) -> Iterator[Connection]:
    """A connection to a database with all types in ``shop.sales``; each fourth row is null but for its key."""
    engine = create_engine(postgres_uri, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        columns = {**ORDERED, **TEXTS, **OTHER, **LISTS}
        declared = ", ".join(f'"{name}" {kind}' for name, (kind, _) in columns.items())
        values = ", ".join(f"case when mod(n, 4) > 0 then {value} end" for _, value in columns.values())
        connection.execute(text("CREATE SCHEMA shop"))
        connection.execute(text("CREATE TYPE mood AS ENUM ('sad', 'glad')"))
        connection.execute(text(f"CREATE TABLE shop.sales (key integer, {declared})"))
        connection.exec_driver_sql(f"INSERT INTO shop.sales SELECT n, {values} FROM generate_series(1, {ROWS}) AS n")
        yield connection
    engine.dispose()


@pytest.fixture
def plugin(postgres_uri: str, postgres_driver: str, spark: SparkSession) -> dict[str, Any]:
    """The storage plugin, its driver on Spark's class path."""
    spark.sql(f"ADD JAR '{postgres_driver}'")
    url = make_url(postgres_uri)
    login = {"user": url.username, "password": url.password, "driver": "org.postgresql.Driver"}
    return {
        "type": "jdbc",
        "connection": f"jdbc:postgresql://{url.host}:{url.port}/{url.database}",
        "properties": login,
    }


def settings(folder: Path, plugin: dict[str, Any]) -> Settings:
    """A metastore in ``folder`` that knows the database as ``db``."""
    location = {"base_path": str(folder), "relative_path": "metastore"}
    return Settings.from_mapping(
        {"drill.metastore.iceberg.location": location, "drill.metastore.storage": {"db": plugin}}
    )


def statistics_of(session: Session) -> dict[str, ColumnStatistics]:
    """What is known of each column of the table."""
    rows = session.tables.read().metadata_types(MetadataType.TABLE).to_arrow().to_pylist(maps_as_pydicts="strict")
    [table] = rows
    return {name.strip("`"): ColumnStatistics.from_json(said) for name, said in table["columnsStatistics"].items()}


def plain(value: object) -> object:
    """Moments in UTC; numbers of both sides compare by themselves."""
    return value.astimezone(timezone.utc) if isinstance(value, datetime) and value.tzinfo else value


def test_every_type(tmp_path: Path, database: Connection, plugin: dict[str, Any], engine: SparkEngine) -> None:
    """Bounds and counts are PostgreSQL's own; a type without order here is counted, or known for unknown."""
    with connect(settings(tmp_path, plugin), engine) as session:
        assert session.analyze("db.shop.sales").rows == ROWS
        known = statistics_of(session)
        assert set(known) == {"key", *ORDERED, *TEXTS, *OTHER}
        for name, (kind, _) in {**ORDERED, **TEXTS}.items():
            value = f'"{name}"' + ("::int" if kind == "boolean" else "::text" if name in TEXTS else "")
            order = f'{value} COLLATE "C"' if kind in ("text", "varchar(20)") or name in TEXTS else value
            [row] = database.execute(
                text(f"SELECT min({order}), max({order}), count(*) FILTER (WHERE {value} IS NOT NULL) FROM shop.sales")
            )
            told = known[name]
            assert (name, plain(told.min), plain(told.max), told.non_nulls) == (name, *map(plain, row))
        counts = ", ".join(f'count("{name}")' for name in OTHER)
        [row] = database.execute(text(f"SELECT {counts} FROM shop.sales"))
        assert {name: known[name].non_nulls for name in OTHER} == dict(zip(OTHER, row, strict=True))


def test_a_change_is_seen_and_none_is_none(
    tmp_path: Path, database: Connection, plugin: dict[str, Any], engine: SparkEngine
) -> None:
    """A database gives no times of changes, so it is read; what is the same is not written."""
    with connect(settings(tmp_path, plugin), engine) as session:
        first = session.analyze("db.shop.sales").version
        assert session.analyze("db.shop.sales").status == "up to date"
        database.execute(text("DELETE FROM shop.sales WHERE key > 400"))
        again = session.analyze("db.shop.sales")
        assert (again.status, again.rows) == ("analyzed", 400)
        assert again.version != first
        assert statistics_of(session)["key"].max == 400


def test_values_without_order(
    tmp_path: Path, database: Connection, plugin: dict[str, Any], engine: SparkEngine
) -> None:
    """NaN and the infinities of numbers; names that have to be quoted; a table without rows; views."""
    database.execute(text('CREATE TABLE shop."Odd Name" (x double precision, y real)'))
    database.execute(text("CREATE VIEW shop.few AS SELECT * FROM shop.sales WHERE key <= 3"))
    with connect(settings(tmp_path, plugin), engine) as session:
        assert session.analyze('db.shop."Odd Name"').rows == 0
        database.execute(text("""INSERT INTO shop."Odd Name" VALUES ('NaN', 1), ('-Infinity', 'NaN'), (2, null)"""))
        assert session.analyze('db.shop."Odd Name"').rows == 3
        known = statistics_of(session)
        assert (known["x"].non_nulls, known["y"].non_nulls) == (3, 2)
    with connect(settings(tmp_path / "other", plugin), engine) as session:
        assert session.analyze("db.shop.few").rows == 3


def test_what_cannot_be_read_is_said_without_the_password(
    tmp_path: Path, plugin: dict[str, Any], engine: SparkEngine
) -> None:
    """The table that there is not is named; nothing is written; and without Spark the error says what is needed."""
    password = plugin["properties"]["password"]
    with connect(settings(tmp_path, plugin), engine) as session:
        with pytest.raises(EngineError, match=r"shop\.nope") as raised:
            session.analyze("db.shop.nope")
        assert password not in str(raised.value) + json.dumps(session.metastore.settings.explain(), default=str)
        assert session.tables.read().metadata_types(MetadataType.ALL).execute() == []
    with connect(settings(tmp_path, plugin), LocalEngine(1)) as session, pytest.raises(EngineError, match="Spark"):
        session.analyze("db.shop.sales")
