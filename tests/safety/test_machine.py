"""The metastore against a dictionary per version: whatever is done in whatever order, both hold the same.

It is done by two open metastores in turn, each with what it remembers, by new ones, and by another process; on a table
that this release made, or an older one that knew fewer columns.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Iterator
from multiprocessing.pool import Pool
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule
from pyiceberg.schema import Schema
from pyiceberg.table import StaticTable
from pyiceberg.types import StringType
from safety.sizes import SIZE
from safety.soak import write_once

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.errors import ConflictError, NotFoundError, ProcedureError
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.model.mapping.schema import iceberg_schema, partition_spec
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import GENERAL_INFO, MetadataType
from metastore.session import Session

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(3600)]

Partition = tuple[str, str]
Content = dict[Partition, tuple[int, ...]]

TABLES = st.sampled_from(["a", "b", "a/b", "metadata", "ü%"])
KEYS = st.sampled_from([GENERAL_INFO, "1994", "1995"])
CONTENTS = st.dictionaries(
    st.tuples(TABLES, KEYS), st.lists(st.integers(0, 9), min_size=1, max_size=3).map(tuple), max_size=4
)


def units_of(content: Content) -> list[TableMetadataUnit]:
    """One unit a number; a partition holds as many as it has numbers."""
    return [
        TableMetadataUnit(
            storage_plugin="dfs",
            workspace="tmp",
            table_name=table,
            metadata_key=key,
            metadata_type="SEGMENT",
            last_modified_time=number,
        )
        for (table, key), numbers in content.items()
        for number in numbers
    ]


def content_of(rows: list[tuple[str, str, int]]) -> Content:
    """Rows of name, key and number, by partition."""
    found: dict[Partition, list[int]] = {}
    for table, key, number in sorted(rows):
        found.setdefault((table, key), []).append(number)
    return {partition: tuple(numbers) for partition, numbers in found.items()}


def normal(content: Content) -> Content:
    """Numbers in order: a partition is a bag of units."""
    return {partition: tuple(sorted(numbers)) for partition, numbers in content.items()}


OLD_COLUMNS = (*TableMetadataUnit.partition_columns, "metadataType", "lastModifiedTime")
"""What the older release knew."""


class MetastoreMachine(RuleBasedStateMachine):
    """The model: content and parent by version, of the versions that are kept, and which one is current."""

    versions = Bundle("versions")
    elsewhere: Pool

    @initialize(target=versions, old=CONTENTS)
    def start(self, old: Content) -> int:
        """A new folder; a metastore that nobody has written to, or where an older release left ``old``."""
        self.folder = Path(tempfile.mkdtemp())
        self.component = self.folder / "metastore/tables"
        self.catalog = FileSystemCatalog("other", str(self.component.parent))
        self.model: dict[int, Content] = {0: {}}
        self.parents: dict[int, int] = {}
        self.current = self.strays = 0
        if old:
            self.write_as_older_release(normal(old))
        self.metastore, self.other = self.open(), self.open()
        return self.current

    def write_as_older_release(self, content: Content) -> None:
        """By PyIceberg alone, in a schema without the newest columns."""
        fields = [field for field in iceberg_schema(TableMetadataUnit).fields if field.name in OLD_COLUMNS]
        spec = partition_spec(TableMetadataUnit)
        table = self.catalog.create_table("tables", Schema(*fields), partition_spec=spec)
        rows = [unit.to_columns() for unit in units_of(content)]
        table.append(pa.Table.from_pylist([{name: row[name] for name in OLD_COLUMNS} for row in rows]))
        snapshot = self.catalog.load_table("tables").current_snapshot()
        assert snapshot is not None
        self.became(snapshot.snapshot_id, content, changed=True)

    def teardown(self) -> None:
        """Leave nothing behind."""
        if hasattr(self, "folder"):
            for metastore in (self.metastore, self.other):
                metastore.close()
            shutil.rmtree(self.folder)

    def open(self) -> Metastore:
        """Another process would see the same."""
        location = {"base_path": str(self.folder), "relative_path": "metastore"}
        given = {"drill.metastore.iceberg": {"location": location, "expiration": {"retain_last": 2}}}
        return Metastore.open(Settings.from_mapping(given, environ={}))

    def became(self, version: int, content: Content, changed: bool) -> int:
        """The model after a transaction."""
        assert (version != self.current) == changed
        if changed:
            assert version not in self.model
            self.parents[version] = self.current
        self.model[version] = content
        self.current = version
        return version

    @rule(target=versions, content=CONTENTS)
    def overwrite(self, content: Content) -> int:
        """Each partition holds what was written to it last."""
        version = self.metastore.tables.modify().overwrite(units_of(content)).execute()
        return self.became(version, {**self.model[self.current], **normal(content)}, bool(content))

    @rule(target=versions, table=TABLES, key=KEYS)
    def delete(self, table: str, key: str) -> int:
        """Of one table, or of one key in all tables."""
        before = self.model[self.current]
        version = self.metastore.tables.modify().delete(f"tableName = '{table}' or metadataKey = '{key}'").execute()
        after = {p: numbers for p, numbers in before.items() if p[0] != table and p[1] != key}
        return self.became(version, after, after != before)

    @rule(target=versions, first=CONTENTS, table=TABLES, second=CONTENTS)
    def several(self, first: Content, table: str, second: Content) -> int:
        """Three operations of one transaction are one version, and the same as one after another."""
        before = self.model[self.current]
        modify = self.metastore.tables.modify().overwrite(units_of(first))
        version = modify.delete(f"tableName = '{table}'").overwrite(units_of(second)).execute()
        after = {p: n for p, n in {**before, **normal(first)}.items() if p[0] != table} | normal(second)
        replaced = (first.keys() | second.keys()) & before.keys()
        written = {p for p in first if p[0] != table} | second.keys()
        gone = {p for p in before if p[0] == table}
        return self.became(version, after, bool(replaced or written or gone))

    @rule(target=versions)
    def purge(self) -> int:
        """Nothing is left, and history is."""
        return self.became(self.metastore.tables.modify().purge(), {}, bool(self.model[self.current]))

    @rule(version=versions, content=CONTENTS.filter(bool))
    def compare_and_set(self, version: int, content: Content) -> None:
        """Commits on the current version only."""
        modify = self.metastore.tables.modify().overwrite(units_of(content))
        if version == self.current:
            self.became(modify.execute(if_version=version), {**self.model[version], **normal(content)}, changed=True)
        else:
            with pytest.raises(ConflictError):
                modify.execute(if_version=version)

    @rule(target=versions, content=CONTENTS.filter(bool))
    def overwrite_elsewhere(self, content: Content) -> int:
        """Another process is at work too."""
        version = self.elsewhere.apply(write_once, (str(self.folder), units_of(content)))
        return self.became(version, {**self.model[self.current], **normal(content)}, changed=True)

    def line(self) -> Iterator[int]:
        """The current version and those that it goes back to, as far as they are kept."""
        version = self.current
        while version and version in self.model:
            yield version
            version = self.parents[version]

    @precondition(lambda self: self.current != 0)
    @rule(version=versions)
    def rollback(self, version: int) -> None:
        """Back to a version that the current one comes from; to no other."""
        call = Session(self.metastore).call
        place = ("metastore.system.rollback_to_snapshot", "components", "tables")
        if version in self.line():
            call(*place, version)
            self.current = version
        else:
            with pytest.raises(ProcedureError):
                call(*place, version)

    @precondition(lambda self: self.current != 0)
    @rule()
    def remove_orphans(self) -> None:
        """An old file that nobody knows goes, and nothing else."""
        self.strays += 1
        stray = self.component / f"dfs/tmp/stray {self.strays}%20.parquet"
        stray.parent.mkdir(parents=True, exist_ok=True)
        stray.write_bytes(b"x")
        os.utime(stray, (0, 0))
        call = Session(self.metastore).call
        removed = call("metastore.system.remove_orphan_files", schema="components", table_name="tables")
        assert removed["orphan_file_location"].to_pylist() == [str(stray)]
        assert not stray.exists()

    @precondition(lambda self: self.current != 0)
    @rule()
    def add_a_column_of_the_future(self) -> None:
        """A newer release knows more columns; this one goes on."""
        table = self.catalog.load_table("tables")
        if "fromTheFuture" not in table.schema().column_names:
            with table.update_schema() as change:
                change.add_column("fromTheFuture", StringType())

    @rule()
    def expire(self) -> None:
        """The last two versions of the line are kept."""
        kept = {0, *list(self.line())[:2]}
        told = self.metastore.tables.expiration.expire(dry_run=True).versions
        gone = self.metastore.tables.expiration.expire()
        assert gone.failed == ()
        assert gone.versions == told
        assert set(gone.versions) == self.model.keys() - kept
        for version in gone.versions:
            del self.model[version]

    @rule()
    def reopen(self) -> None:
        """A new process knows nothing but the files."""
        self.metastore.close()
        self.metastore = self.open()

    @rule()
    def take_the_other(self) -> None:
        """It was open all the time, and remembers what it saw then."""
        self.metastore, self.other = self.other, self.metastore

    @rule(version=versions)
    def read_a_version(self, version: int) -> None:
        """A kept one reads as it was; an expired one is not found."""
        read = self.metastore.tables.read().metadata_types(MetadataType.ALL).at(version)
        if version not in self.model:
            with pytest.raises(NotFoundError):
                read.execute()
            return
        rows = [(u.table_name or "", u.metadata_key or "", u.last_modified_time or 0) for u in read.execute()]
        assert content_of(rows) == self.model[version]

    @rule(table=TABLES, key=KEYS)
    def read_a_partition(self, table: str, key: str) -> None:
        """A filter finds what is there and nothing else."""
        read = self.metastore.tables.read().metadata_types(MetadataType.ALL)
        found = read.filter(f"tableName = '{table}' and metadataKey = '{key}'").execute()
        expected = self.model[self.current].get((table, key), ())
        assert sorted(u.last_modified_time or 0 for u in found) == list(expected)

    @precondition(lambda self: hasattr(self, "folder") and self.current != 0)
    @invariant()
    def pyiceberg_reads_the_same_and_every_reachable_file_is_there(self) -> None:
        """PyIceberg's reader has its own idea of a table; it finds the model's content."""
        metadata = (self.component / "metadata").glob("v*.metadata.json")
        newest = max(metadata, key=lambda path: int(path.name.split(".", 1)[0][1:]))
        table = StaticTable.from_metadata(str(newest))
        snapshot = table.current_snapshot()
        assert snapshot is not None
        assert snapshot.snapshot_id == self.current
        fields = ("tableName", "metadataKey", "lastModifiedTime")
        found = table.scan(selected_fields=fields).to_arrow().select(fields)
        rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
        assert content_of(rows) == self.model[self.current]
        assert {s.snapshot_id for s in table.metadata.snapshots} == self.model.keys() - {0}
        for kept in table.metadata.snapshots:
            assert Path(kept.manifest_list).exists()
            for manifest in kept.manifests(table.io):
                assert Path(manifest.manifest_path).exists()
                for entry in manifest.fetch_manifest_entry(table.io):
                    assert Path(entry.data_file.file_path).exists()


@pytest.fixture(scope="module", autouse=True)
def elsewhere() -> Iterator[None]:
    """One other process for all examples."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["safety.soak"])
    with context.Pool(1) as MetastoreMachine.elsewhere:
        yield


MetastoreMachine.TestCase.settings = settings(max_examples=SIZE.examples, stateful_step_count=SIZE.steps)
TestMetastore = MetastoreMachine.TestCase
