"""The same metadata kept three ways: by this metastore, by plain PyIceberg, and by PyIceberg on a table that we wrote.

All have the same schema, partition spec and rows, on the same disk. The peer is what a user of PyIceberg would build:
a SQL catalog on SQLite, and appends of 1,000 partitions each. Its writer takes milliseconds for every partition, so
beyond :data:`APPENDED_AT_MOST` partitions it is given our data files instead, through its own fast append, in
manifests cut as its appends would have cut them; these entries carry bounds of five columns and not of all, so they
are lighter to read than its own. The third table has our manifests as well, registered in the peer's catalog.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from itertools import count
from typing import Final

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, BooleanExpression, EqualTo
from pyiceberg.manifest import clear_manifest_cache
from pyiceberg.table import Table

from benchmarks.content import PARTITIONS_OF_A_TABLE, Content
from benchmarks.measuring import OURS, Series
from metastore.config.settings import Settings
from metastore.mapping.schema import iceberg_schema, partition_spec
from metastore.metastore import Metastore
from metastore.model.identity import TableInfo
from metastore.model.table_unit import TableMetadataUnit
from metastore.storage.file_system_catalog import FileSystemCatalog

PLAIN: Final = "PyIceberg"
ON_OURS: Final = "PyIceberg on our layout"
APPENDED_AT_MOST: Final = 10_000

_NAMESPACE: Final = "benchmark"
_TABLES_OF_A_TRANSACTION: Final = 1_000
_TABLES_OF_AN_APPEND: Final = 100


class Stores:
    """The tables of one size, each built when it is first asked for; the times that took are kept in ``loads``.

    Our metastore caches within itself, PyIceberg within the process; a table from here starts with neither. The
    peer's connection to its catalog stays open.
    """

    def __init__(self, folder: str, size: int, content: Content, say: Callable[[str], None]) -> None:
        self.size = size
        self.content = content
        self.loads: list[Series] = []
        self._folder = folder
        self._say = say
        self._scratch = count()
        os.makedirs(folder)

    @property
    def tables(self) -> int:
        """How many tables the metadata tells of."""
        return self.size // PARTITIONS_OF_A_TABLE

    def ours(self) -> Metastore:
        """Our metastore, opened anew."""
        self._built  # noqa: B018 - builds on first use
        clear_manifest_cache()
        return Metastore.open(self._settings)

    def plain(self) -> Callable[[], Table]:
        """What loads the peer's table, from its catalog."""
        self._appended  # noqa: B018
        return self._loader("plain")

    def on_ours(self) -> Callable[[], Table]:
        """What loads the peer's branch of our table: our manifests until the peer rewrites them, our data files."""
        self._registered  # noqa: B018
        return self._loader("on_ours")

    def scratch(self) -> Table:
        """A new, empty table of the peer."""
        return self._create(f"scratch_{next(self._scratch)}")

    def close(self) -> None:
        """Let go of the peer's catalog."""
        self._catalog.close()

    def _create(self, name: str) -> Table:
        schema, spec = iceberg_schema(TableMetadataUnit), partition_spec(TableMetadataUnit)
        return self._catalog.create_table(
            (_NAMESPACE, name), schema, partition_spec=spec, properties={"format-version": "2"}
        )

    def _loader(self, name: str) -> Callable[[], Table]:
        clear_manifest_cache()
        return lambda: self._catalog.load_table((_NAMESPACE, name))

    @property
    def _settings(self) -> Settings:
        location = {"base_path": self._folder, "relative_path": "ours"}
        return Settings.from_mapping({"drill": {"metastore": {"iceberg": {"location": location}}}})

    @cached_property
    def _catalog(self) -> SqlCatalog:
        uri, warehouse = f"sqlite:///{self._folder}/peer.db", f"file://{self._folder}/peer"
        catalog = SqlCatalog("peer", uri=uri, warehouse=warehouse)
        catalog.create_namespace(_NAMESPACE)
        return catalog

    @cached_property
    def _built(self) -> str:
        """The location of our table."""
        self._say(f"building {self.size:,} partitions: {OURS}")
        seconds = 0.0
        with Metastore.open(self._settings) as metastore:
            for numbers in _ranges(self.tables, _TABLES_OF_A_TRANSACTION):
                rows = self.content.tables(numbers)
                start = time.perf_counter()
                metastore.tables.modify().overwrite(rows).execute()
                seconds += time.perf_counter() - start
        self._loaded(f"{OURS}, in transactions of 10,000 partitions", seconds)
        return FileSystemCatalog("ours", f"{self._folder}/ours").load_table("tables").metadata_location

    @cached_property
    def _appended(self) -> None:
        table = self._create("plain")
        if self.size > APPENDED_AT_MOST:
            self._append_our_files(table)
            return
        self._say(f"building {self.size:,} partitions: {PLAIN}")
        seconds = 0.0
        for numbers in _ranges(self.tables, _TABLES_OF_AN_APPEND):
            rows = self.content.tables(numbers)
            start = time.perf_counter()
            table.append(rows)
            seconds += time.perf_counter() - start
        self._loaded(f"{PLAIN}, in appends of 1,000 partitions", seconds)

    def _append_our_files(self, table: Table) -> None:
        self._say(f"building {self.size:,} partitions: {PLAIN}, from our data files")
        source = self.on_ours()()
        snapshot = source.current_snapshot()
        assert snapshot is not None
        entries = [
            entry.data_file
            for manifest in snapshot.manifests(source.io)
            for entry in manifest.fetch_manifest_entry(source.io)
        ]
        entries.sort(key=lambda data_file: tuple(data_file.partition[position] for position in range(3)))
        for numbers in _ranges(len(entries), _TABLES_OF_AN_APPEND * PARTITIONS_OF_A_TABLE):
            with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
                for number in numbers:
                    append.append_data_file(entries[number])

    @cached_property
    def _registered(self) -> None:
        self._catalog.register_table((_NAMESPACE, "on_ours"), self._built)

    def _loaded(self, how: str, seconds: float) -> None:
        self.loads.append(Series("load", "fill an empty metastore", self.size, how, False, (seconds,), self.size))


def of_table(table: TableInfo) -> BooleanExpression:
    """What the peer's user writes to mean one table."""
    return And(
        EqualTo("storagePlugin", table.storage_plugin),
        EqualTo("workspace", table.workspace),
        EqualTo("tableName", table.name),
    )


def _ranges(total: int, step: int) -> Iterator[range]:
    for start in range(0, total, step):
        yield range(start, min(start + step, total))
