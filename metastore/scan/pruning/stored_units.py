"""The units of a table as stored in the tables component, read level by level in one version.

Place in the flow: a session asks for the pruning of a table. Memory holds one group of the component's data files at a
time; for a larger top-level segment, one batch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, Final, TypeVar

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, In, NotIn

from metastore.components.operations.read import Read
from metastore.components.requests import of_table
from metastore.components.storage.data_files import PlannedFile
from metastore.components.storage.file_groups import FileGroup
from metastore.components.tables import Tables
from metastore.errors import NotFoundError, StorageError
from metastore.model.bounds.embedded_columns import EmbeddedBatches
from metastore.model.bounds.portion_columns import CountedFiles, PortionColumns
from metastore.model.bounds.unit_columns import UnitColumns
from metastore.model.bounds.units import (
    FILE_COLUMNS,
    LOWER_COLUMNS,
    LOWER_TYPES,
    UNIT_COLUMNS,
    UNIT_TYPES,
    UPPER_TYPES,
    Portion,
    TablePortion,
    of_kind,
)
from metastore.model.identity import TableInfo
from metastore.model.mapping.segment_digest import SegmentDigest
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import DEFAULT_SEGMENT, GENERAL_INFO, MetadataType
from metastore.scan.pruning.kept_portions import KeptPortions
from metastore.scan.pruning.table_units import TableUnits, Units

T = TypeVar("T")

_BYTES_OF_A_KEY: Final = 400
"""Approximate memory for the key of a partition, in bytes."""

_ATTEMPTS: Final = 5


@dataclass(frozen=True)
class StoredUnits:
    """The units of ``table`` in ``version``; see :class:`metastore.model.bounds.units.Units`.

    Every method raises the errors of reading, and NotFoundError or StorageError if the version expires meanwhile.
    """

    tables: Tables
    table: TableInfo
    version: int
    upper_columns: tuple[str, ...] = UNIT_COLUMNS
    only: frozenset[str] | None = None
    """Metadata keys of the segments to read, beside the table's own unit; None for all."""

    def upper(self) -> pa.Table:
        """The units of the table and its segments, in ``upper_columns``.

        Segments with a digest have only the columns that the digest holds, and their files are not opened.
        """
        return self._upper

    @cached_property
    def _upper(self) -> pa.Table:
        """TABLE and SEGMENT units; segments with a digest in the manifest cost no data file."""
        question = f"upper {self.upper_columns} {self._name}"
        known = self._kept_portions.cache.find(question)
        if isinstance(known, pa.Table):
            return known
        digests = self._digests
        mine = self._mine()
        if digests:
            others = {planned.key[-1] for planned in self._files if planned.key[-1] not in digests}
            mine = And(mine, In("metadataKey", {GENERAL_INFO, *others}))
        read = self.tables.read().metadata_types(*UPPER_TYPES).filter(mine).columns(*self.upper_columns)
        units = read.at_seen(self.version).to_arrow()
        if digests:
            units = pa.concat_tables([units, _digested_segments(digests, units.schema)])
        self._kept_portions.cache.put(question, units, units.nbytes)
        return units

    def segments(self, columns: Collection[str]) -> UnitColumns:
        """The segments, with the statistics of ``columns``."""
        return self._kept_portions.segments(self._name, columns, of_kind(self.upper(), MetadataType.SEGMENT))

    @property
    def _name(self) -> str:
        """A unique name of these units.

        A version never changes, so a result kept under the name is never out of date.
        """
        only = "" if self.only is None else sha256("\n".join(sorted(self.only)).encode()).hexdigest()
        return f"{self.tables.backing.table.name} {self.table} {self.version} {only}"

    def lower(self, without: frozenset[str]) -> Iterator[Portion]:
        """The files as stored, except those of the segments ``without``."""
        condition = NotIn("metadataKey", without) if without else AlwaysTrue()
        read = self.tables.read().filter(And(self._mine(), condition)).columns(*LOWER_COLUMNS)
        return portions(read.at_seen(self.version))

    def portions(self, without: frozenset[str], columns: Collection[str]) -> Iterator[PortionColumns]:
        """All files.

        Those of the segments ``without`` have no statistics, or are only counted if a digest has the counts.
        """
        for group in self._groups:
            keys = [planned.key[-1] for planned in group.files.planned]
            if all(key not in without for key in keys) or self._is_decoded(group, columns):
                yield self._decode_group(group, columns)
                continue
            left, others = ([(key in without) is is_out for key in keys] for is_out in (False, True))
            if any(left):
                yield self._decode_group(group.only(left), columns)
            digested = [(key, self._digests[key]) for key in keys if key in without and key in self._digests]
            if digested:
                yield columns_of_counts(digested)
            others = [is_other and key not in self._digests for key, is_other in zip(keys, others, strict=True)]
            if any(others):
                yield self._decode_group(group.only(others), ())

    def all_files(self) -> Iterator[PortionColumns]:
        """All files, without statistics unless they are already in memory."""
        return self.portions(frozenset(), ())

    @cached_property
    def _groups(self) -> tuple[FileGroup, ...]:
        """The metastore's data files that hold the files' units. A version never changes, so they are cached."""
        question = f"groups {self._name}"
        known = self._kept_portions.cache.find(question)
        if isinstance(known, tuple):
            return known
        read = self.tables.read().metadata_types(*LOWER_TYPES).filter(self._mine()).columns(*LOWER_COLUMNS)
        found = tuple(map(_lower, read.at_seen(self.version).groups()))
        size = sum(len(planned.path) + _BYTES_OF_A_KEY for group in found for planned in group.files.planned)
        self._kept_portions.cache.put(question, found, size)
        return found

    @property
    def _files(self) -> Iterator[PlannedFile]:
        return (planned for group in self._groups for planned in group.files.planned)

    @cached_property
    def _digests(self) -> Mapping[str, SegmentDigest]:
        """The digests of segments by metadata key, for segments whose units are all in one file."""
        question = f"digests {self._name}"
        known = self._kept_portions.cache.find(question)
        if isinstance(known, dict):
            return known
        files = Counter(planned.key[-1] for planned in self._files)
        found = {
            planned.key[-1]: digest
            for planned in self._files
            if files[planned.key[-1]] == 1 and (digest := SegmentDigest.from_bytes(planned.digest)) is not None
        }
        self._kept_portions.cache.put(question, found, sum(map(_size_of, found.values())))
        return found

    @property
    def _kept_portions(self) -> KeptPortions:
        return KeptPortions(self.tables.backing.reader.cache)

    def _is_decoded(self, group: FileGroup, columns: Collection[str]) -> bool:
        known = self._kept_portions.find(group.name)
        return known is not None and known.asked.issuperset(columns)

    def _decode_group(self, group: FileGroup, columns: Collection[str]) -> PortionColumns:
        return self._kept_portions.get(group.name, columns, lambda: _columns_of(group, columns))

    def _mine(self) -> BooleanExpression:
        mine = of_table(self.table)
        return mine if self.only is None else And(mine, In("metadataKey", {GENERAL_INFO, *self.only}))

    def in_memory(self) -> TableUnits | None:
        """All units at once; opens each data file once, and caches them for later questions about this version.

        Returns None if the data files are larger than ``read.memory_size``: unneeded statistics would then cost more
        than opening files again. The columns are ``upper_columns``.
        """
        read = self.tables.read().metadata_types(*UNIT_TYPES).filter(self._mine()).columns(*self.upper_columns)
        most = read.limits.memory_size
        if sum(planned.size_bytes for planned in self._files) > most:
            return None
        units = read.at_seen(self.version).few(most)
        return None if units is None else TableUnits(units, self._kept_portions, f"all {self._name}")


