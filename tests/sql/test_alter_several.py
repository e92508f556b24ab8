"""Several actions of ALTER TABLE are one commit; sort orders, identifier fields and names of tables change by it."""

from __future__ import annotations

from typing import Any

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import DoubleType, IntegerType, ListType, NestedField, StringType, StructType, TimestampType

from metastore.errors import InvalidRequestError, NotFoundError
from metastore.session import Session

SCHEMA = Schema(
    NestedField(1, "id", IntegerType(), required=True),
    NestedField(2, "ts", TimestampType(), required=False),
    NestedField(3, "tags", ListType(4, StringType(), element_required=False), required=False),
    NestedField(5, "o", StructType(NestedField(6, "host", StringType(), required=True)), required=True),
    NestedField(7, "d", DoubleType(), required=True),
)


@pytest.fixture(params=["2", "3"])
def session(bare: Session, request: pytest.FixtureRequest) -> Session:
    """With the table ``lake.logging.events`` of format version 2 or 3."""
    catalog = bare.catalogs.open("lake")
    for name in ("logging", "other"):
        catalog.create_namespace(name)
    catalog.create_table("logging.events", SCHEMA)
    if request.param == "3":
        bare.sql("ALTER TABLE lake.logging.events SET PROPERTIES format_version = 3")
    return bare


def alter(session: Session, action: str) -> dict[str, Any]:
    """The row of an ALTER TABLE."""
    [row] = session.sql(f"ALTER TABLE lake.logging.events {action}").to_pylist()
    return dict(row)


def table(session: Session, name: str = "logging.events") -> Table:
    """The table as it is now."""
    return session.catalogs.open("lake").load_table(name)


def order(session: Session) -> list[str]:
    """The sort order of new rows, as PyIceberg writes it, with the names of columns."""
    found = table(session)
    name = found.schema().find_column_name
    return [
        f"{name(each.source_id)} {each.transform} {each.direction.name} {each.null_order.name}"
        for each in found.sort_order().fields
    ]


def test_several_actions_are_one_commit(session: Session) -> None:
    """Each sees what those before it did; lists of their own do not swallow the next action."""
    before = len(table(session).metadata.metadata_log)
    answer = alter(
        session,
        "ADD COLUMN a VARCHAR COMMENT 'x, y', RENAME COLUMN a TO b, ADD COLUMNS (m MAP<INT, STRING> AFTER id, n REAL), "
        "ADD PARTITION FIELD bucket(4, id), SET PROPERTIES p = '1', add = 2, q = '3', DROP COLUMN d, "
        "UNSET TBLPROPERTIES (r, drop), WRITE ORDERED BY b DESC, id, SET IDENTIFIER FIELDS id, o.host, "
        "ALTER COLUMN b COMMENT 'z'",
    )
    assert answer["ok"] is True
    found = table(session)
    assert len(found.metadata.metadata_log) == before + 1
    assert [field.name for field in found.schema().fields] == ["id", "m", "ts", "tags", "o", "b", "n"]
    assert found.schema().find_field("b").doc == "z"
    assert found.schema().identifier_field_names() == {"id", "o.host"}
    assert {key: found.properties[key] for key in "pq"} | {"add": found.properties["add"]} == {
        "p": "1",
        "q": "3",
        "add": "2",
    }
    assert [str(field.transform) for field in found.spec().fields] == ["bucket[4]"]
    assert order(session) == ["b identity DESC NULLS_LAST", "id identity ASC NULLS_FIRST"]


@pytest.mark.parametrize(
    ("actions", "where", "message"),
    [
        ("ADD COLUMN a INT, DROP COLUMN nothing", 63, "there is no column nothing"),
        ("ADD COLUMN a INT, ADD COLUMN a INT", 51, "already exists"),
        ("ADD COLUMN a INT, SET IDENTIFIER FIELDS ts", 51, "not a required field"),
        ("SET IDENTIFIER FIELDS d", 33, "must not be float or double"),
        ("SET IDENTIFIER FIELDS tags.element", 33, "not a required field"),
        ("DROP IDENTIFIER FIELDS id", 56, "id is no identifier field; there are none"),
        ("ADD COLUMN a INT, WRITE ORDERED BY tags", 68, "tags is list<string>, by which rows cannot be sorted"),
        ("WRITE ORDERED BY tags.element", 50, "inside a list or map"),
        ("WRITE ORDERED BY day(id)", 50, "to which the transform does not apply"),
        ("WRITE ORDERED id", 47, "BY is expected, not id"),
        ("WRITE LOCALLY", 46, "ORDERED BY is expected, not the end"),
        ("WRITE", 38, "UNORDERED is expected, not the end"),
        ("SET PROPERTIES sorted_by = ARRAY['nothing']", 60, "there is no column 'nothing'"),
        ("ADD COLUMN a INT,", 50, "is expected, not the end"),
        ("ADD COLUMNS (a INT, b INT", 58, ", or ) is expected, not the end"),
        ("ADD COLUMN a INT, RENAME TO b", 51, "RENAME TO cannot be combined"),
        ("RENAME TO b, DROP COLUMN d", 0, "RENAME TO cannot be combined"),
    ],
)
def test_a_wrong_action_changes_nothing(session: Session, actions: str, where: int, message: str) -> None:
    """The error has the place of that action; those before it are not committed either."""
    before = table(session).metadata_location
    with pytest.raises(InvalidRequestError, match="line 1, column ") as raised:
        alter(session, actions)
    assert message in str(raised.value)
    if where:
        assert str(raised.value).startswith(f"line 1, column {where}: "), raised.value
    assert table(session).metadata_location == before


