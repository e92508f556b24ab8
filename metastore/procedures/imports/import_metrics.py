"""The task of ``add_files``: reads the footers of a chunk of files, and returns the manifest values of each.

Promises: counts are exact or absent. A bound is never too narrow, and truncated as the table's properties say. Only
footers are read. A file that cannot be added does not end the task: its row has the reason, so that all such files are
reported at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt
from pyiceberg.conversions import to_bytes
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import UnsupportedPyArrowTypeException, pyarrow_to_schema
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)

from metastore.errors import MetastoreError, ProcedureError
from metastore.lake.formats.avro.avro_facts import read_avro
from metastore.lake.formats.facts import FileFacts, LeafFacts
from metastore.lake.formats.names import PARQUET
from metastore.lake.formats.orc.orc_facts import read_orc, require_readable_times
from metastore.lake.formats.parquet.parquet_facts import ParquetFooters
from metastore.lake.iceberg.columns.bound_values import bound_bytes, internal
from metastore.lake.stores.files import arrow_paths
from metastore.procedures.hive.migration.reader_differences import found_in
from metastore.procedures.imports.import_listing import ImportedFile
from metastore.procedures.imports.import_values import key_value
from metastore.sources.hive.matching import NAMELESS, has_names
from metastore.sources.hive.time_units import why_refused

_COUNTS: Final = pa.map_(pa.int32(), pa.int64())
_BOUNDS: Final = pa.map_(pa.int32(), pa.binary())
_FRAGMENT_COLUMNS: Final[dict[str, pa.DataType]] = {
    "location": pa.string(),
    "error": pa.string(),
    "size": pa.int64(),
    "records": pa.int64(),
    "by_name": pa.bool_(),
    "splits": pa.list_(pa.int64()),
    "sizes": _COUNTS,
    "values": _COUNTS,
    "nulls": _COUNTS,
    "lower": _BOUNDS,
    "upper": _BOUNDS,
    "partition": pa.list_(pa.binary()),
    "differences": pa.list_(pa.list_(pa.string())),
}
FRAGMENT: Final = pa.schema(_FRAGMENT_COLUMNS)
"""Schema of the fragments: one row a file.

