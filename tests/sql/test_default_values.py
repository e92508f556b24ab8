"""Default values by SQL: set by CREATE and ALTER TABLE, used by statements on rows, printed by SHOW CREATE TABLE."""

from __future__ import annotations

import json
import math
import re
import struct
from datetime import date, datetime, time, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from metastore.config import Settings
from metastore.errors import InvalidRequestError, StorageError
from metastore.session import Session, connect
from metastore.sql.rows.default_values import constant, constant_text
from metastore.sql.statement import Cursor, Statement
from metastore.sql.tables.column_definition import column_definition

VERSION_3 = "TBLPROPERTIES ('format-version' = '3')"
NANOSECONDS = st.integers(-(2**63) + 1, 2**63 - 1)
VALUES: list[tuple[IcebergType, st.SearchStrategy[Any]]] = [
    (BooleanType(), st.booleans()),
    (IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    (LongType(), st.integers(-(2**63), 2**63 - 1)),
    (FloatType(), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    (DoubleType(), st.floats(allow_nan=False, allow_infinity=False)),
    (DecimalType(38, 10), st.decimals(-(10**28) + 1, 10**28 - 1, places=10)),
    (DecimalType(3, 0), st.decimals(-999, 999, places=0)),
    (StringType(), st.text()),
    (BinaryType(), st.binary()),
    (FixedType(3), st.binary(min_size=3, max_size=3)),
    (UUIDType(), st.uuids()),
    (DateType(), st.dates()),
    (TimeType(), st.times()),
    (TimestampType(), st.datetimes()),
    (TimestamptzType(), st.datetimes(timezones=st.just(timezone.utc))),
    (TimestampNanoType(), NANOSECONDS),
    (TimestamptzNanoType(), NANOSECONDS),
]


def read(text: str, kind: IcebergType) -> Any:
    """The value of a constant."""
    return constant(Cursor(Statement.parse(text))).value(kind)


@given(st.sampled_from(VALUES).flatmap(lambda pair: st.tuples(st.just(pair[0]), pair[1])))
def test_every_value_is_read_as_it_is_written(pair: tuple[IcebergType, Any]) -> None:
    """A decimal keeps its scale, and a number its sign, too."""
    kind, value = pair
    found = read(constant_text(kind, value), kind)
    assert (found, type(found), str(found)) == (value, type(value), str(value))


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("+5", IntegerType(), 5),
        ("7", DoubleType(), 7.0),
        ("1e3", FloatType(), 1000.0),
        ("1.50", DecimalType(9, 1), Decimal("1.5")),
        ("DECIMAL '-1'", DecimalType(9, 2), Decimal("-1.00")),
        ("'0001-01-01'", DateType(), date(1, 1, 1)),
        ("'12:00'", TimeType(), time(12)),
        ("TIME '12:00:00.5'", TimeType(), time(12, 0, 0, 500_000)),
        ("'2020-01-01'", TimestampType(), datetime(2020, 1, 1)),
        ("TIMESTAMP_NTZ '2020-01-01T00:00:00.1'", TimestampType(), datetime(2020, 1, 1, 0, 0, 0, 100_000)),
        ("'2020-01-01 12:00'", TimestamptzType(), datetime(2020, 1, 1, 12, tzinfo=timezone.utc)),
        ("'2020-01-01 12:00:00.25+02:30'", TimestamptzType(), datetime(2020, 1, 1, 9, 30, 0, 250_000, timezone.utc)),
        ("'2020-01-01 12:00 Europe/Berlin'", TimestamptzType(), datetime(2020, 1, 1, 11, tzinfo=timezone.utc)),
        ("'1969-12-31T23:59:59.999999999'", TimestampNanoType(), -1),
        ("'1970-01-01 01:00:00.000000001 +01:00'", TimestamptzNanoType(), 1),
        ("'00000000-0000-0000-0000-00000000000A'", UUIDType(), UUID(int=10)),
        ("x'0aF0'", BinaryType(), b"\n\xf0"),
        ("NULL", FixedType(2), None),
    ],
)
def test_spellings(text: str, kind: IcebergType, value: Any) -> None:
    """Of Trino, of Spark, and of the standard."""
    assert read(text, kind) == value


