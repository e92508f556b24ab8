"""Applies equality delete files to data files, as streaming writers delete rows.

Keys are read by field id, in the table's types. A column that was dropped since still counts; a column that a data file
lacks has its default. Keys of delete files are cached up to a limit of bytes and read again beyond it; delete files of
any size are applied piece by piece.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow
from pyiceberg.schema import Schema, prune_columns
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.typedef import TableVersion
from pyiceberg.types import NestedField, PrimitiveType, StructType

from metastore.errors import FormatError
from metastore.lake.iceberg.manifests.data_file import open_data_file
from metastore.lake.iceberg.rows.delete_index import DeleteFile
from metastore.lake.iceberg.rows.equal_rows import equal_to_one, in_order
from metastore.lake.iceberg.rows.projection import Projection
from metastore.lake.stores.files import open_ranges
from metastore.lake.stores.read_errors import reading_file

_arrow: Any = pa
_compute: Any = pc
"""Arrow and its functions, for arguments that the stubs do not accept."""

Keys = list[Any]
"""One column of values for each id of a delete file, in the order of the ids."""

_PIECE: Final = 32 << 20
_KEPT: Final = 128 << 20
"""Bytes of keys that are compared at a time, and that one scan caches."""


class EqualityDeletes:
    """Applies equality delete files to data files of one table; threads may share it."""

    def __init__(self, io: FileIO, schemas: Sequence[Schema], names: NameMapping | None, version: TableVersion) -> None:
        """``schemas`` are the table's, first the one to read by; ``names`` map the columns of files without ids."""
        self._io = io
        self._names = names
        self._version = version
        self._schemas = schemas
        self._column = lru_cache(maxsize=None)(self._find_column)
        self._kept: OrderedDict[DeleteFile, Keys] = OrderedDict()
        self._bytes = 0
        self._lock = Lock()

    @classmethod
    def of_table(cls, metadata: TableMetadata, io: FileIO) -> EqualityDeletes:
        """Create it for a table from its metadata."""
        return cls(io, schemas_by_age(metadata), metadata.name_mapping(), metadata.format_version)

    def prepare(self, delete: DeleteFile) -> None:
        """Read the keys of a delete file in advance, if they are few enough to cache."""
        for _ in self._of_file(delete, tuple(sorted(delete.equality_ids))):
            pass

    def without(
        self,
        batches: Sequence[pa.RecordBatch],
        held: Schema,
        constants: Mapping[int, Any],
        deletes: Iterable[DeleteFile],
    ) -> list[pa.RecordBatch]:
        """Yield rows of ``batches`` that no file of ``deletes`` deletes; arguments and errors as :meth:`mask`."""
        return list(_without_rows(batches, self.mask(batches, held, constants, deletes)))

    def mask(
        self,
        batches: Sequence[pa.RecordBatch],
        held: Schema,
        constants: Mapping[int, Any],
        deletes: Iterable[DeleteFile],
    ) -> Any:
        """Return a NumPy array: whether a file of ``deletes`` deletes each row. The batches have the columns ``held``.

        ``batches`` must have every column that the file has and that the deletes name by id; ``constants`` are as for
        :class:`Projection`. Raises StorageError and FormatError, which name the delete file.
        """
        gone = np.zeros(sum(batch.num_rows for batch in batches), dtype=bool)
        by_ids: dict[tuple[int, ...], list[DeleteFile]] = defaultdict(list)
        for delete in deletes:
            by_ids[tuple(sorted(delete.equality_ids))].append(delete)
        for ids, files in sorted(by_ids.items()):
            rows = self._columns(batches, held, constants, ids)
            for keys in self._pieces(sorted(files), ids):
                gone |= equal_to_one(rows, keys)
        return gone

    def _columns(
        self, batches: Sequence[pa.RecordBatch], held: Schema, constants: Mapping[int, Any], ids: Iterable[int]
    ) -> list[Any]:
        """Return the values of the columns ``ids`` in ``batches``, in chunks."""
        return [
            _arrow.chunked_array([column.values(batch, held, constants) for batch in batches], column.type)
            for column in map(self._column, ids)
        ]

    def _pieces(self, files: Sequence[DeleteFile], ids: tuple[int, ...]) -> Iterator[Keys]:
        """Yield the keys of ``files`` in pieces of similar size: small files together, large ones split."""
        waiting: list[Keys] = []
        size = 0
        for keys in (piece for file in files for piece in self._of_file(file, ids)):
            waiting.append(keys)
            size += _size(keys)
            if size >= _PIECE:
                yield _together(waiting)
                waiting, size = [], 0
        if waiting:
            yield _together(waiting)

    def _of_file(self, delete: DeleteFile, ids: tuple[int, ...]) -> Iterator[Keys]:
        """Keys of a delete file: from memory, whole if it is small, else piece by piece and not remembered."""
        with self._lock:
            known = self._kept.get(delete)
            if known is not None:
                self._kept.move_to_end(delete)
        if known is not None:
            yield known
            return
        all_: list[Keys] | None = []
        size = 0
        for keys in self._pieces_of_file(delete, ids):
            size += _size(keys)
            if all_ is not None:
                all_.append(keys)
                if size > _PIECE:
                    yield from all_
                    all_ = None
            else:
                yield keys
        if all_:
            keys = in_order(_together(all_))
            self._keep(delete, keys)
            yield keys

    def _keep(self, delete: DeleteFile, keys: Keys) -> None:
        with self._lock:
            if delete not in self._kept:
                self._kept[delete] = keys
                self._bytes += _size(keys)
            while self._bytes > _KEPT:
                _, oldest = self._kept.popitem(last=False)
                self._bytes -= _size(oldest)

    def _pieces_of_file(self, delete: DeleteFile, ids: tuple[int, ...]) -> Iterator[Keys]:
        with reading_file(delete.path), open_ranges(self._io, delete.path) as source:
            file = open_data_file(source, delete.format, delete.path)
            held = pyarrow_to_schema(file.schema, self._names, self._version <= 2, self._version)
            if missing := set(ids) - held.field_ids:
                raise FormatError(f"it deletes rows by the column with id {min(missing)}, which it does not have")
            names = [field.name for field in held.fields if not Schema(field).field_ids.isdisjoint(ids)]
            for batch in file.matching(None, names):
                if batch.num_rows:
                    yield [self._column(each).values(batch, held, {}) for each in ids]

    def _find_column(self, field_id: int) -> _KeyColumn:
        """Return the column with an id, from the first schema that has it."""
        for schema in self._schemas:
            if field_id in schema.field_ids:
                type_ = schema.find_type(field_id)
                if not isinstance(type_, PrimitiveType):
                    raise FormatError(
                        f"it deletes rows by column {schema.find_column_name(field_id)}, which is {type_}"
                    )
                return _KeyColumn.from_schema(prune_columns(schema, {field_id}))
        raise FormatError(f"it deletes rows by the column with id {field_id}, which no schema of the table has")


