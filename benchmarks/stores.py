"""The same metadata kept by this metastore, and by plain PyIceberg in three layouts.

All have the same schema, partition spec and rows, on the same disk. The peer's user has a SQL catalog on SQLite and
appends 1,000 partitions at a time. What lies in one append lies in one manifest, so the order of arrival decides how
much a read can skip. Jobs analyze tables when they need to, so tables arrive shuffled: that is :data:`PLAIN`, filled by
PyIceberg's own appends. :data:`IN_ORDER` holds the same data files as if tables had arrived sorted by name, the best
that can happen. :data:`ON_OURS` starts from our manifests, by registering our table in the peer's catalog.

PyIceberg's writer takes many milliseconds for each partition, so beyond :data:`APPENDED_AT_MOST` partitions the peer is
given our data files through its own fast append, in the same portions. Their entries carry bounds of five columns and
not of all, so they are lighter to read than those it writes itself.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import count
from typing import Final

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import And, BooleanExpression, EqualTo
from pyiceberg.manifest import DataFile, clear_manifest_cache
from pyiceberg.table import Table

from benchmarks.content import PARTITIONS_OF_A_TABLE, Content, table_info
from benchmarks.measuring import OURS, Series
from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.model.identity import TableInfo
from metastore.model.mapping.schema import iceberg_schema, partition_spec
from metastore.model.table_unit import TableMetadataUnit

PLAIN: Final = "PyIceberg"
IN_ORDER: Final = "PyIceberg, filled in order"
ON_OURS: Final = "PyIceberg on our manifests"
APPENDED_AT_MOST: Final = 10_000
"""The peer fills larger tables with our data files."""
QUICK_AT_MOST: Final = 10_000
"""Larger tables of the peer take minutes to fill and to read; only the one on our manifests is there already."""

_NAMESPACE: Final = "benchmark"
_TABLES_OF_A_TRANSACTION: Final = 1_000
_TABLES_OF_AN_APPEND: Final = 100


class Stores:
    """The tables of one size, each built when it is first asked for; the times that took are kept in ``loads``.

    Our metastore caches within itself, PyIceberg within the process; a table from here starts with neither. The
    peer's connection to its catalog stays open.
    """

    def __init__(
        self,
        folder: str,
        size: int,
        content: Content,
        say: Callable[[str], None],
        appended_at_most: int = APPENDED_AT_MOST,
    ) -> None:
        self.size = size
        self._appended_at_most = appended_at_most
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

    def in_order(self) -> Callable[[], Table]:
        """What loads the peer's table that was filled in the order of names."""
        self._sorted  # noqa: B018
        return self._loader("in_order")

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
        seconds = cpu = 0.0
        with Metastore.open(self._settings) as metastore:
            for numbers in _ranges(self.tables, _TABLES_OF_A_TRANSACTION):
                rows = self.content.tables(numbers)
                start, cpu_start = time.perf_counter(), time.process_time()
                metastore.tables.modify().overwrite(rows).execute()
                seconds, cpu = seconds + time.perf_counter() - start, cpu + time.process_time() - cpu_start
        self._loaded(f"{OURS}, in transactions of 10,000 partitions", seconds, cpu)
        return FileSystemCatalog("ours", f"{self._folder}/ours").load_table("tables").metadata_location

    @cached_property
    def _appended(self) -> None:
        table = self._create("plain")
        numbers = list(range(self.tables))
        random.Random(self.content.seed).shuffle(numbers)
        portions = [
            numbers[start : start + _TABLES_OF_AN_APPEND] for start in range(0, self.tables, _TABLES_OF_AN_APPEND)
        ]
        self._say(f"building {self.size:,} partitions: {PLAIN}")
        if self.size > self._appended_at_most:
            _append_files(table, _files_of(self.on_ours()()), portions)
            return
        seconds = cpu = 0.0
        for portion in portions:
            rows = self.content.tables(portion)
            start, cpu_start = time.perf_counter(), time.process_time()
            table.append(rows)
            seconds, cpu = seconds + time.perf_counter() - start, cpu + time.process_time() - cpu_start
        self._loaded(f"{PLAIN}, in appends of 1,000 partitions", seconds, cpu)

    @cached_property
    def _sorted(self) -> None:
        files = _files_of(self.plain()())
        self._say(f"building {self.size:,} partitions: {IN_ORDER}")
        _append_files(self._create("in_order"), files, _ranges(self.tables, _TABLES_OF_AN_APPEND))

    @cached_property
    def _registered(self) -> None:
        self._catalog.register_table((_NAMESPACE, "on_ours"), self._built)

    def _loaded(self, how: str, seconds: float, cpu: float) -> None:
        self.loads.append(Series("load", "fill an empty table", self.size, how, [seconds], [cpu], self.size))


def of_table(table: TableInfo) -> BooleanExpression:
    """What the peer's user writes to mean one table."""
    return And(
        EqualTo("storagePlugin", table.storage_plugin),
        EqualTo("workspace", table.workspace),
        EqualTo("tableName", table.name),
    )


def _files_of(table: Table) -> dict[str, list[DataFile]]:
    """The data files of a table's current snapshot, by the name of the table that they tell of."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    files: dict[str, list[DataFile]] = {}
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io):
            files.setdefault(entry.data_file.partition[2], []).append(entry.data_file)
    return files


def _append_files(table: Table, files: Mapping[str, Sequence[DataFile]], portions: Iterable[Sequence[int]]) -> None:
    """Append existing files of the tables with these numbers, one append for each portion."""
    for portion in portions:
        with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
            for number in portion:
                for data_file in files[table_info(number).name]:
                    append.append_data_file(data_file)


def _ranges(total: int, step: int) -> Iterator[range]:
    for start in range(0, total, step):
        yield range(start, min(start + step, total))
