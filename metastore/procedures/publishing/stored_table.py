"""The stored units of a table for its publication: its segments with their states, and the units of some of them.

Place in the flow: manifests of a component say which data files hold the units of a segment. Their names are the
segment's state: a segment whose files are the same has the same units, and is not read.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property
from hashlib import blake2b
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from pyiceberg.expressions import In

from metastore.components.requests import of_table
from metastore.components.storage.file_groups import FileGroup
from metastore.components.tables import Tables
from metastore.errors import InvalidRequestError
from metastore.ground.epoch import EPOCH_DAY
from metastore.model.bounds.units import LOWER_TYPES
from metastore.model.drill_types import DrillType, parse_type
from metastore.model.identity import TableInfo, metadata_key
from metastore.model.statistics_json import read_level
from metastore.model.tuple_schema import CASE_SENSITIVE, DIRECTORY, KEPT, TupleSchema
from metastore.model.vocabulary import GENERAL_INFO, MetadataType
from metastore.scan.pruning.stored_units import StoredUnits
from metastore.sources.directories import directories_of, key_of, named_values
from metastore.sources.directory_values import is_null, value_of

_WITHOUT_FILES: Final = (MetadataType.TABLE, MetadataType.SEGMENT, MetadataType.PARTITION)
"""Levels of ANALYZE at which files have no units."""

_COLUMNS: Final = ("metadataType", "path", "schema", "columnsStatistics", "metadataStatistics")


class LastChange(NamedTuple):
    """The last change of a table: the sequence number of its version, and a digest of the files that hold its units.

    Equal changes have equal units. The number grows with each change that writes units.
    """

    sequence_number: int
    digest: str


@dataclass(frozen=True)
class StoredTable:
    """The metadata of ``table`` in ``version`` of the metastore: where its files are, and its columns."""

    tables: Tables
    table: TableInfo
    version: int
    root: str
    schema: TupleSchema

    @classmethod
    def of(cls, tables: Tables, table: TableInfo, version: int) -> StoredTable | None:
        """Returns the table's metadata; None if there is none. Raises InvalidRequestError for another's table."""
        read = tables.read().metadata_types(MetadataType.TABLE).filter(of_table(table))
        columns = ("location", "schema", "tableType", "metadataStatistics")
        rows = read.columns(*columns).at_seen(version).to_arrow().to_pylist()
        if not rows:
            return None
        [row] = rows
        schema = TupleSchema.from_json(row["schema"] or "{}")
        if row["tableType"] != "PARQUET" or KEPT in schema.properties:
            raise InvalidRequestError(
                f"{table} cannot be published: it is {row['tableType']}"
                f"{', kept by a catalog' if KEPT in schema.properties else ''}, and only Parquet files in directories "
                "are read alike by all engines"
            )
        if read_level(row["metadataStatistics"] or ()) in _WITHOUT_FILES:
            raise InvalidRequestError(
                f"{table} cannot be published: it has no metadata of files. Run: metastore analyze {table} --level file"
            )
        return cls(tables, table, version, row["location"], schema)

    @cached_property
    def segments(self) -> Mapping[str, str]:
        """The state of each top-level segment, by its key, in order."""
        files: dict[str, list[str]] = {}
        for group in self._groups:
            for planned in group.files.planned:
                files.setdefault(planned.key[-1], []).append(planned.path)
        return {key: _state(files[key]) for key in sorted(files) if key != GENERAL_INFO}

    @cached_property
    def last_change(self) -> LastChange:
        """The last change of this table; later changes of other tables leave it as it is."""
        files = [planned for group in self._groups for planned in group.files.planned]
        return LastChange(max(each.sequence_number for each in files), _state([each.path for each in files]))

    @cached_property
    def _groups(self) -> Sequence[FileGroup]:
        read = self.tables.read().metadata_types(MetadataType.ALL).filter(of_table(self.table)).columns(*_COLUMNS)
        groups = read.at_seen(self.version).groups()
        return [replace(group, expression=In("metadataType", set(map(str, LOWER_TYPES)))) for group in groups]

    def units(self, keys: Collection[str]) -> Iterator[pa.Table]:
        """Yields the FILE and ROW_GROUP units of the segments ``keys``, group by group, in on-disk columns."""
        for group in self._groups:
            wanted = [planned.key[-1] in keys for planned in group.files.planned]
            if any(wanted):
                some = group if all(wanted) else group.only(wanted)
                yield pa.Table.from_batches(some.batches(), some.schema)

    def paths_by_schema(self, keys: Collection[str]) -> Mapping[str, Sequence[str]]:
        """Returns the paths of all files of the segments ``keys`` by their schema in JSON; reads no statistics."""
        found: dict[str, list[str]] = {}
        units = StoredUnits(self.tables, self.table, self.version, only=frozenset(keys))
        for portion in units.all_files():
            for files in portion.files:
                schemas = files.columns.schemas
                texts = [schemas.names[code] if code >= 0 else "{}" for code in schemas.codes.tolist()]
                paths: list[Any] = files.paths.to_pylist()
                for text, path in zip(texts, paths, strict=True):
                    found.setdefault(text, []).append(path)
        return found

    def key_of(self, path: str) -> str:
        """Returns the key of the segment of the file at ``path``."""
        return metadata_key(directories_of(path, self.root))

    @cached_property
    def directory_types(self) -> Mapping[str, DrillType]:
        """The types of the columns of directories, by their key."""
        return {
            key_of(column.name, case_sensitive=self.is_case_sensitive): parse_type(column.type)
            for column in self.schema.columns
            if DIRECTORY in column.properties
        }

    @property
    def is_case_sensitive(self) -> bool:
        """Whether names that differ in case are names of different columns."""
        return CASE_SENSITIVE in self.schema.properties

    def values_of(self, path: str) -> Mapping[str, str]:
        """Returns the values of the columns of directories of a file, as written, by their key."""
        return named_values(directories_of(path, self.root), case_sensitive=self.is_case_sensitive)

    def partition(self, folder: str) -> tuple[Any, ...]:
        """Returns the partition values of the files in ``folder``, as records hold them. Raises InvalidRequestError."""
        named = self.values_of(f"{folder}/")
        return tuple(_partition_value(named.get(key, ""), type_, folder) for key, type_ in self.directory_types.items())


def _partition_value(text: str, type_: DrillType, folder: str) -> Any:
    if is_null(text):
        return None
    try:
        value = value_of(unquote(text), type_)
    except ValueError as error:
        raise InvalidRequestError(f"the directory {folder} has no value of type {type_}: {text}") from error
    return value.toordinal() - EPOCH_DAY if isinstance(value, date) else value


def _state(paths: Sequence[str]) -> str:
    names = sorted(path.rpartition("/")[2] for path in paths)
    return blake2b("\n".join(names).encode(), digest_size=8).hexdigest()