@pytest.mark.parametrize(
    ("action", "expected", "mode"),
    [
        ("WRITE ORDERED BY id", ["id identity ASC NULLS_FIRST"], "range"),
        ("WRITE ORDERED BY bucket(4, ID) DESC NULLS FIRST", ["id bucket[4] DESC NULLS_FIRST"], "range"),
        ("WRITE LOCALLY ORDERED BY o.host ASC NULLS LAST", ["o.host identity ASC NULLS_LAST"], "none"),
        ("WRITE DISTRIBUTED BY PARTITION ORDERED BY day(ts)", ["ts day ASC NULLS_FIRST"], "hash"),
        ("WRITE DISTRIBUTED BY PARTITION", [], "hash"),
        ("WRITE UNORDERED", [], "none"),
        ("SET PROPERTIES sorted_by = ARRAY['id DESC']", ["id identity DESC NULLS_LAST"], None),
    ],
)
def test_the_sort_order_is_set_once(session: Session, action: str, expected: list[str], mode: str | None) -> None:
    """A second time there is nothing to change; UNORDERED, or DEFAULT, takes it away; rows are written in the order."""
    assert alter(session, action)["ok"] is True
    assert order(session) == expected
    assert table(session).properties.get("write.distribution-mode") == mode
    assert alter(session, action)["ok"] is False
    alter(session, "SET PROPERTIES sorted_by = DEFAULT, x = '1'")
    assert order(session) == []
    assert "sorted_by" not in table(session).properties


def test_rows_are_written_in_the_new_order(session: Session) -> None:
    """INSERT sorts each file, and its entry says by which order."""
    alter(session, "DROP COLUMN tags, DROP COLUMN o, DROP COLUMN d, WRITE ORDERED BY id DESC")
    session.sql("INSERT INTO lake.logging.events VALUES (1, NULL), (3, NULL), (2, NULL)")
    assert session.sql("SELECT id FROM lake.logging.events")["id"].to_pylist() == [3, 2, 1]
    shown = session.sql('SELECT sort_order_id FROM lake.logging."events$files"')
    assert shown["sort_order_id"].to_pylist() == [table(session).sort_order().order_id]


def test_identifier_fields_follow_their_columns(session: Session) -> None:
    """A renamed one stays, a needed one is not dropped; DROP takes away the named ones."""
    alter(session, "SET IDENTIFIER FIELDS id, o.host")
    alter(session, "RENAME COLUMN id TO key")
    assert table(session).schema().identifier_field_names() == {"key", "o.host"}
    with pytest.raises(InvalidRequestError, match="update the identifier fields first"):
        alter(session, "DROP COLUMN key")
    assert alter(session, "DROP IDENTIFIER FIELDS o.host, DROP COLUMN o")["ok"] is True
    assert table(session).schema().identifier_field_names() == {"key"}
    assert alter(session, "SET IDENTIFIER FIELDS key")["ok"] is False


@pytest.mark.parametrize(
    ("name", "expected"),
    [("b", "logging.b"), ("other.events", "other.events"), ("LAKE.other.b", "other.b"), ('"to"', "logging.to")],
)
def test_a_table_gets_another_name(session: Session, name: str, expected: str) -> None:
    """In its schema or in another one; its rows and its history stay."""
    before = table(session).metadata.table_uuid
    answer = alter(session, f"RENAME TO {name}")
    assert answer == {"ok": True, "summary": f"lake.logging.events: is renamed to lake.{expected}"}
    assert table(session, expected).metadata.table_uuid == before
    with pytest.raises(NotFoundError):
        session.sql("SELECT * FROM lake.logging.events")
    assert session.sql(f"SELECT * FROM lake.{expected.replace('to', chr(34) + 'to' + chr(34))}").num_rows == 0


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("events", InvalidRequestError, "lake.logging.events has that name already"),
        ("other.taken", InvalidRequestError, "table lake.other.taken exists already"),
        ("nowhere.events", NotFoundError, "schema lake.nowhere does not exist"),
        ("metastore.components.x", InvalidRequestError, "keeps its catalog"),
    ],
)
def test_a_name_that_cannot_be_given_is_refused(
    session: Session, name: str, kind: type[Exception], message: str
) -> None:
    """With its place; the table keeps its name."""
    session.catalogs.open("lake").create_table("other.taken", SCHEMA)
    with pytest.raises(kind, match=f"line 1, column 43: .*{message}"):
        alter(session, f"RENAME TO {name}")
    assert len(table(session).schema().fields) == 5


def test_columns_may_be_called_like_actions(session: Session) -> None:
    """A direction after a comma and such a name belongs to the name."""
    alter(session, "ADD COLUMN add INT, ADD COLUMN set INT NOT NULL")
    alter(session, "WRITE ORDERED BY id, add DESC, set NULLS LAST, SET IDENTIFIER FIELDS id, set")
    assert [each.split()[0] for each in order(session)] == ["id", "add", "set"]
    assert table(session).schema().identifier_field_names() == {"id", "set"}


def test_a_column_called_to_is_renamed(session: Session) -> None:
    """RENAME to TO x is about a column."""
    alter(session, 'ADD COLUMN "TO" INT')
    alter(session, "RENAME TO TO x")
    assert "x" in {field.name for field in table(session).schema().fields}
