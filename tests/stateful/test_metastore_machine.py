"""The metastore against a dictionary per version: whatever is done in whatever order, both hold the same."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule
from pyiceberg.table import StaticTable

from metastore.config.settings import Settings
from metastore.errors import ConflictError, NotFoundError
from metastore.metastore import Metastore
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import GENERAL_INFO, MetadataType

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


class MetastoreMachine(RuleBasedStateMachine):
    """The model: content by version, of the versions that are kept, in their order."""

    versions = Bundle("versions")

    @initialize()
    def start(self) -> None:
        """An empty metastore in a new folder."""
        self.folder = Path(tempfile.mkdtemp())
        self.metastore = self.open()
        self.model: dict[int, Content] = {0: {}}
        self.current = 0

    def teardown(self) -> None:
        """Leave nothing behind."""
        if hasattr(self, "folder"):
            shutil.rmtree(self.folder)

    def open(self) -> Metastore:
        """Another process would see the same."""
        location = {"base_path": str(self.folder), "relative_path": "m"}
        given = {"drill.metastore.iceberg": {"location": location, "expiration": {"retain_last": 2}}}
        return Metastore.open(Settings.from_mapping(given, environ={}))

    def became(self, version: int, content: Content, changed: bool) -> int:
        """The model after a transaction."""
        assert (version != self.current) == changed
        if changed:
            assert version not in self.model
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

    @rule()
    def expire(self) -> None:
        """The last two versions are kept."""
        history = [version.version for version in self.metastore.tables.metadata.history()]
        told = self.metastore.tables.expiration.expire(dry_run=True).versions
        gone = self.metastore.tables.expiration.expire()
        assert gone.failed == ()
        assert gone.versions == told == tuple(reversed(history[2:]))
        for version in gone.versions:
            del self.model[version]

    @rule()
    def reopen(self) -> None:
        """A new process knows nothing but the files."""
        self.metastore.close()
        self.metastore = self.open()

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
        metadata = (self.folder / "m/tables/metadata").glob("v*.metadata.json")
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


MetastoreMachine.TestCase.settings = settings(max_examples=12, stateful_step_count=15)
TestMetastore = MetastoreMachine.TestCase
