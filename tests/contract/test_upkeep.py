"""A component's table is kept in line with configuration and unit when it is opened for writing, and only then."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform, TruncateTransform
from pyiceberg.types import NestedField, StringType

from metastore.components.metastore import Metastore
from metastore.errors import FormatError, InvalidRequestError
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.model.mapping.schema import iceberg_schema, partition_spec
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
OpenMetastore = Callable[..., Metastore]
ALL = MetadataType.ALL


def with_properties(open_metastore: OpenMetastore, **properties: str) -> Metastore:
    """A metastore whose tables component is configured with ``properties``."""
    return open_metastore(components={"tables": {"properties": properties}})


def not_own(metastore: Metastore) -> dict[str, str]:
    """Properties of the table that are not the metastore's own books."""
    return {k: v for k, v in metastore.tables.metadata.properties.items() if not k.startswith("metastore.")}


@pytest.fixture
def catalog(tmp_path: Path) -> FileSystemCatalog:
    """The catalog of the metastore that ``open_metastore`` opens."""
    return FileSystemCatalog("test", str(tmp_path / "metastore"))


class TestProperties:
    def test_configured_properties_stand_on_the_table(self, open_metastore: OpenMetastore, unit: MakeUnit) -> None:
        """Common ones and the component's, which win."""
        metastore = open_metastore(
            components={"common": {"properties": {"a": "1", "b": "1"}}, "tables": {"properties": {"b": "2"}}}
        )
        assert metastore.tables.metadata.properties == {}
        metastore.tables.modify().overwrite([unit()]).execute()
        properties = metastore.tables.metadata.properties
        assert (properties["a"], properties["b"]) == ("1", "2")

    def test_a_writer_aligns_them_a_reader_does_not(self, open_metastore: OpenMetastore, unit: MakeUnit) -> None:
        """Added, changed and removed ones, without a new version of the data."""
        version = with_properties(open_metastore, a="1", b="1").tables.modify().overwrite([unit()]).execute()
        later = with_properties(open_metastore, b="2", c="2")
        later.tables.read().metadata_types(ALL).execute()
        assert not_own(later) == {"a": "1", "b": "1"}
        later.tables.initialize()
        assert not_own(later) == {"b": "2", "c": "2"}
        assert later.tables.metadata.version == version

    def test_own_properties_are_left_alone(self, open_metastore: OpenMetastore, unit: MakeUnit) -> None:
        """The metastore keeps its own books there."""
        metastore = with_properties(open_metastore, a="1")
        metastore.tables.modify().overwrite([unit()]).execute()
        metastore.tables.modify().overwrite([unit()]).execute()
        metastore.tables.expiration.expire()
        own = {k: v for k, v in metastore.tables.metadata.properties.items() if k.startswith("metastore.")}
        assert own
        later = with_properties(open_metastore)
        later.tables.initialize()
        assert not_own(later) == {}
        assert later.tables.metadata.properties.keys() == own.keys()

    def test_alignment_happens_once(
        self, open_metastore: OpenMetastore, unit: MakeUnit, catalog: FileSystemCatalog
    ) -> None:
        """What somebody sets on the table afterwards stands until the next start, so that two writers do not fight."""
        metastore = with_properties(open_metastore, a="1")
        metastore.tables.initialize()
        with catalog.load_table("tables").transaction() as change:
            change.set_properties(a="by hand")
        metastore.tables.modify().overwrite([unit()]).execute()
        assert metastore.tables.metadata.properties["a"] == "by hand"

    @pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "lz4", "uncompressed"])
    def test_the_compression_property_is_obeyed(
        self, open_metastore: OpenMetastore, unit: MakeUnit, codec: str
    ) -> None:
        """Every codec that Iceberg names."""
        metastore = with_properties(open_metastore, **{"write.parquet.compression-codec": codec})
        metastore.tables.modify().overwrite([unit()]).execute()
        assert metastore.tables.read().metadata_types(ALL).execute() == [unit()]

    def test_an_unknown_compression_is_refused(self, open_metastore: OpenMetastore, unit: MakeUnit) -> None:
        """The message names the property and what it can be."""
        metastore = with_properties(open_metastore, **{"write.parquet.compression-codec": "pied-piper"})
        with pytest.raises(InvalidRequestError, match=r"compression-codec.*pied-piper.*snappy"):
            metastore.tables.modify().overwrite([unit()]).execute()