NO_CONSTANT = "a default value is one constant"
REFUSED = [
    ("INT", "2147483648", "2147483648 is no value of type int"),
    ("INT", "1.0", "1.0 is no value of type int"),
    ("INT", "'1'", "'1' is no value of type int"),
    ("INT", "TRUE", "TRUE is no value of type int"),
    ("BIGINT", "-9223372036854775809", "is no value of type long"),
    ("REAL", "1e39", "1e39 is no value of type float"),
    ("DOUBLE", "1e309", "1e309 is no value of type double"),
    ("DECIMAL(9, 2)", "1.555", "1.555 is no value of type decimal(9, 2)"),
    ("DECIMAL(9, 2)", "12345678", "is no value of type decimal(9, 2)"),
    ("BOOLEAN", "1", "1 is no value of type boolean"),
    ("VARCHAR", "5", "5 is no value of type string"),
    ("VARCHAR", "X'00'", "X'00' is no value of type string"),
    ("VARBINARY", "'text'", "is no value of type binary"),
    ("VARBINARY", "X'000'", "an even number of hexadecimal digits"),
    ("FIXED(2)", "X'00'", "X'00' is no value of type fixed[2]"),
    ("UUID", "'1-2-3'", "'1-2-3' is no value of type uuid"),
    ("DATE", "'2026-02-30'", "'2026-02-30' is no value of type date"),
    ("DATE", "TIMESTAMP '2026-02-03 00:00:00'", "is no value of type date"),
    ("TIME", "'24:00'", "'24:00' is no value of type time"),
    ("TIMESTAMP", "'2026-01-01 00:00:00.1234567'", "is no value of type timestamp"),
    ("TIMESTAMP", "'2026-01-01 00:00:00 UTC'", "is no value of type timestamp"),
    ("TIMESTAMPTZ", "'2026-01-01 00:00:00 Nowhere/At'", "is no value of type timestamptz"),
    ("STRUCT<a: INT>", "1", "1 is no value of type struct: columns of this type have no other default than NULL"),
    ("ARRAY<INT>", "ARRAY[1]", NO_CONSTANT),
    ("INT", "1 + 1", NO_CONSTANT),
    ("INT", "(1)", NO_CONSTANT),
    ("INT", "- - 1", NO_CONSTANT),
    ("INT", "id", NO_CONSTANT),
    ("DATE", "current_date", NO_CONSTANT),
    ("INT", "CAST(1 AS INT)", NO_CONSTANT),
    ("VARCHAR", "'a' || 'b'", NO_CONSTANT),
    ("VARCHAR", "'a'::VARCHAR", NO_CONSTANT),
    ("INT", "", "a constant is expected, not the end"),
    ("INT", "1 DEFAULT 2", "DEFAULT is given twice"),
]


@pytest.fixture
def session(bare: Session) -> Session:
    """With the empty table ``lake.db.t`` of version 3."""
    bare.sql("CREATE SCHEMA lake.db")
    bare.sql(
        f"CREATE TABLE lake.db.t (id BIGINT, s STRUCT<x: INT>, a ARRAY<STRUCT<y: INT>>, ints ARRAY<INT>) {VERSION_3}"
    )
    return bare


def metadata_of(session: Session, name: str = "t") -> str:
    """Where the metadata is."""
    return session.catalogs.open("lake").load_table(f"db.{name}").metadata_location


def schema_of(session: Session, name: str = "t") -> Schema:
    """The schema as PyIceberg has it."""
    return session.catalogs.open("lake").load_table(f"db.{name}").schema()


def rows(session: Session, name: str = "t") -> list[dict[str, Any]]:
    """All rows by ``id``."""
    return session.sql(f"SELECT * FROM lake.db.{name} ORDER BY id").to_pylist()


def refused(session: Session, statement: str, message: str) -> None:
    """The statement is an error with its place, and changes nothing."""
    before = metadata_of(session)
    with pytest.raises(InvalidRequestError) as error:
        session.sql(statement)
    assert message in str(error.value)
    assert str(error.value).startswith("line 1, column ")
    assert metadata_of(session) == before


