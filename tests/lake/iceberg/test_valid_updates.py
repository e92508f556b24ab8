"""Updates whose metadata Iceberg for Java could not read are refused before they are published, in any catalog."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    RemovePartitionSpecsUpdate,
    SetDefaultSpecUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
)
from pyiceberg.transforms import BucketTransform, IdentityTransform, Transform, VoidTransform
from pyiceberg.types import ListType, LongType, NestedField, StringType, StructType, TimestampNanoType

from metastore.errors import InvalidRequestError, NotFoundError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.session import Session, connect

ID, CITY = (NestedField(1, "id", LongType()), NestedField(2, "city", StringType()))


@pytest.fixture(params=["sql", "filesystem"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[TargetTable]:
    """A table of format version 2 with two columns, a partition field and one snapshot, as a session finds it."""
    conf = tmp_path / "site.conf"
    uri = f', uri = "sqlite:///{tmp_path}/lake.db"' if request.param == "sql" else ""
    conf.write_text(
        f'drill.metastore.iceberg.location.base_path = "{tmp_path}/own"\n'
        f'drill.metastore.catalogs.lake {{ type = {request.param}{uri}, warehouse = "file://{tmp_path}/lake" }}'
    )
    with connect(conf) as session:
        session.sql("CREATE SCHEMA lake.db")
        session.sql("CREATE TABLE lake.db.t (id BIGINT, city VARCHAR) WITH (partitioning = ARRAY['city'])")
        session.sql("INSERT INTO lake.db.t VALUES (1, 'a')")
        yield session.catalogs.target("lake", "db", "t")


def schema(*fields: NestedField, number: int = 1) -> AddSchemaUpdate:
    """A new schema of ``fields``."""
    return AddSchemaUpdate(schema_=Schema(*fields, schema_id=number))


def spec(*fields: tuple[int, int, Any, str], number: int = 1) -> AddPartitionSpecUpdate:
    """A new partition spec of fields by source, id, transform and name."""
    return AddPartitionSpecUpdate(spec=PartitionSpec(*(PartitionField(*field) for field in fields), spec_id=number))


def order(*sources: int, number: int = 1) -> AddSortOrderUpdate:
    """A new sort order by columns."""
    fields = (SortField(source_id=source, transform=IdentityTransform()) for source in sources)
    return AddSortOrderUpdate(sort_order=SortOrder(*fields, order_id=number))


def ref(name: str, snapshot: int, kind: SnapshotRefType = SnapshotRefType.TAG) -> SetSnapshotRefUpdate:
    """A ref that points to a snapshot."""
    return SetSnapshotRefUpdate(ref_name=name, type=kind, snapshot_id=snapshot)


IDENTITY: Transform[Any, Any] = IdentityTransform()
NOTHING: Transform[Any, Any] = VoidTransform()
BUCKET: Transform[Any, Any] = BucketTransform(4)
NESTED = NestedField(3, "s", StructType(NestedField(4, "x", LongType()), NestedField(4, "y", LongType())))
FAULTY: dict[str, tuple[TableUpdate, str]] = {
    "a schema with a taken id": (schema(ID, CITY, number=0), "there already is a schema 0"),
    "a field id twice": (schema(ID, NestedField(1, "city", StringType())), "schema 1 has the field id 1 2 times"),
    "a field id twice in a struct": (schema(ID, CITY, NESTED), "schema 1 has the field id 4 2 times"),
    "a type of a later version": (schema(ID, CITY, NestedField(3, "t", TimestampNanoType())), "only supported in 3"),
    "a default of a later version": (
        schema(ID, CITY, NestedField(3, "n", LongType(), initial_default=1)),
        "format version 2 does not have",
    ),
    "a spec with a taken id": (spec((1, 1001, IDENTITY, "id"), number=0), "there already is a partition spec 0"),
    "a partition field id twice": (
        spec((2, 1000, NOTHING, "city_1000"), (2, 1000, IDENTITY, "city")),
        "partition spec 1 has the field id 1000 2 times",
    ),
    "a partition name twice": (spec((1, 1001, BUCKET, "b"), (2, 1002, BUCKET, "b")), "has the name b 2 times"),
    "a partition name of another column": (spec((1, 1001, IDENTITY, "city")), "which is the name of a column"),
    "a partition source that is lost": (
        spec((9, 1001, IDENTITY, "x")),
        "by the column with id 9, which does not exist",
    ),
    "an order with a taken id": (order(1, number=0), "there already is a sort order 0"),
    "an empty order that is not the first": (order(), "0 is the id of the empty order"),
    "an order by a lost column": (order(9), "sort order 1 is by the column with id 9, which does not exist"),
    "a tag of no snapshot": (ref("x", 7), "tag x points to snapshot 7, which does not exist"),
    "main of no snapshot": (ref("main", 7, SnapshotRefType.BRANCH), "branch main points to snapshot 7"),
    "a property that is no number": (
        SetPropertiesUpdate(updates={"write.metadata.previous-versions-max": "abc"}),
        "write.metadata.previous-versions-max",
    ),
    "a lower version": (UpgradeFormatVersionUpdate(format_version=1), "downgrade"),
    "removal of the spec of new rows": (RemovePartitionSpecsUpdate(spec_ids=[0]), "default partition spec"),
    "a default spec that does not exist": (SetDefaultSpecUpdate(spec_id=5), "spec with id 5"),
}


@pytest.mark.parametrize("fault", FAULTY)
def test_what_java_could_not_read_is_refused(target: TargetTable, fault: str) -> None:
    """The error names the fault and says that nothing was changed; no version is published, and none is tried again."""
    update, said = FAULTY[fault]
    before = target.load()
    with pytest.raises(InvalidRequestError, match=said) as refused:
        target.commit(before, [], [update])
    assert "nothing was changed" in str(refused.value).lower()
    assert target.load().metadata_location == before.metadata_location


def test_a_main_that_is_a_tag_and_a_snapshot_without_schema(target: TargetTable) -> None:
    """Both are refused, although the snapshot that they concern exists."""
    table = target.load()
    snapshot = table.metadata.snapshots[0]
    with pytest.raises(InvalidRequestError, match="main would be a tag"):
        target.commit(table, [], [ref("main", snapshot.snapshot_id)])
    other = snapshot.model_copy(update={"snapshot_id": 7, "schema_id": 3, "sequence_number": 2})
    with pytest.raises(InvalidRequestError, match="snapshot 7 has the schema 3, which does not exist"):
        target.commit(table, [], [AddSnapshotUpdate(snapshot=other)])


def test_what_is_valid_is_committed(target: TargetTable) -> None:
    """A new schema with a nested field, a spec and an order of its columns, and a ref, all in one commit."""
    table = target.load()
    nested = NestedField(3, "l", ListType(5, StructType(NestedField(6, "id", LongType()))))
    updates: list[TableUpdate] = [
        schema(ID, CITY, nested, NestedField(4, "late", LongType())),
        spec((2, 1000, NOTHING, "city"), (4, 1001, BUCKET, "late_bucket")),
        order(4, 1),
        ref("kept", table.metadata.snapshots[0].snapshot_id),
    ]
    done = target.commit(table, [], updates)
    assert (len(done.metadata.schemas), len(done.metadata.partition_specs), len(done.metadata.refs)) == (2, 2, 2)


@settings(max_examples=30, deadline=None)
@given(statements=strategies.lists(strategies.integers(0, 9), min_size=1, max_size=12))
def test_partition_fields_that_come_and_go_have_ids_of_their_own(
    tmp_path_factory: pytest.TempPathFactory, statements: list[int]
) -> None:
    """Whatever is dropped, added and upgraded in a table of format version 1: ids and names are unique in each spec."""
    folder = tmp_path_factory.mktemp("lake")
    conf = folder / "site.conf"
    conf.write_text(
        f'drill.metastore {{ iceberg.location.base_path = "{folder}/own"\n'
        f'catalogs.lake {{ type = filesystem, warehouse = "file://{folder}/lake" }} }}'
    )
    with connect(conf) as session:
        session.sql("CREATE SCHEMA lake.db")
        session.sql(
            "CREATE TABLE lake.db.t (id BIGINT, d DOUBLE) "
            "WITH (format_version = 1, partitioning = ARRAY['bucket(2, id)', 'd'])"
        )
        for number in statements:
            _change(session, CHANGES[number])
        metadata = session.catalogs.target("lake", "db", "t").load().metadata
    names: dict[int, set[tuple[int, str]]] = {}
    for each in metadata.partition_specs:
        assert len({field.field_id for field in each.fields}) == len(each.fields), each
        assert len({field.name for field in each.fields}) == len(each.fields), each
        assert all(field.field_id <= (metadata.last_partition_id or 0) for field in each.fields)
        for field in each.fields:
            if not isinstance(field.transform, VoidTransform):
                names.setdefault(field.field_id, set()).add((field.source_id, str(field.transform)))
    assert all(len(meanings) == 1 for meanings in names.values()), names


CHANGES = (
    "DROP PARTITION FIELD d",
    "ADD PARTITION FIELD d",
    "DROP PARTITION FIELD bucket(2, id)",
    "ADD PARTITION FIELD bucket(2, id)",
    "ADD PARTITION FIELD bucket(2, id) AS b",
    "REPLACE PARTITION FIELD bucket(2, id) WITH bucket(4, id) AS id_bucket_2",
    "SET PROPERTIES partitioning = ARRAY['d']",
    "SET PROPERTIES partitioning = ARRAY[]",
    "SET PROPERTIES format_version = 2",
    "SET PROPERTIES format_version = 3",
)


def _change(session: Session, change: str) -> None:
    """Run one ALTER TABLE; a field that is there already, or not, is refused."""
    try:
        session.sql(f"ALTER TABLE lake.db.t {change}")
    except (InvalidRequestError, NotFoundError) as error:
        assert "refused, because other engines" not in str(error), error  # noqa: PT017 - other refusals are right