def schemas_by_age(metadata: TableMetadata) -> list[Schema]:
    """Return the table's current schema, then the others, newest first."""
    return [metadata.schema(), *sorted(metadata.schemas, key=lambda schema: -schema.schema_id)]


@dataclass(frozen=True)
class _KeyColumn:
    """One column of primitive values, top-level or within structs; the ``schema`` has only this column."""

    schema: Schema
    arrow: pa.Schema
    type: pa.DataType

    @classmethod
    def from_schema(cls, schema: Schema) -> _KeyColumn:
        """Create it from a schema with only this column. Files without it have nulls, even if it is now required."""
        optional = Schema(*map(_optional, schema.fields))
        arrow = schema_to_pyarrow(optional, include_field_ids=False)
        type_: Any = arrow.field(0).type
        while pa.types.is_struct(type_):
            type_ = type_.field(0).type
        return cls(optional, arrow, type_.storage_type if isinstance(type_, pa.BaseExtensionType) else type_)

    def values(self, batch: pa.RecordBatch, held: Schema, constants: Mapping[int, Any]) -> Any:
        """Return the column's values in a batch of a file with columns ``held``."""
        found: Any = Projection(held, self.schema, self.arrow, constants).apply(batch).column(0)
        while pa.types.is_struct(found.type):
            found = _compute.struct_field(found, [0])
        return found.storage if isinstance(found.type, pa.BaseExtensionType) else found


def _optional(field: NestedField) -> NestedField:
    type_ = field.field_type
    if isinstance(type_, StructType):
        type_ = StructType(*map(_optional, type_.fields))
    return field.model_copy(update={"required": False, "field_type": type_})


def _together(pieces: Sequence[Keys]) -> Keys:
    return pieces[0] if len(pieces) == 1 else [pa.concat_arrays(parts) for parts in zip(*pieces, strict=True)]


def _size(keys: Keys) -> int:
    return sum(column.nbytes for column in keys)


def _without_rows(batches: Sequence[pa.RecordBatch], gone: Any) -> Iterator[pa.RecordBatch]:
    first = 0
    for batch in batches:
        part = gone[first : first + batch.num_rows]
        first += batch.num_rows
        if not part.any():
            yield batch
        elif not part.all():
            yield batch.filter(pa.array(~part))