def units_of(units: StoredUnits) -> Units:
    """``units`` in memory if they are small, else level by level."""
    return units.in_memory() or units


def portions(read: Read[TableMetadataUnit]) -> Iterator[Portion]:
    """The FILE and ROW_GROUP units of ``read``, which must filter by partition columns and include the type column."""
    parts = read.metadata_types(*LOWER_TYPES).parts(open_small=True)
    yield TablePortion(parts.answered)
    for group in parts.groups:
        yield _portion(_lower(group))


def _size_of(digest: SegmentDigest) -> int:
    return _BYTES_OF_A_KEY + sum(map(len, (*digest.statistics, *digest.statistics.values())))


def _lower(group: FileGroup) -> FileGroup:
    # The group already has the right data files; only the units' type is left to filter by.
    return replace(group, expression=In("metadataType", set(map(str, LOWER_TYPES))))


def _columns_of(group: FileGroup, columns: Collection[str]) -> PortionColumns:
    """The files of ``group``, with the statistics of ``columns``."""
    found = EmbeddedBatches(columns)
    has_all = group.add_embedded(found)
    parts = found.portions()
    if not parts or not all(has_all):
        rest = replace(group.only([not has for has in has_all]), columns=LOWER_COLUMNS if columns else FILE_COLUMNS)
        parts.append(PortionColumns.of(_portion(rest), columns))
    return PortionColumns.join(parts)