@pytest.mark.parametrize(("kind", "text", "message"), REFUSED)
def test_what_is_no_value_of_the_type_is_refused(kind: str, text: str, message: str) -> None:
    """The message has the place of the constant, and the next step where there is one."""
    with pytest.raises(InvalidRequestError, match=re.escape(message)) as error:
        column_definition(Cursor(Statement.parse(f"{kind} DEFAULT {text}")))
    assert str(error.value).startswith("line 1, column ")


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("ADD COLUMN c INT DEFAULT 'x'", "'x' is no value of type int"),
        ("ALTER COLUMN s.x SET DEFAULT 'x'", "'x' is no value of type int"),
        ("ALTER COLUMN s SET DEFAULT 1", "struct: columns of this type have no other default than NULL"),
        ("ALTER COLUMN id SET DEFAULT id", NO_CONSTANT),
        ("ALTER COLUMN nope SET DEFAULT 1", "there is no column nope"),
    ],
)
def test_a_statement_with_a_wrong_default_changes_nothing(session: Session, action: str, message: str) -> None:
    """Also not what its other actions say. The type of a column that exists is known only when the change is made."""
    refused(session, f"ALTER TABLE lake.db.t ADD COLUMN fine INT, {action}", message)


@pytest.mark.parametrize("version", [1, 2])
def test_older_format_versions_have_none(bare: Session, version: int) -> None:
    """The error says how to get version 3; one statement can do both. DEFAULT NULL and DROP DEFAULT are allowed."""
    bare.sql("CREATE SCHEMA lake.db")
    bare.sql(f"CREATE TABLE lake.db.t (id BIGINT) TBLPROPERTIES ('format-version' = '{version}')")
    bare.sql("INSERT INTO lake.db.t VALUES (1)")
    needed = f"default values need format version 3, and the table has version {version}"
    refused(bare, "ALTER TABLE lake.db.t ADD COLUMN c INT DEFAULT 5", needed)
    refused(bare, "ALTER TABLE lake.db.t ALTER COLUMN id SET DEFAULT 5", needed)
    bare.sql("ALTER TABLE lake.db.t ADD COLUMN n INT DEFAULT NULL, ALTER COLUMN id DROP DEFAULT")
    bare.sql("UPDATE lake.db.t SET n = DEFAULT")
    bare.sql("ALTER TABLE lake.db.t SET PROPERTIES format_version = 3, ADD COLUMN c INT DEFAULT 5")
    assert rows(bare) == [{"id": 1, "n": None, "c": 5}]


def test_rows_get_the_default_of_their_time(session: Session) -> None:
    """Old rows keep the initial default, whatever new rows get; so a required column can be added."""
    session.sql("INSERT INTO lake.db.t VALUES (1, {'x': 1}, [{'y': 1}], [1]), (2, NULL, NULL, NULL)")
    session.sql(
        "ALTER TABLE lake.db.t ADD COLUMN c INT DEFAULT 5 NOT NULL COMMENT 'it' FIRST, ADD COLUMN s.z INT DEFAULT 6, "
        "ADD COLUMN a.element.z INT DEFAULT 7"
    )
    old: list[dict[str, Any]] = [
        {"c": 5, "id": 1, "s": {"x": 1, "z": 6}, "a": [{"y": 1, "z": 7}], "ints": [1]},
        {"c": 5, "id": 2, "s": None, "a": None, "ints": None},
    ]
    assert rows(session) == old
    session.sql("INSERT INTO lake.db.t (id) VALUES (3)")
    answer = session.sql("ALTER TABLE lake.db.t ALTER COLUMN C SET DEFAULT -6, ALTER COLUMN a.element.z SET DEFAULT 8")
    assert answer["ok"].to_pylist() == [True]
    session.sql("INSERT INTO lake.db.t (id) VALUES (4)")
    session.sql("ALTER TABLE lake.db.t ALTER COLUMN c DROP DEFAULT")
    with pytest.raises(InvalidRequestError, match="column c is required"):
        session.sql("INSERT INTO lake.db.t (id) VALUES (5)")
    new = [{"c": value, "id": number, "s": None, "a": None, "ints": None} for number, value in ((3, 5), (4, -6))]
    assert rows(session) == old + new
    assert session.sql("ALTER TABLE lake.db.t ALTER COLUMN c DROP DEFAULT")["ok"].to_pylist() == [False]
    session.sql("ALTER TABLE lake.db.t RENAME COLUMN c TO d")
    session.sql("ALTER TABLE lake.db.t ALTER COLUMN d SET DATA TYPE BIGINT")
    field = schema_of(session).find_field("d")
    assert (field.initial_default, field.write_default, field.required, field.doc) == (5, None, True, "it")
    refused(session, "ALTER TABLE lake.db.t ADD COLUMN e INT NOT NULL", "give it a DEFAULT")
    refused(session, "ALTER TABLE lake.db.t ALTER COLUMN ints.element SET DEFAULT 1", "part of a list or map")


