"""Columns of times in nanoseconds, which tables have from format version 3 on."""

from __future__ import annotations

import pytest
from pyiceberg.types import TimestampNanoType, TimestamptzNanoType

from metastore.errors import InvalidRequestError
from metastore.session import Session

TIME = "2021-01-01 00:00:00.123456789"
SPELLINGS = {
    "TIMESTAMP_NS": TimestampNanoType(),
    "TIMESTAMP(9)": TimestampNanoType(),
    "TIMESTAMP(9) WITHOUT TIME ZONE": TimestampNanoType(),
    "TIMESTAMPTZ_NS": TimestamptzNanoType(),
    "TIMESTAMP(9) WITH TIME ZONE": TimestamptzNanoType(),
}


@pytest.fixture
def session(bare: Session) -> Session:
    """With the schema ``lake.db``, which is empty."""
    bare.sql("CREATE SCHEMA lake.db")
    return bare


def kinds(session: Session, name: str) -> list[object]:
    """The types of a table's columns, as PyIceberg has them."""
    return [field.field_type for field in session.catalogs.open("lake").load_table(f"db.{name}").schema().fields]


def test_every_spelling_makes_the_type(session: Session) -> None:
    """In CREATE TABLE, in ADD COLUMN, and in what SHOW CREATE TABLE prints."""
    columns = ", ".join(f"c{number} {spelling}" for number, spelling in enumerate(SPELLINGS))
    session.sql(f"CREATE TABLE lake.db.t ({columns}) WITH (format_version = 3)")
    session.sql("CREATE TABLE lake.db.u (id BIGINT) WITH (format_version = 3)")
    for number, spelling in enumerate(SPELLINGS):
        session.sql(f"ALTER TABLE lake.db.u ADD COLUMN c{number} {spelling}")
    assert kinds(session, "t") == kinds(session, "u")[1:] == list(SPELLINGS.values())
    text = session.sql("SHOW CREATE TABLE lake.db.t").to_pylist()[0]["CREATE_TABLE"]
    session.sql("DROP TABLE lake.db.t")
    session.sql(text)
    assert kinds(session, "t") == list(SPELLINGS.values())


def test_values_keep_their_digits(session: Session) -> None:
    """Through INSERT, UPDATE, partitions by day, CREATE TABLE AS, and conditions."""
    session.sql("CREATE TABLE lake.db.t (id BIGINT, a TIMESTAMP(9)) PARTITIONED BY (days(a)) WITH (format_version = 3)")
    session.sql(f"INSERT INTO lake.db.t VALUES (1, TIMESTAMP_NS '{TIME}'), (2, NULL)")
    session.sql("UPDATE lake.db.t SET a = TIMESTAMP_NS '1969-12-31 23:59:59.999999999' WHERE id = 2")
    session.sql("CREATE TABLE lake.db.u TBLPROPERTIES ('format-version' = 3) AS SELECT a, [a] AS l FROM lake.db.t")
    assert kinds(session, "u")[0] == TimestampNanoType()
    found = session.sql(
        "SELECT CAST(a AS VARCHAR) AS a, CAST(l[1] AS VARCHAR) AS l FROM lake.db.u ORDER BY a"
    ).to_pylist()
    assert [(row["a"], row["l"]) for row in found] == [
        ("1969-12-31 23:59:59.999999999", "1969-12-31 23:59:59.999999999"),
        (TIME, TIME),
    ]
    before = TIME[:-1] + "8"
    assert session.sql(f"SELECT id FROM lake.db.t WHERE a > TIMESTAMP_NS '{before}'").to_pylist() == [{"id": 1}]


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE lake.db.n (a TIMESTAMP(9))",
        "CREATE TABLE lake.db.n (a ARRAY(ROW(b TIMESTAMP_NS)))",
        "ALTER TABLE lake.db.v2 ADD COLUMN a TIMESTAMPTZ_NS",
        "ALTER TABLE lake.db.v2 ADD COLUMN a MAP(VARCHAR, TIMESTAMP(9))",
    ],
)
def test_older_versions_refuse_the_type(session: Session, statement: str) -> None:
    """With its place, and what to do; nothing is changed."""
    session.sql("CREATE TABLE lake.db.v2 (id BIGINT)")
    with pytest.raises(
        InvalidRequestError, match=r"line 1, column \d+: .* needs format version 3, .* format_version = 3"
    ):
        session.sql(statement)
    assert session.catalogs.tables("lake", "db") == ["v2"]
    assert len(kinds(session, "v2")) == 1


def test_a_table_of_version_2_takes_no_digit_that_it_would_lose(session: Session) -> None:
    """CREATE TABLE AS says so; whole microseconds are stored."""
    with pytest.raises(InvalidRequestError, match="below format version 3 have times in microseconds"):
        session.sql(f"CREATE TABLE lake.db.t AS SELECT TIMESTAMP_NS '{TIME}' AS a")
    assert session.catalogs.tables("lake", "db") == []
    session.sql(f"CREATE TABLE lake.db.t AS SELECT TIMESTAMP_NS '{TIME[:-3]}' AS a")
    assert session.sql("SELECT CAST(a AS VARCHAR) AS a FROM lake.db.t").to_pylist() == [{"a": TIME[:-3]}]
