"""ALTER TABLE changes columns, partitions and properties of a catalog's table, and says where a text is wrong."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, ListType, NestedField, StringType, StructType, TimestampType

from metastore.errors import InvalidRequestError, NotFoundError
from metastore.model.table_unit import TableMetadataUnit
from metastore.session import Session

SCHEMA = Schema(
    NestedField(1, "level", StringType(), required=True),
    NestedField(2, "Time", TimestampType(), required=False),
    NestedField(3, "count", IntegerType(), required=False),
    NestedField(
        4,
        "origin",
        StructType(
            NestedField(5, "host", StringType(), required=False),
            NestedField(6, "tags", ListType(7, StringType(), element_required=False), required=False),
        ),
        required=False,
    ),
)


@pytest.fixture
def session(bare: Session) -> Session:
    """With the table ``lake.logging.events``, which has no rows."""
    catalog = bare.catalogs.open("lake")
    catalog.create_namespace("logging")
    catalog.create_table("logging.events", SCHEMA)
    return bare


def alter(session: Session, action: str) -> dict[str, Any]:
    """The row of an ALTER TABLE."""
    [row] = session.sql(f"ALTER TABLE lake.logging.events {action}").to_pylist()
    return dict(row)


def table(session: Session) -> Table:
    """The table as it is now."""
    return session.catalogs.open("lake").load_table("logging.events")


def columns(session: Session) -> list[str]:
    """Its columns, as PyIceberg writes them."""
    return [str(field).split(": ", 1)[1] for field in table(session).schema().fields]


BEFORE = ["level: required string", "Time: optional timestamp", "count: optional int"]


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("ADD COLUMN message VARCHAR", ["message"]),
        ("add column message varchar comment 'what was said'", ["message"]),
        ('ADD COLUMN "a b" ARRAY(ROW(x BIGINT, y DECIMAL(9, 2))) FIRST', ["a b"]),
        ("ADD COLUMN m MAP<STRING, STRUCT<x: DOUBLE PRECISION, y: FIXED(3)>> AFTER level", ["m"]),
        ("ADD COLUMN t TIMESTAMP(6) WITH TIME ZONE BEFORE time", ["t"]),
        ("ADD COLUMN u UUID NOT NULL", ["u"]),
    ],
)
def test_a_column_is_added(session: Session, action: str, expected: list[str]) -> None:
    """With any type, at any place."""
    assert alter(session, action)["ok"] is True
    names = [field.name for field in table(session).schema().fields]
    assert set(names) - {"level", "Time", "count", "origin"} == set(expected)


@pytest.mark.parametrize(
    ("type_", "iceberg"),
    [
        ("BOOLEAN", "boolean"),
        ("INTEGER", "int"),
        ("long", "long"),
        ("REAL", "float"),
        ("DOUBLE", "double"),
        ("DECIMAL", "decimal(38, 0)"),
        ("DECIMAL(5)", "decimal(5, 0)"),
        ("DATE", "date"),
        ("TIME", "time"),
        ("TIMESTAMP", "timestamp"),
        ("TIMESTAMP WITHOUT TIME ZONE", "timestamp"),
        ("TIMESTAMPTZ", "timestamptz"),
        ("VARBINARY", "binary"),
        ("FIXED(16)", "fixed[16]"),
        ("ARRAY<INT>", "list<int>"),
        ("MAP(VARCHAR, ARRAY(DATE))", "map<string, list<date>>"),
    ],
)
def test_types_are_those_of_iceberg(session: Session, type_: str, iceberg: str) -> None:
    """As Trino and as Spark write them."""
    alter(session, f"ADD COLUMN new {type_}")
    assert str(table(session).schema().find_type("new")) == iceberg


def test_places_are_kept(session: Session) -> None:
    """First, after and before another column, in a struct among its fields."""
    alter(session, "ADD COLUMN first INT FIRST")
    alter(session, "ADD COLUMN second INT AFTER first")
    alter(session, "ALTER COLUMN count BEFORE time")
    alter(session, "ADD COLUMN origin.port INT AFTER host")
    schema = table(session).schema()
    assert [field.name for field in schema.fields] == ["first", "second", "level", "count", "Time", "origin"]
    origin: Any = schema.find_type("origin")
    assert [field.name for field in origin.fields] == ["host", "port", "tags"]


def test_columns_are_renamed_widened_commented_and_dropped(session: Session) -> None:
    """Their ids stay, and so do the rows."""
    row = {"level": "ERROR", "Time": None, "count": 7, "origin": {"host": "a", "tags": ["x"]}}
    table(session).append(pa.Table.from_pylist([row], table(session).schema().as_arrow()))
    alter(session, "RENAME COLUMN level TO severity")
    alter(session, "ALTER COLUMN count SET DATA TYPE BIGINT")
    alter(session, "ALTER count COMMENT 'how often'")
    alter(session, "ALTER COLUMN severity DROP NOT NULL")
    alter(session, "DROP COLUMN origin.tags")
    alter(session, 'DROP COLUMN IF EXISTS "Time"')
    assert columns(session) == [
        "severity: optional string",
        "count: optional long (how often)",
        "origin: optional struct<5: host: optional string>",
    ]
    assert table(session).scan().to_arrow().to_pylist() == [{"severity": "ERROR", "count": 7, "origin": {"host": "a"}}]


def test_what_is_so_already_changes_nothing(session: Session) -> None:
    """And makes no version of the table."""
    before = table(session).metadata_location
    for action in (
        "ADD COLUMN IF NOT EXISTS level INT",
        "DROP COLUMN IF EXISTS nothing",
        "SET PROPERTIES partitioning = ARRAY[]",
        "UNSET PROPERTIES nothing",
    ):
        assert alter(session, action) == {"ok": False, "summary": "lake.logging.events: nothing to change"}
    assert table(session).metadata_location == before


def test_not_null_needs_a_table_without_rows(session: Session) -> None:
    """Nothing else could say that no value is missing."""
    alter(session, "ALTER COLUMN count SET NOT NULL")
    assert "count: required int" in columns(session)
    row = {"level": "a", "Time": None, "count": 1, "origin": None}
    table(session).append(pa.Table.from_pylist([row], table(session).schema().as_arrow()))
    with pytest.raises(InvalidRequestError, match="cannot become NOT NULL: the table has rows"):
        alter(session, "ALTER COLUMN time SET NOT NULL")
    with pytest.raises(InvalidRequestError, match="x cannot be NOT NULL"):
        alter(session, "ADD COLUMN x INT NOT NULL")


def partitions(session: Session) -> list[str]:
    """The current spec, field by field."""
    current = table(session)
    return [
        f"{field.name} = {field.transform}({current.schema().find_column_name(field.source_id)})"
        for field in current.spec().fields
    ]


def test_partition_fields_come_and_go(session: Session) -> None:
    """By what they are of, or by name; files of before keep their spec."""
    alter(session, "ADD PARTITION FIELD day(time)")
    alter(session, "ADD PARTITION FIELD bucket(16, level) AS shard")
    assert partitions(session) == ["Time_day = day(Time)", "shard = bucket[16](level)"]
    alter(session, "REPLACE PARTITION FIELD day(time) WITH hour(time)")
    assert partitions(session) == ["shard = bucket[16](level)", "Time_hour = hour(Time)"]
    alter(session, "DROP PARTITION FIELD shard")
    alter(session, "DROP PARTITION FIELD hours(Time)")
    alter(session, "ADD PARTITION FIELD origin.host")
    assert partitions(session) == ["origin.host = identity(origin.host)"]
    assert len(table(session).metadata.partition_specs) >= 4


def test_partitioning_can_be_set_as_a_whole(session: Session) -> None:
    """As Trino has it: what is not named goes, what is there stays."""
    alter(session, "SET PROPERTIES partitioning = ARRAY['month(time)', 'truncate(level, 2)']")
    assert partitions(session) == ["Time_month = month(Time)", "level_trunc_2 = truncate[2](level)"]
    alter(session, "SET PROPERTIES partitioning = ARRAY['level', 'truncate(level, 2)']")
    assert partitions(session) == ["level_trunc_2 = truncate[2](level)", "level = identity(level)"]


def test_properties_are_set_and_unset(session: Session) -> None:
    """By keys with dots and dashes, in quotes or not, with brackets as Spark has them."""
    alter(session, "SET PROPERTIES write.target-file-size-bytes = 1000, 'a b' = 'c', flag = TRUE, x = -1.5")
    properties = table(session).properties
    assert properties["write.target-file-size-bytes"] == "1000"
    assert (properties["a b"], properties["flag"], properties["x"]) == ("c", "true", "-1.5")
    alter(session, "SET TBLPROPERTIES ('a b' = DEFAULT, 'k' = 'v')")
    alter(session, "UNSET TBLPROPERTIES ('flag', 'x')")
    properties = table(session).properties
    assert "k" in properties
    assert not {"a b", "flag", "x"} & properties.keys()


def test_a_name_without_quotes_never_means_two_columns(session: Session) -> None:
    """One that is there in other letters is refused; in quotes it is another column, as is a new case of its own."""
    for action, where in (
        ("ADD COLUMN TIME INT", 44),
        ("ADD COLUMN origin.Host INT", 51),
        ("RENAME COLUMN level TO time", 56),
        ("RENAME COLUMN origin.tags TO HOST", 62),
    ):
        with pytest.raises(InvalidRequestError, match=rf"line 1, column {where}: there is a column .* to have both"):
            alter(session, action)
    alter(session, "RENAME COLUMN level TO LEVEL")
    alter(session, 'ADD COLUMN "TIME" INT')
    assert [field.name for field in table(session).schema().fields] == ["LEVEL", "Time", "count", "origin", "TIME"]


def test_a_decimal_keeps_its_scale(session: Session) -> None:
    """Its bounds in manifests are digits without a point: with another scale they would be other numbers."""
    alter(session, "ADD COLUMN price DECIMAL(9, 2)")
    for wrong in ("DECIMAL(9, 3)", "DECIMAL(20, 3)", "DECIMAL(20)"):
        with pytest.raises(InvalidRequestError, match=r"line 1, column 52: price keeps its 2 digits behind the point"):
            alter(session, f"ALTER COLUMN price SET DATA TYPE {wrong}")
    alter(session, "ALTER COLUMN price SET DATA TYPE DECIMAL(20, 2)")
    assert columns(session)[-1] == "price: optional decimal(20, 2)"


@pytest.mark.parametrize(
    ("action", "where", "message"),
    [
        ("ADD COLUMN level INT", 33, "does not allow that: Cannot add column, name already exists: level"),
        ("ADD COLUMN x NUMBER", 46, "NUMBER is no type of an Iceberg column"),
        ("ADD COLUMN x DECIMAL(39, 2)", 46, "is not possible: at most 38 digits"),
        ("ADD COLUMN x TIMESTAMP(3)", 56, "TIMESTAMP(6)"),
        ("ADD COLUMN x FIXED(0)", 46, "FIXED(0) is not between 1 and 2147483647 bytes long"),
        ("ADD COLUMN x ARRAY(FIXED(2147483648))", 52, "FIXED(2147483648) is not between 1 and 2147483647"),
        ("ADD COLUMN x ARRAY(INT", 55, ") is expected, not the end"),
        ("ADD COLUMN x INT AFTER y", 56, "there is no column y; there are level, Time, count, origin"),
        ("DROP COLUMN nothing", 45, "there is no column nothing"),
        ('DROP COLUMN "LEVEL"', 45, "there is no column LEVEL"),
        ("DROP COLUMN origin.port", 52, "there is no column port in origin; there are host, tags"),
        ("RENAME COLUMN level x", 53, "TO is expected, not x"),
        ("ALTER COLUMN level SET DATA TYPE INT", 33, "Cannot change column type: level: string -> int"),
        ("ALTER COLUMN level", 51, "TYPE is expected, not the end"),
        ("ADD PARTITION FIELD week(time)", 53, "there is no transform week"),
        ("ADD PARTITION FIELD day(level)", 53, "is no partition field"),
        ("ADD PARTITION FIELD bucket(0, level)", 60, "a whole number above 0 is expected, not 0"),
        ("DROP PARTITION FIELD level", 54, "there is no partition field level; there are none"),
        ("SET PROPERTIES partitioning = ARRAY['day(']", 69, "line 1, column 5: a column is expected, not the end"),
        ("SET PROPERTIES partitioning = ARRAY['day(x)']", 69, "there is no column x"),
        ("SET PROPERTIES a = 1, a = 2", 55, "property 'a' is given twice"),
        ("SET PROPERTIES uuid = 2", 48, "'uuid' is not a property that can be set"),
        ("SET PROPERTIES a = 1, 'location' = '/x'", 55, "'location' is not a property that can be set"),
        ("SET PROPERTIES 'current-schema' = 'x'", 48, "'current-schema' is not a property that can be set"),
        ("SET PROPERTIES '' = 'x'", 48, "'' is not a property that can be set"),
        (
            "SET PROPERTIES 'metastore.maintenance.unswept' = 'x'",
            48,
            "'metastore.maintenance.unswept' is not a property that can be set",
        ),
        (
            "UNSET PROPERTIES metastore.maintenance.unswept",
            50,
            "'metastore.maintenance.unswept' is not a property that can be set",
        ),
        ("SET PROPERTIES a = b", 52, "a text, a number, TRUE, FALSE or DEFAULT is expected, not b"),
        (
            "MOVE",
            33,
            "REPLACE, RENAME, ALTER COLUMN, CHANGE, SET PROPERTIES or UNSET PROPERTIES is expected, not MOVE",
        ),
        ("DROP COLUMN level now", 51, "the end of the statement is expected, not now"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(session: Session, action: str, where: int, message: str) -> None:
    """Line and column of the word, and the table stays as it is."""
    before = table(session).metadata_location
    with pytest.raises(InvalidRequestError) as raised:
        alter(session, action)
    assert str(raised.value).startswith(f"line 1, column {where}: "), raised.value
    assert message in str(raised.value)
    assert table(session).metadata_location == before


def test_a_column_that_partitions_or_sorts_stays(session: Session) -> None:
    """Until new rows no longer need it."""
    alter(session, "ADD PARTITION FIELD origin.host")
    with pytest.raises(InvalidRequestError, match="drop that partition field first"):
        alter(session, "DROP COLUMN origin")
    alter(session, "DROP PARTITION FIELD origin.host")
    with table(session).update_sort_order() as order:
        order.asc("count", IdentityTransform())
    with pytest.raises(InvalidRequestError, match="part of the table's sort order"):
        alter(session, "DROP COLUMN count")


def test_components_are_not_altered(session: Session) -> None:
    """Their columns are those of units."""
    unit = TableMetadataUnit(
        storage_plugin="dfs",
        workspace="tmp",
        table_name="t",
        metadata_key="GENERAL_INFO",
        metadata_type="TABLE",
        metadata_identifier="GENERAL_INFO",
    )
    session.tables.modify().overwrite([unit]).execute()
    with pytest.raises(InvalidRequestError, match="line 1, column 13: metastore.components.tables is the metastore's"):
        session.sql("ALTER TABLE metastore.components.tables ADD COLUMN x INT")


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("events", InvalidRequestError, "line 1, column 13: a table of a catalog is named by three parts"),
        ("lake.logging.event", NotFoundError, "line 1, column 13: .*did you mean events"),
        ("lak.logging.events", NotFoundError, "line 1, column 13: catalog lak does not exist"),
    ],
)
def test_the_table_must_be_there(session: Session, name: str, error: type[Exception], message: str) -> None:
    """By its three parts."""
    with pytest.raises(error, match=message):
        session.sql(f"ALTER TABLE {name} DROP COLUMN x")


RIGHT = [
    "ADD COLUMN x DECIMAL ( 9 , 2 ) COMMENT 'x' AFTER level",
    "ADD COLUMN IF NOT EXISTS origin . port MAP ( INT , ARRAY ( ROW ( a INT ) ) ) FIRST",
    "DROP COLUMN IF EXISTS origin . tags",
    "RENAME COLUMN level TO severity",
    "ALTER COLUMN count SET DATA TYPE BIGINT",
    "ALTER COLUMN level DROP NOT NULL",
    "ADD PARTITION FIELD bucket ( 16 , level ) AS shard",
    "REPLACE PARTITION FIELD day ( time ) WITH truncate ( level , 2 )",
    "SET PROPERTIES a . b = 'c' , partitioning = ARRAY [ 'day(time)' , 'level' ]",
    "UNSET TBLPROPERTIES ( 'a' , b )",
]
WORDS = [*{word for text in RIGHT for word in text.split()}, "-1", "1.5", "1e9", "NULL", '"a b"', "`q`", ";", "--", "é"]


@st.composite
def almost_right(draw: st.DrawFn) -> str:
    """A statement with words left out, put in and exchanged."""
    words = draw(st.sampled_from(RIGHT)).split()
    for _ in range(draw(st.integers(0, 3))):
        position = draw(st.integers(0, len(words)))
        words[position : position + draw(st.integers(0, 2))] = draw(st.lists(st.sampled_from(WORDS), max_size=2))
    return " ".join(words)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(almost_right())
def test_whatever_is_said_only_our_errors_come_back(session: Session, action: str) -> None:
    """With the place; what happens to be a statement is one."""
    try:
        found = session.sql(f"ALTER TABLE lake.logging.events {action}")
    except (InvalidRequestError, NotFoundError) as error:
        where = str(error)
    else:
        where = f"line 1: {found.num_rows} row"
    assert where.startswith("line ")


@pytest.mark.parametrize("setting", ["format_version = 2", "'format-version' = '2'", '"format-version" = 2'])
def test_the_format_version_is_raised(session: Session, setting: str) -> None:
    """As Trino and as Iceberg write it; no property of that name is left."""
    catalog = session.catalogs.open("lake")
    catalog.create_table("logging.old", SCHEMA, properties={"format-version": "1"})
    session.sql(f"ALTER TABLE lake.logging.old SET PROPERTIES {setting}")
    table = catalog.load_table("logging.old")
    assert (table.metadata.format_version, dict(table.properties)) == (2, {})


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("format_version = 1", "has format version 2, which cannot be lowered"),
        ("format_version = 4", "format version 4: this package writes 1, 2, 3"),
        ("format_version = DEFAULT", "this package writes 1, 2, 3"),
        ("format = 'ORC'", "'format' is Trino's name, and would have no effect: set write.format.default"),
        ("max_commit_retry = 3", "set commit.retry.num-retries"),
    ],
)
def test_what_would_have_no_effect_is_refused(session: Session, setting: str, said: str) -> None:
    """Nothing is kept as a property that nobody reads."""
    with pytest.raises(InvalidRequestError, match=said):
        session.sql(f"ALTER TABLE lake.logging.events SET PROPERTIES {setting}")
    assert dict(session.catalogs.open("lake").load_table("logging.events").properties) == {}