def test_default_is_a_value(session: Session) -> None:
    """In INSERT, INSERT OVERWRITE, UPDATE and MERGE, and exact for every type; NULL without a default."""
    uuid, moment = "00000000-0000-0000-0000-000000000007", datetime(2020, 1, 1, tzinfo=timezone.utc)
    session.sql(
        f"CREATE TABLE lake.db.d (id INT, c INT DEFAULT 5, u UUID DEFAULT '{uuid}', "
        f"m TIMESTAMPTZ DEFAULT '2020-01-01', e DECIMAL(30, 2) DEFAULT 1, n INT) {VERSION_3}"
    )

    def row(number: int, **other: Any) -> dict[str, Any]:
        return {"id": number, "c": 5, "u": uuid, "m": moment, "e": Decimal("1.00"), "n": None} | other

    session.sql(
        "INSERT INTO lake.db.d VALUES (1, DEFAULT, DEFAULT, DEFAULT, 2.5, 1), "
        f"(2, 7, UUID '{uuid[:-1]}8', NULL, DEFAULT, DEFAULT), "
        "(3, default, NULL, TIMESTAMPTZ '2020-01-01 00:00:00+00', NULL, (SELECT 9))"
    )
    expected = [
        row(1, e=Decimal("2.50"), n=1),
        row(2, c=7, u=f"{uuid[:-1]}8", m=None),
        row(3, u=None, e=None, n=9),
    ]
    assert rows(session, "d") == expected
    session.sql("UPDATE lake.db.d SET u = DEFAULT, m = DEFAULT, n = DEFAULT, c = c + 1 WHERE id > 1")
    session.sql(
        "MERGE INTO lake.db.d USING (SELECT unnest([1, 4]) AS id) AS s ON d.id = s.id "
        "WHEN MATCHED THEN UPDATE SET e = DEFAULT, n = s.id "
        "WHEN NOT MATCHED THEN INSERT (m, id, n) VALUES (DEFAULT, s.id, DEFAULT) "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = DEFAULT"
    )
    assert rows(session, "d") == [row(1, n=1), row(2, c=8), row(3, c=6, e=None), row(4)]
    session.sql("INSERT OVERWRITE lake.db.d (n, id) VALUES (DEFAULT, DEFAULT), (1, 1)")
    assert rows(session, "d") == [row(1, n=1), row(None)]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO lake.db.t (id) VALUES (DEFAULT + 1)",
        "INSERT INTO lake.db.t (id) SELECT DEFAULT",
        "INSERT INTO lake.db.t (id) VALUES (DEFAULT), (1) ORDER BY 1",
        'INSERT INTO lake.db.t (id) VALUES ("DEFAULT")',
        "UPDATE lake.db.t SET id = DEFAULT + 1",
        "UPDATE lake.db.t SET id = 1 WHERE id = DEFAULT",
    ],
)
def test_default_is_no_expression(session: Session, statement: str) -> None:
    """It is a whole value."""
    session.sql("ALTER TABLE lake.db.t ALTER COLUMN id SET DEFAULT 5")
    refused(session, statement, "")


