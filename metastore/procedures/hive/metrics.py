"""The engine task that reads metrics for Iceberg's manifests: takes a chunk of files, returns one row for each.

Rows hold plain numbers for each leaf of the table, in order, so the driver does not depend on the format. A file that
cannot be read does not end the task: its row has the error, so that all such files can be named together.

Promise: counts are exact or absent. Bounds are never too narrow (:mod:`metastore.lake.formats.facts`); bounds of texts
and bytes are truncated to 16, as in Iceberg.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import pyarrow as pa

from metastore.errors import FormatError, MetastoreError
from metastore.ground.digests import digest
from metastore.ground.threads import Threads
from metastore.lake.formats.avro.avro_facts import read_avro
from metastore.lake.formats.facts import FileFacts
from metastore.lake.formats.orc.orc_facts import read_orc, require_readable_times
from metastore.lake.formats.parquet.parquet_facts import ParquetFooters
from metastore.lake.iceberg.columns.bound_values import bound_bytes
from metastore.lake.stores.locations import is_local
from metastore.sources.hive.listing import HiveStore
from metastore.sources.hive.matching import Match, match
from metastore.sources.hive.tables import Columns, HiveFormat
from metastore.sources.hive.types import HiveLeaf, leaves_of, primitive_type

_FETCHES: Final = 16
"""Number of footers fetched concurrently from a store that is not the local disk: its latency dominates."""

_CUT: Final = 16

_COUNTS: Final = pa.list_(pa.int64())
_BOUNDS: Final = pa.list_(pa.binary())
_FIELDS: Final[dict[str, Any]] = {
    "number": pa.int64(),
    "error": pa.string(),
    "records": pa.int64(),
    "shape": pa.string(),
    "schema": pa.binary(),
    "splits": _COUNTS,
    "sizes": _COUNTS,
    "values": _COUNTS,
    "nulls": _COUNTS,
    "lower": _BOUNDS,
    "upper": _BOUNDS,
}
FRAGMENT: Final = pa.schema(_FIELDS)
"""The task's result for each file. ``shape`` identifies its schema, which only the first row with that shape has."""


class FileToRead(NamedTuple):
    """One file of a chunk: its number in the whole listing, and its location, size and format from the listing."""

    number: int
    location: str
    size: int
    format: HiveFormat


@dataclass(frozen=True)
class MetricsChunk:
    """The files of one task; plain data. ``properties`` open the store, with PyIceberg's names."""

    columns: Columns
    files: Sequence[FileToRead]
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_metrics(chunk: MetricsChunk) -> Iterator[pa.RecordBatch]:
    """Yields one batch of :data:`FRAGMENT` with a row for each file. Only footers are read."""
    reader = _MetricsReader(chunk)
    if all(is_local(file.location) for file in chunk.files):
        rows = [reader.row(file) for file in chunk.files]
    else:
        with Threads(_FETCHES) as threads:
            rows = list(threads.map(reader.row, chunk.files))
    yield pa.RecordBatch.from_pylist(rows, FRAGMENT)


class _MetricsReader:
    def __init__(self, chunk: MetricsChunk) -> None:
        self._store = HiveStore(chunk.properties)
        self._columns = chunk.columns
        self._leaves = leaves_of(chunk.columns)
        self._parquet = ParquetFooters(as_arrow_opens=True)
        self._shapes: dict[str, Match] = {}
        self._learning = threading.Lock()

    def row(self, file: FileToRead) -> dict[str, Any]:
        try:
            with self._store.open(file.location) as source:
                facts = self._facts(file, source)
        except (pa.ArrowException, OSError, MetastoreError, UnicodeDecodeError, KeyError, ValueError) as error:
            return {"number": file.number, "error": f"{file.location}: {_error_text(error)}"}
        return self._row(file, facts)

    def _facts(self, file: FileToRead, source: pa.NativeFile) -> FileFacts:
        if source.size() != file.size:
            raise FormatError("it has changed since it was listed")
        match file.format:
            case HiveFormat.PARQUET:
                return self._parquet.read(source)
            case HiveFormat.ORC:
                facts = read_orc(source, file.size)
                require_readable_times(facts)
                return facts
            case _:
                return read_avro(source, file.size)

    def _row(self, file: FileToRead, facts: FileFacts) -> dict[str, Any]:
        """Metrics by the table's leaves, None where unknown. Only a schema that is new here is sent along."""
        described = facts.schema.serialize().to_pybytes()
        shape = f"{file.format}-{digest(described).hex()}"
        with self._learning:
            is_new = shape not in self._shapes
            if is_new:
                self._shapes[shape] = match(self._columns, facts.schema)
        row: dict[str, Any] = {
            "number": file.number,
            "records": facts.records,
            "shape": shape,
            "schema": described if is_new else None,
            "splits": list(facts.splits),
        }
        matched = self._shapes[shape]
        count = len(self._leaves)
        for name in ("sizes", "values", "nulls", "lower", "upper"):
            row[name] = [None] * count
        for place, leaf in zip(matched.leaves, facts.leaves, strict=True):
            if place is None:
                continue
            row["sizes"][place], row["values"][place], row["nulls"][place] = leaf.size, leaf.values, leaf.nulls
            declared = self._leaves[place]
            if not declared.repeated and not matched.problems:  # a file that does not fit is refused as a whole
                row["lower"][place] = _encode_bound(declared, leaf.low, is_upper=False)
                row["upper"][place] = _encode_bound(declared, leaf.high, is_upper=True)
        return row


def schema_of(described: bytes) -> pa.Schema:
    """Returns the file schema from the column ``schema`` of a fragment."""
    return pa.ipc.read_schema(pa.py_buffer(described))


def _encode_bound(leaf: HiveLeaf, bound: Any, *, is_upper: bool) -> bytes | None:
    if not is_upper and leaf.type.name == "char" and isinstance(bound, str):
        # Some writers pad a char, and some readers remove the padding: the unpadded text is the lower one.
        bound = bound.rstrip(" ")
    return bound_bytes(primitive_type(leaf.type), bound, _CUT, upper=is_upper)


def _error_text(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__