def _portion(group: FileGroup) -> Portion:
    if group.files.rows > group.limits.segment_rows or group.files.size_bytes > group.limits.segment_size:
        return _Batches(group)
    return TablePortion(pa.Table.from_batches(group.batches(), group.schema))


@dataclass(frozen=True)
class _Batches:
    """A group of files that is not held in memory as a whole."""

    group: FileGroup

    def files(self) -> Iterator[pa.Table]:
        return self._of(MetadataType.FILE)

    def row_groups(self) -> Iterator[pa.Table]:
        return self._of(MetadataType.ROW_GROUP)

    def _of(self, kind: MetadataType) -> Iterator[pa.Table]:
        for batch in replace(self.group, expression=EqualTo("metadataType", str(kind))).batches():
            if batch.num_rows:
                yield pa.Table.from_batches([batch])


def require_stored(tables: Tables, table: TableInfo, missing: Callable[[TableInfo], NotFoundError]) -> None:
    """Raise the error ``missing`` if there is no metadata of ``table``; fetch the manifests of its units at once."""
    tables.read().metadata_types(MetadataType.ALL).filter(of_table(table)).read_ahead()
    general = tables.read().metadata_types(MetadataType.TABLE).filter(of_table(table)).columns("location")
    if not general.to_arrow().num_rows:
        raise missing(table)


def in_newest(tables: Tables, ask: Callable[[int], T]) -> T:
    """The result of ``ask`` for the newest version; asks again if that version expires meanwhile."""
    for _ in range(_ATTEMPTS):
        version = tables.metadata.version
        try:
            return ask(version)
        except (NotFoundError, StorageError):
            now = tables.backing.table.state(anew=True)
            if now is None or now.version == version:
                raise
    raise StorageError(f"versions of {tables.table.name} expired faster than they could be read")


def _digested_segments(digests: Mapping[str, SegmentDigest], schema: pa.Schema) -> pa.Table:
    """SEGMENT units in the columns of ``schema``, with the content of digests (by metadata key)."""
    contents: dict[str, list[Any]] = {
        "metadataType": [MetadataType.SEGMENT.value] * len(digests),
        "metadataIdentifier": list(digests),
        "schema": [digest.schema for digest in digests.values()],
        "columnsStatistics": [list(digest.statistics.items()) for digest in digests.values()],
    }
    columns = [
        pa.array(contents[field.name], field.type) if field.name in contents else pa.nulls(len(digests), field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def columns_of_counts(digests: Iterable[tuple[str, SegmentDigest]]) -> PortionColumns:
    """The files of segments (by metadata key) as counts."""
    files = tuple(
        CountedFiles("" if key == DEFAULT_SEGMENT else key, digest.files, digest.row_groups, digest.size)
        for key, digest in digests
    )
    return PortionColumns((), (), frozenset(), files)