KINDS: dict[str, str] = {
    "BOOLEAN": "FALSE",
    "INTEGER": "-5",
    "REAL": "0.1",
    "DOUBLE": "1e-300",
    "DECIMAL(20, 10)": "0.0000000001",
    "DATE": "DATE '0001-01-01'",
    "TIME": "TIME '00:00:00.000001'",
    "TIMESTAMP": "TIMESTAMP '1969-12-31 23:59:59.999999'",
    "TIMESTAMPTZ": "TIMESTAMP '2020-01-01 00:00:00 UTC'",
    "VARCHAR": "'it''s\n-- not a comment'",
    "VARBINARY": "X''",
    "FIXED(2)": "X'00ff'",
    "UUID": "UUID '00000000-0000-0000-0000-000000000007'",
}


@pytest.mark.exhaustive
def test_conditions_on_columns_that_files_lack(session: Session) -> None:
    """A file without the column is read, or not, by its initial default: PyIceberg compares days, not dates."""
    session.sql("INSERT INTO lake.db.t (id) VALUES (1), (2)")
    columns = ", ".join(f"c{number} {kind} DEFAULT {text}" for number, (kind, text) in enumerate(KINDS.items()))
    session.sql(f"ALTER TABLE lake.db.t ADD COLUMNS ({columns})")
    for number, (kind, text) in enumerate(KINDS.items()):
        if kind in ("VARBINARY", "FIXED(2)"):  # DuckDB's constants of bytes are others
            continue
        name, value = f"c{number}", f"CAST({text} AS {kind})".replace(" UTC'", "+00'")
        asked = [f"{name} {sign} {value}" for sign in ("=", "<>", "<", "<=", ">", ">=")]
        asked += [f"{name} IS NULL", f"{name} IN ({value})", f"{name} NOT IN ({value}) OR id = 1"]
        found = [session.sql(f"SELECT count(*) AS n FROM lake.db.t WHERE {each}")["n"][0].as_py() for each in asked]
        assert found == [2, 0, 0, 2, 0, 2, 0, 2, 1], kind


def test_the_text_of_a_table_makes_its_defaults(session: Session) -> None:
    """With the statements for afterwards; initial defaults within structs are only named in a comment."""
    columns = ", ".join(f"c{number} {kind} DEFAULT {text}" for number, (kind, text) in enumerate(KINDS.items()))
    session.sql(f"CREATE TABLE lake.db.d ({columns}, plain INT, s STRUCT<x: INT>) {VERSION_3}")
    assert None not in [field.initial_default for field in schema_of(session, "d").fields[:-2]]
    session.sql(
        "ALTER TABLE lake.db.d ALTER COLUMN c1 SET DEFAULT 6, ALTER COLUMN c0 DROP DEFAULT, "
        "ALTER COLUMN s SET DEFAULT NULL, ALTER COLUMN s.x SET DEFAULT 3, ALTER COLUMN plain SET DEFAULT 1"
    )
    text = session.sql("SHOW CREATE TABLE lake.db.d")["CREATE_TABLE"][0].as_py()
    place = session.catalogs.open("lake").load_table("db.d").location()
    first, *notes = text.replace("lake.db.d", "lake.db.u").replace(place, f"{place}-u").split("\n-- then: ")
    assert len(notes) == 4
    for statement in [first, *notes]:
        session.sql(statement)
    assert schema_of(session, "u") == schema_of(session, "d")
    session.sql("ALTER TABLE lake.db.d ADD COLUMN s.y INT DEFAULT 4")
    text = session.sql("SHOW CREATE TABLE lake.db.d")["CREATE_TABLE"][0].as_py()
    assert (
        "\n-- the column s.y is 4 in rows of files without it\n-- then: ALTER TABLE lake.db.d ALTER COLUMN s.y SET"
        in text
    )