``differences`` are pairs of a column and a kind of values in it that readers read differently, as found by
:func:`metastore.procedures.hive.migration.reader_differences.found_in`. ``partition`` has the values in Iceberg's
binary form, in the order of the spec. ``by_name`` means that the file has no field IDs, so the name mapping finds its
columns.
"""

READERS: Final[Mapping[str, Callable[[pa.NativeFile, int], FileFacts]]] = {
    PARQUET: lambda source, _: ParquetFooters(as_arrow_opens=True).read(source),
    "ORC": lambda source, size: _of_orc(read_orc(source, size)),
    "AVRO": read_avro,
}


@dataclass(frozen=True)
class Cut:
    """The metrics to keep of a column: counts, bounds, the length of bounds of strings and bytes (None: unlimited)."""

    counts: bool
    bounds: bool
    length: int | None


@dataclass(frozen=True)
class Target:
    """The table that files must fit. ``cuts`` is by field ID."""

    schema: Schema
    spec: PartitionSpec
    mapping: NameMapping
    cuts: Mapping[int, Cut]


@dataclass(frozen=True)
class ImportChunk:
    """Files of one format for one task to read."""

    io: FileIO
    format: str
    target: Target
    files: Sequence[ImportedFile]


def read_metrics(chunk: ImportChunk) -> Iterator[pa.RecordBatch]:
    """The task: yields one batch of :data:`FRAGMENT`, with a row for each file."""
    yield pa.RecordBatch.from_pylist([_row(chunk, file) for file in chunk.files], FRAGMENT)


def _row(chunk: ImportChunk, file: ImportedFile) -> dict[str, Any]:
    try:
        system, [path] = arrow_paths(chunk.io, [file.location])
        with system.open_input_file(path) as source:
            size = source.size()
            facts = READERS[chunk.format](source, size)
        metrics = _Metrics(chunk.target, facts, dict(file.keys))
        return {"location": file.location, "size": size, **metrics.row(is_parquet=chunk.format == PARQUET)}
    except FileNotFoundError:
        return {"location": file.location, "error": "there is no such file"}
    except MetastoreError as error:
        return {"location": file.location, "error": str(error)}
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        message = " ".join(str(error).split()) or type(error).__name__
        return {"location": file.location, "error": f"it cannot be read as {chunk.format}: {message}"}


class _Metrics:
    """The metrics of one file for the table. Raises ProcedureError if the file does not fit the table."""

    def __init__(self, target: Target, facts: FileFacts, keys: Mapping[str, str | None]) -> None:
        self._target = target
        self._facts = facts
        self._keys = keys
        self._by_name = not _has_ids(facts.schema)
        file_schema = self._match_schema()
        leaves = list(_leaves(file_schema.as_struct(), inside=False))
        self._leaves = {
            field.field_id: facts_of
            for (field, inside), facts_of in zip(leaves, facts.leaves, strict=True)
            if not inside
        }
        self._sizes = {
            field.field_id: facts_of.size
            for (field, _), facts_of in zip(leaves, facts.leaves, strict=True)
            if facts_of.size is not None
        }
        self._ids = file_schema.field_ids

    def row(self, *, is_parquet: bool) -> dict[str, Any]:
        self._require_values()
        self._require_no_lost_keys()
        return {
            "records": self._facts.records,
            "by_name": self._by_name,
            "splits": list(self._facts.splits),
            "sizes": list(self._sizes.items()),
            "values": self._counts(lambda leaf: leaf.values),
            "nulls": self._counts(lambda leaf: leaf.nulls),
            "lower": self._bounds(upper=False),
            "upper": self._bounds(upper=True),
            "differences": [list(pair) for pair in found_in(self._facts.schema, is_parquet=is_parquet)],
            "partition": [self._partition(field) for field in self._target.spec.fields],
        }

    def _match_schema(self) -> Schema:
        """Returns the file's schema with the table's field IDs."""
        for column in self._facts.schema:
            _require_readable(column)
        try:
            schema = pyarrow_to_schema(self._facts.schema, None if not self._by_name else self._target.mapping)
        except (UnsupportedPyArrowTypeException, TypeError, NotImplementedError) as error:
            raise ProcedureError(f"it has a column of a type that Iceberg does not support: {error}") from error
        except ValueError as error:
            known = {field.name for field in self._target.schema.fields}
            extra = [field.name for field in self._facts.schema if field.name not in known]
            what = f"columns {', '.join(extra)}" if extra else f"a field ({error})"
            raise ProcedureError(f"it has {what} that the table has not; add them to the table first") from error
        for field, _ in _leaves(schema.as_struct(), inside=False):
            self._require_fit(field)
        return schema

    def _require_fit(self, field: NestedField) -> None:
        try:
            wanted = self._target.schema.find_type(field.field_id)
        except ValueError as error:
            raise ProcedureError(f"field id {field.field_id} ({field.name}) does not exist in the table") from error
        if not _reads_as(field.field_type, wanted):
            is_moment = isinstance(field.field_type, TimestamptzType) and isinstance(wanted, TimestampType)
            more = ": moments, as all of INT96 are, need a column of timestamptz" if is_moment else ""
            raise ProcedureError(f"column {field.name} is {field.field_type} in it and {wanted} in the table{more}")

    def _require_values(self) -> None:
        """Refuse nulls in required columns. A missing column counts as null."""
        given = {field.source_id for field in self._target.spec.fields if self._key_of(field) is not None}
        for field in self._target.schema.fields:
            if not field.required or field.field_id in given:
                continue
            leaf = self._leaves.get(field.field_id)
            missing = field.field_id not in self._ids
            if missing or (leaf is not None and leaf.nulls != 0 and self._facts.records):
                why = "it has no such column" if missing else "it has nulls, or does not say that it has none"
                raise ProcedureError(f"NULL value not allowed for NOT NULL column: {field.name} ({why})")

    def _require_no_lost_keys(self) -> None:
        """Refuse a column that only the path has, unless it is a partition field: its values would be read as null."""
        kept = {
            self._target.schema.find_column_name(field.source_id)
            for field in self._target.spec.fields
            if isinstance(field.transform, IdentityTransform)
        }
        for field in self._target.schema.fields:
            if field.name.lower() in self._keys and field.name not in kept and field.field_id not in self._ids:
                raise ProcedureError(
                    f"its path says {field.name}, which is no column of it and no identity partition of the table: "
                    "partitioned files cannot be added to a table that is not partitioned by the same column"
                )

    def _counts(self, of: Callable[[LeafFacts], int | None]) -> list[tuple[int, int]]:
        counted = ((field_id, of(leaf)) for field_id, leaf in self._leaves.items() if self._cut(field_id).counts)
        return [(field_id, count) for field_id, count in counted if count is not None]

    def _bounds(self, *, upper: bool) -> list[tuple[int, bytes]]:
        found = []
        for field_id, leaf in self._leaves.items():
            cut, kind = self._cut(field_id), self._target.schema.find_type(field_id)
            if cut.bounds and isinstance(kind, PrimitiveType):
                bound = bound_bytes(kind, leaf.high if upper else leaf.low, cut.length, upper=upper)
                if bound is not None:
                    found.append((field_id, bound))
        return found

    def _cut(self, field_id: int) -> Cut:
        return self._target.cuts.get(field_id, Cut(counts=True, bounds=False, length=None))

    def _key_of(self, field: PartitionField) -> str | None:
        """Returns the value in the path of an identity partition; None if there is none, or it is null."""
        name = self._target.schema.find_column_name(field.source_id) or ""
        return self._keys.get(name.lower()) if isinstance(field.transform, IdentityTransform) else None

    def _partition(self, field: PartitionField) -> bytes | None:
        """The value by folder, else by bounds that agree; ProcedureError if the file may hold several."""
        source = self._target.schema.find_field(field.source_id)
        kind = source.field_type
        assert isinstance(kind, PrimitiveType)
        leaf = self._leaves.get(field.source_id)
        name = (self._target.schema.find_column_name(field.source_id) or source.name).lower()
        if isinstance(field.transform, IdentityTransform) and name in self._keys:
            value = key_value(kind, self._keys[name], source.name)
            self._require_agreement(source.name, kind, leaf, value)
            return None if value is None else to_bytes(kind, value)
        if leaf is None or leaf.nulls == self._facts.records:
            return None  # The column is missing, which is read as null, or all its values are null.
        low, high = internal(kind, leaf.low), internal(kind, leaf.high)
        if leaf.nulls != 0 or low is None or high is None:
            raise ProcedureError(
                f"Cannot infer partition value of field {field.name}: the file does not say that {source.name} has one "
                "value and no nulls in it"
            )
        apply = field.transform.transform(kind)
        made = apply(low)
        if made != apply(high) or not (field.transform.preserves_order or low == high):
            raise ProcedureError(
                f"Cannot infer partition value of field {field.name}: {source.name} is between {leaf.low} and "
                f"{leaf.high} in it, which is not one value of {field.transform}"
            )
        result = field.transform.result_type(kind)
        assert isinstance(result, PrimitiveType)
        return None if made is None else to_bytes(result, made)

    def _require_agreement(self, name: str, kind: PrimitiveType, leaf: LeafFacts | None, value: Any) -> None:
        if leaf is None or not self._facts.records:
            return
        low, high = internal(kind, leaf.low), internal(kind, leaf.high)
        if value is None:
            agrees = leaf.nulls in (None, self._facts.records)
        else:
            # Bounds of one long value may be truncated; all others are the value itself.
            is_cut = isinstance(value, str | bytes) and len(low or value) < len(value) and value[: len(low)] == low
            agrees = not leaf.nulls and (low is None or high is None or low == high == value or is_cut)
        if not agrees:
            raise ProcedureError(f"its path says {name}={value}, and the file itself has other values of {name}")


def _require_readable(field: Any) -> None:
    """Refuse an Arrow field whose type an Iceberg reader refuses or reads differently. Raises ProcedureError."""
    kind = field.type
    if pt.is_nested(kind):
        for index in range(kind.num_fields):
            _require_readable(kind.field(index))
        return
    if pt.is_dictionary(kind):
        kind = kind.value_type
    if (wrong := why_refused(kind)) is not None:
        why = f"{wrong}; write it in microseconds"
    elif pt.is_unsigned_integer(kind) or pt.is_float16(kind):
        why = "Iceberg has no such numbers, and Spark refuses to read them; write it as a wider type that has a sign"
    elif pt.is_null(kind):
        why = "PyIceberg and Spark do not read columns of no type; write it as the table's type, or leave it out"
    else:
        return
    raise ProcedureError(f"column {field.name} is {field.type} in it: {why}")


def _reads_as(kind: IcebergType, target_type: IcebergType) -> bool:
    """Returns whether all Iceberg readers can read ``kind`` in a file as ``target_type``.

    PyIceberg also reads strings as bytes, bytes as strings, and decimals of another scale. Spark fails on these, or
    returns wrong values.
    """
    match kind, target_type:
        case (IntegerType(), LongType()) | (FloatType(), DoubleType()):
            return True
        case DecimalType(), DecimalType():
            return kind.scale == target_type.scale and kind.precision <= target_type.precision
        case FixedType(), UUIDType():
            return len(kind) == 16
        case _:
            return kind == target_type


def _of_orc(facts: FileFacts) -> FileFacts:
    """Returns the facts of a file that all Iceberg readers read alike. Raises FormatError or ProcedureError."""
    require_readable_times(facts)
    if not has_names(facts.schema):
        raise ProcedureError(NAMELESS)
    return facts


def _has_ids(schema: pa.Schema) -> bool:
    return any(b"PARQUET:field_id" in (field.metadata or {}) for field in schema)


def _leaves(struct: StructType, *, inside: bool) -> Iterator[tuple[NestedField, bool]]:
    """Yields the leaf fields, depth first, and whether each is inside a list or a map."""
    for field in struct.fields:
        yield from _leaves_of(field, field.field_type, inside=inside)


def _leaves_of(field: NestedField, kind: IcebergType, *, inside: bool) -> Iterator[tuple[NestedField, bool]]:
    match kind:
        case StructType():
            yield from _leaves(kind, inside=inside)
        case ListType():
            yield from _leaves_of(kind.element_field, kind.element_type, inside=True)
        case MapType():
            yield from _leaves_of(kind.key_field, kind.key_type, inside=True)
            yield from _leaves_of(kind.value_field, kind.value_type, inside=True)
        case _:
            yield field, inside