class TestSchemaEvolution:
    def test_columns_that_an_older_table_lacks_are_added(
        self, open_metastore: OpenMetastore, unit: MakeUnit, catalog: FileSystemCatalog
    ) -> None:
        """At the end, with new ids; those there keep name, id and order, and nested ids do not collide."""
        full = iceberg_schema(TableMetadataUnit)
        kept = [field for field in full.fields if field.name not in ("owner", "interestingColumns", "hostAffinity")]
        old = catalog.create_table("tables", Schema(*kept), partition_spec=partition_spec(TableMetadataUnit))
        metastore = open_metastore()
        written = unit(owner="me", interesting_columns=["`a`"], host_affinity={"h": 1.0}, locations=["/a"])
        assert metastore.tables.read().metadata_types(ALL).execute() == []
        metastore.tables.modify().overwrite([written]).execute()
        assert metastore.tables.read().metadata_types(ALL).execute() == [written]
        new = catalog.load_table("tables").schema()
        assert new.fields[: len(kept)] == old.schema().fields
        assert [f.name for f in new.fields[len(kept) :]] == ["owner", "interestingColumns", "hostAffinity"]
        assert len(new.field_ids) == len(set(new.field_ids)) == len(full.field_ids)

    @pytest.mark.parametrize("created_again", [True, False])
    def test_columns_that_go_under_an_open_metastore_are_added_again(
        self,
        *,
        created_again: bool,
        open_metastore: OpenMetastore,
        unit: MakeUnit,
        catalog: FileSystemCatalog,
        tmp_path: Path,
    ) -> None:
        """Whether another program drops a column, or the table and creates one in an older release's columns."""
        metastore = open_metastore()
        metastore.tables.modify().overwrite([unit("old")]).execute()
        if created_again:
            kept = [field for field in iceberg_schema(TableMetadataUnit).fields if field.name != "hostAffinity"]
            shutil.rmtree(tmp_path / "metastore/tables")
            with suppress(InvalidRequestError):  # The file system has no entry of it beside the folder.
                catalog.drop_table("tables")
            catalog.create_table("tables", Schema(*kept), partition_spec=partition_spec(TableMetadataUnit))
        else:
            with catalog.load_table("tables").update_schema() as change:
                change.delete_column("hostAffinity")
        written = unit("new", host_affinity={"h": 1.0})
        metastore.tables.modify().overwrite([written]).execute()
        read = metastore.tables.read().metadata_types(ALL).filter("tableName = 'new'")
        assert read.execute() == [written]

    def test_rows_from_before_a_column_read_as_null_in_it(
        self, open_metastore: OpenMetastore, unit: MakeUnit, catalog: FileSystemCatalog
    ) -> None:
        """Old files stay as they are, and can be replaced."""
        keys = [f for f in iceberg_schema(TableMetadataUnit).fields if f.name in TableMetadataUnit.partition_columns]
        table = catalog.create_table("tables", Schema(*keys), partition_spec=partition_spec(TableMetadataUnit))
        table.append(pa.table({f.name: [f.name, "old"] for f in keys}))
        metastore = open_metastore()
        metastore.tables.modify().overwrite([unit("new", owner="me")]).execute()
        read = metastore.tables.read().metadata_types(ALL)
        assert sorted((u.table_name or "", u.owner) for u in read.execute()) == [
            ("new", "me"),
            ("old", None),
            ("tableName", None),
        ]
        metastore.tables.modify().delete("tableName = 'old'").execute()
        assert sorted(u.table_name or "" for u in read.execute()) == ["new", "tableName"]

    def test_a_column_that_the_unit_does_not_know_is_ignored(
        self, open_metastore: OpenMetastore, unit: MakeUnit, catalog: FileSystemCatalog
    ) -> None:
        """A newer release, or Drill, may have added it: it reads as if it were not there, and is null in new rows."""
        metastore = open_metastore()
        metastore.tables.initialize()
        with catalog.load_table("tables").update_schema() as change:
            change.add_column("fromTheFuture", StringType())
        keys = unit("theirs").to_columns()
        theirs = {name: [keys[name]] for name in ("storagePlugin", "workspace", "tableName", "metadataKey")}
        catalog.load_table("tables").append(pa.table({**theirs, "metadataType": ["TABLE"], "fromTheFuture": ["x"]}))
        metastore.tables.modify().overwrite([unit("ours")]).execute()
        for narrowed in (metastore.tables.read(), metastore.tables.read().filter("tableName in ('ours', 'theirs')")):
            found = narrowed.metadata_types(ALL).execute()
            assert sorted(u.table_name or "" for u in found) == ["ours", "theirs"]
        assert "fromTheFuture" in catalog.load_table("tables").schema().column_names


class TestForeignTables:
    @pytest.mark.parametrize("hidden", [False, True])
    def test_a_table_partitioned_otherwise_is_refused(
        self, *, hidden: bool, open_metastore: OpenMetastore, unit: MakeUnit, catalog: FileSystemCatalog
    ) -> None:
        """Another table stands where the component's should be, if only by its transforms: neither read nor written."""
        if hidden:
            whole = iceberg_schema(TableMetadataUnit)
            names = [field.name for field in partition_spec(TableMetadataUnit).fields]
            catalog.create_table("tables", whole)
            with catalog.load_table("tables").update_spec() as change:
                for name in names[:-1]:
                    change.add_identity(name)
                change.add_field(names[-1], TruncateTransform(3), "key")
        else:
            schema = Schema(NestedField(1, "storagePlugin", StringType(), required=False))
            by_plugin = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "storagePlugin"))
            catalog.create_table("tables", schema, partition_spec=by_plugin)
        before = catalog.load_table("tables").metadata
        metastore = open_metastore()
        with pytest.raises(FormatError, match="partitioned by"):
            metastore.tables.read().metadata_types(ALL).execute()
        with pytest.raises(FormatError, match="partitioned by"):
            metastore.tables.modify().overwrite([unit()]).execute()
        assert catalog.load_table("tables").metadata == before

    def test_opening_and_reading_write_nothing(self, open_metastore: OpenMetastore, tmp_path: Path) -> None:
        """A metastore can be looked at without leave to write."""
        metastore = open_metastore()
        metastore.tables.read().metadata_types(ALL).execute()
        metastore.tables.metadata.history()
        assert list(tmp_path.iterdir()) == []