def test_metadata_has_the_values_of_the_specification(session: Session) -> None:
    """Both defaults of a new column, in the JSON that the specification gives for each type. PyIceberg reads them."""
    columns = ", ".join(f"c{number} {kind} DEFAULT {text}" for number, (kind, text) in enumerate(KINDS.items()))
    session.sql("INSERT INTO lake.db.t (id) VALUES (1)")
    session.sql(f"ALTER TABLE lake.db.t ADD COLUMNS ({columns})")
    session.sql("INSERT INTO lake.db.t (id) VALUES (1)")
    theirs = session.catalogs.open("lake").load_table("db.t").scan().to_arrow().drop_columns(["s", "a", "ints"])
    assert theirs.slice(0, 1).equals(theirs.slice(1, 1))
    assert all(column.null_count == 0 for column in theirs.columns)
    content = json.loads(Path(metadata_of(session).removeprefix("file://")).read_text())
    current = next(each for each in content["schemas"] if each["schema-id"] == content["current-schema-id"])
    found = [(field["initial-default"], field["write-default"]) for field in current["fields"][4:]]
    expected = [
        False, -5, 0.1, 1e-300, "0.0000000001", "0001-01-01", "00:00:00.000001", "1969-12-31T23:59:59.999999",
        "2020-01-01T00:00:00+00:00", "it's\n-- not a comment", "", "00ff", "00000000-0000-0000-0000-000000000007",
    ]  # fmt: skip
    assert found == [(each, each) for each in expected]


def test_columns_change_beside_defaults_in_the_spelling_of_others(session: Session) -> None:
    """Iceberg for Java writes bytes in upper case and times without zeros at the end; some writers write null."""
    spelled = {"VARBINARY": "00FF", "FIXED(2)": "00FF", "TIME": "01:02:03.5", "TIMESTAMP": "2020-01-01T00:00:00.5"}
    columns = ", ".join(f'"{kind}" {kind}' for kind in spelled)
    session.sql(f"ALTER TABLE lake.db.t ADD COLUMNS ({columns})")
    path = Path(metadata_of(session).removeprefix("file://"))
    content = json.loads(path.read_text())
    for field in content["schemas"][-1]["fields"][:4]:
        field["initial-default"] = field["write-default"] = None
    for field in content["schemas"][-1]["fields"][4:]:
        field["initial-default"] = field["write-default"] = spelled[field["name"]]
    path.write_text(json.dumps(content))
    session.sql("ALTER TABLE lake.db.t ADD COLUMN late INT DEFAULT 1")
    defaults = [field.write_default for field in schema_of(session).fields[4:]]
    assert defaults == [b"\0\xff", b"\0\xff", time(1, 2, 3, 500_000), datetime(2020, 1, 1, 0, 0, 0, 500_000), 1]
    content = json.loads(Path(metadata_of(session).removeprefix("file://")).read_text())
    content["schemas"][-1]["fields"][0]["new-attribute"] = 1
    Path(metadata_of(session).removeprefix("file://")).write_text(json.dumps(content))
    with pytest.raises(StorageError, match="attributes that this package does not know"):
        session.sql("ALTER TABLE lake.db.t ADD COLUMN later INT")


def test_a_catalog_of_folders_keeps_the_defaults_of_a_new_table(tmp_path: Path) -> None:
    """New tables get their ids in every catalog by the same function, which must not lose defaults."""
    given = {
        "iceberg.location.base_path": str(tmp_path),
        "catalogs.lake": {"type": "filesystem", "warehouse": str(tmp_path / "lake")},
    }
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as session:
        session.sql("CREATE SCHEMA lake.db")
        session.sql(f"CREATE TABLE lake.db.t (id INT NOT NULL DEFAULT 5, n INT) {VERSION_3}")
        session.sql("INSERT INTO lake.db.t (n) VALUES (1)")
        assert rows(session) == [{"id": 5, "n": 1}]
        [field, _] = schema_of(session).fields
        assert field == NestedField(1, "id", IntegerType(), required=True, initial_default=5, write_default=5)


def test_a_float_is_rounded_as_the_column_rounds_it(session: Session) -> None:
    """The default of a REAL is the nearest one, as a row that is inserted has it."""
    session.sql("INSERT INTO lake.db.t (id) VALUES (1)")
    session.sql("ALTER TABLE lake.db.t ADD COLUMN r REAL DEFAULT 0.1")
    session.sql("INSERT INTO lake.db.t (id, r) VALUES (2, 0.1), (3, DEFAULT)")
    [nearest] = struct.unpack("f", struct.pack("f", 0.1))
    assert all(math.isclose(row["r"], nearest, rel_tol=0) for row in rows(session))
