"""migrate and snapshot_table give properties to the new table; format-version 3 makes a table with row ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadataV3
from services.hive_tables import HiveMaker

from metastore.errors import InvalidRequestError
from metastore.session import Session

Made = Callable[..., str]

pytestmark = pytest.mark.integration


def next_row_id(table: Table) -> int | None:
    """The row id that the next row gets; only version 3 has one."""
    assert isinstance(table.metadata, TableMetadataV3)
    return table.metadata.next_row_id


@pytest.fixture(params=["migrate", "snapshot_table"])
def made(request: pytest.FixtureRequest, session: Session, hive: HiveMaker) -> Made:
    """A function that calls the procedure on a partitioned source of three rows; returns the new table's name."""
    source = hive.table({"id": "bigint"}, {"p": "string"})
    for partition, ids in (("a", [1, 2]), ("b", [3])):
        hive.write(hive.partition(source, partition), {"id": ids})

    def call(properties: dict[str, str], **more: Any) -> str:
        given = {"schema_name": hive.database, "properties": properties, **more}
        if request.param == "migrate":
            session.call("lake.system.migrate", table_name=source, **given)
            return source
        of_source: dict[str, Any] = {"source_schema": hive.database, "source_table": source}
        session.call("lake.system.snapshot_table", table_name="made", **of_source, **given)
        return "made"

    return call


def test_a_table_of_version_3(session: Session, hive: HiveMaker, made: Made) -> None:
    """Its rows have ids from 0 on; commits here continue them, also those that add files of another Hive table."""
    name = made({"format-version": "3", "owner": "me"})
    full = f"lake.{hive.database}.{name}"
    table = session.catalogs.table("lake", hive.database, name).load()
    assert (table.format_version, next_row_id(table), table.properties["owner"]) == (3, 3, "me")
    current = table.metadata.current_snapshot()
    assert current is not None
    assert (current.first_row_id, current.added_rows, current.sequence_number) == (0, 3, 1)
    assert session.sql(f"SELECT id, p FROM {full} ORDER BY id").to_pylist() == [
        {"id": 1, "p": "a"},
        {"id": 2, "p": "a"},
        {"id": 3, "p": "b"},
    ]
    more = hive.table({"id": "bigint"}, {"p": "string"})
    hive.write(hive.partition(more, "c"), {"id": [4, 5]})
    added: dict[str, Any] = {"source_schema": hive.database, "source_table": more}
    session.call("lake.system.add_files_from_hive", schema=hive.database, table_name=name, **added)
    assert next_row_id(session.catalogs.table("lake", hive.database, name).load()) == 5
    session.sql(f"DELETE FROM {full} WHERE id = 1")
    assert [row["id"] for row in session.sql(f"SELECT id FROM {full} ORDER BY id").to_pylist()] == [2, 3, 4, 5]


def test_a_table_without_files(session: Session, hive: HiveMaker) -> None:
    """It is of version 3 too, and its first commit begins with row id 0."""
    source = hive.table({"id": "bigint"})
    session.call(
        "lake.system.migrate", schema_name=hive.database, table_name=source, properties={"format-version": "3"}
    )
    session.sql(f"INSERT INTO lake.{hive.database}.{source} VALUES (1), (2)")
    table = session.catalogs.table("lake", hive.database, source).load()
    assert (table.format_version, next_row_id(table)) == (3, 2)


def test_version_2_is_the_default(session: Session, hive: HiveMaker, made: Made) -> None:
    """With and without other properties."""
    assert session.catalogs.table("lake", hive.database, made({"owner": "me"})).load().format_version == 2


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"format-version": "4"}, "format-version is '4'; new tables have format version 2 or 3"),
        ({"format-version": "1"}, "format-version is '1'"),
        ({"schema.name-mapping.default": "[]"}, "schema.name-mapping.default is set by the procedure itself"),
        ({"": "x"}, "property '' has no name or no value"),
    ],
)
def test_properties_that_are_refused(hive: HiveMaker, made: Made, properties: dict[str, str], reason: str) -> None:
    """Before anything is written."""
    before = sorted(hive.folder.rglob("*"))
    with pytest.raises(InvalidRequestError, match=reason):
        made(properties)
    assert sorted(hive.folder.rglob("*")) == before


def test_int96_is_rewritten_in_version_2_only(session: Session, hive: HiveMaker) -> None:
    """New files would have to keep the ids of rows."""
    source = hive.table({"id": "bigint"})
    with pytest.raises(InvalidRequestError, match="upgrade_format_version"):
        session.call(
            "lake.system.migrate",
            schema_name=hive.database,
            table_name=source,
            rewrite_int96=True,
            properties={"format-version": "3"},
        )


def test_a_table_of_version_3_goes_back_to_hive(session: Session, hive: HiveMaker) -> None:
    """As one of version 2 does."""
    source = hive.table({"id": "bigint"})
    hive.write(source, {"id": [1, 2]})
    before = hive.client.table(hive.database, source)
    named: dict[str, Any] = {"schema_name": hive.database, "table_name": source}
    session.call("lake.system.migrate", **named, properties={"format-version": "3"})
    session.call("lake.system.revert_migration", **named)
    after = hive.client.table(hive.database, source)
    assert (after.sd, after.tableType) == (before.sd, before.tableType)
