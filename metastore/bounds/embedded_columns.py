"""Units of a partition as columns in bytes, embedded in its data file where Parquet readers do not look.

Place in the flow: an encoder makes the bytes beside the rows (:func:`embedded`), and the manifest entry records their
position (:class:`EmbeddedPlace`). Planning fetches only these bytes, and reads no Parquet and no JSON
(:func:`read_embedded`). They hold the same facts as :class:`metastore.bounds.portion_columns.PortionColumns` of the
units.

One Arrow record batch has the files first, then the row groups. A text that many rows share (folder, schema, type) is
stored in the first of these rows, and the following rows are null.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.bounds.bound_arrays import BoundArray, Kind, Numbers, Texts, mask_of
from metastore.bounds.portion_columns import PortionColumns, RowGroupUnits
from metastore.bounds.statistics_columns import BoundPair, StatisticsColumns
from metastore.bounds.unit_columns import Coded, FileUnits, Longs, UnitColumns, folders_of
from metastore.errors import FormatError
from metastore.mapping.recorded_numbers import UNKNOWN, recorded_numbers, with_nulls
from metastore.mapping.runs import together
from metastore.model.vocabulary import MetadataType, Statistic

COLUMNS_ID: Final = 2_000_000_036
"""The field id under which an entry's lower bounds hold the place; like that of digests, it is no column's id."""

_VERSION: Final = 1
_MOST_COLUMNS: Final = 64
"""Most columns to embed: queries use few columns. The other columns of a wide table are read from JSON."""
_MOST_BYTES: Final = 1 << 26
"""Most bytes before compression. A larger partition is read from JSON in batches, so it is never held at once."""

_PLACE: Final = struct.Struct("<BQIII")
_SCHEMA_LENGTH: Final = struct.Struct("<Q")
_CODEC: Final = pa.Codec("zstd")
_COMPLETE: Final = b"complete"
_OF_FILES: Final = ("path", "folder", "size", "time", "file", "number", "schema")


class EmbeddedPlace(NamedTuple):
    """Position of the bytes in a data file, their stored length, their length before compression, and their CRC-32."""

    offset: int
    length: int
    size: int
    checksum: int

    def to_bytes(self) -> bytes:
        """The place in its stored form."""
        return _PLACE.pack(_VERSION, *self)

    @classmethod
    def from_bytes(cls, stored: bytes | None) -> EmbeddedPlace | None:
        """Decodes a ``stored`` place; None if there is none, or it has another version or is too large."""
        if stored is None or len(stored) != _PLACE.size or stored[0] != _VERSION:
            return None
        place = cls(*_PLACE.unpack(stored)[1:])
        return place if place.size <= _MOST_BYTES else None


class Embedded(NamedTuple):
    """The bytes, and their length before compression."""

    content: bytes
    size: int

    def at(self, offset: int) -> EmbeddedPlace:
        """The place of the bytes if they begin at ``offset`` of a file."""
        return EmbeddedPlace(offset, len(self.content), self.size, zlib.crc32(self.content))


def embedded(rows: pa.Table) -> Embedded | None:
    """The files among ``rows`` (units of one partition in on-disk columns); None if columns cannot hold them.

    Returns None for unreadable statistics too: a reader of the units then gets the error.
    """
    read = rows.select(_READ)
    kinds = together(read, "metadataType")
    files, groups = (kinds.get(kind.value, read.slice(0, 0)) for kind in (MetadataType.FILE, MetadataType.ROW_GROUP))
    if not files.num_rows or files["path"].null_count or files["metadataIdentifier"].null_count:
        return None
    units = pa.concat_tables([files, groups]).combine_chunks()
    names = _keys(units["columnsStatistics"].combine_chunks())
    try:
        columns = UnitColumns.of(units, names[:_MOST_COLUMNS])
    except FormatError:
        return None
    holders: Any = files["metadataStatistics"].combine_chunks()
    nothing = np.full(groups.num_rows, UNKNOWN, np.int64)
    length, time = (
        with_nulls(np.concatenate([recorded_numbers(holders, name), nothing]))
        for name in (Statistic.LENGTH, Statistic.MODIFICATION_TIME_NANOS)
    )
    folders = folders_of(files["metadataIdentifier"])
    of_groups = pa.nulls(groups.num_rows, pa.string())
    found: Any = pc.index_in(groups["path"], files["path"])
    row_groups: Any = groups["rowGroupIndex"]
    of_files = pa.nulls(files.num_rows, pa.int32())
    arrays = [
        pa.concat_arrays([files["path"].combine_chunks(), of_groups]),
        pa.concat_arrays([_runs(folders), of_groups]),
        length,
        time,
        *(pa.concat_arrays([of_files, *column.chunks]) for column in (found, row_groups)),
        _runs(columns.schemas),
    ]
    stored = {name: found for name, one in columns.by_column.items() if (found := _stored(one)) is not None}
    metadata = {_COMPLETE: b"1"} if len(stored) == len(names) else None
    batch = pa.record_batch([*arrays, *stored.values()], [*_OF_FILES, *(_stored_name(name) for name in stored)])
    return _packed(batch.replace_schema_metadata(metadata))


_READ: Final = (
    "metadataType",
    "metadataIdentifier",
    "path",
    "rowGroupIndex",
    "schema",
    "columnsStatistics",
    "metadataStatistics",
)


def _stored_name(column: str) -> str:
    return f"={column}"


def _keys(maps: Any) -> list[Any]:
    """All distinct keys in order. The child array of a slice also holds other rows' keys, which are left out."""
    first, last = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    found: list[Any] = maps.keys.slice(first, last - first).unique().to_pylist()
    return found


def _packed(batch: pa.RecordBatch) -> Embedded | None:
    schema = batch.schema.serialize().to_pybytes()
    content = b"".join((_SCHEMA_LENGTH.pack(len(schema)), schema, batch.serialize().to_pybytes()))
    if len(content) > _MOST_BYTES:
        return None
    return Embedded(_CODEC.compress(content, asbytes=True), len(content))


def _runs(texts: Coded) -> pa.Array[Any]:
    """Each text that differs from the previous row's, null for a repeated one; "-" means none, "=" precedes a text."""
    names = ["-", *(f"={name}" for name in texts.names)]
    codes = np.asarray(texts.codes, np.int64)
    repeats = np.zeros(len(codes), np.bool_)
    repeats[1:] = codes[1:] == codes[:-1]
    if repeats[1:].all():
        first = pa.array([names[code + 1] for code in codes[:1]], pa.string())
        return pa.concat_arrays([first, pa.nulls(max(0, len(codes) - 1), pa.string())])
    places: Any = pa.array(codes + 1, mask=repeats)
    return pa.array(names, pa.string()).take(places)


def _texts(runs: pa.Array[Any]) -> Coded:
    """The inverse of :func:`_runs`. Rows before the first text have none."""
    distinct = runs.drop_null().dictionary_encode()
    names: list[Any] = distinct.dictionary.to_pylist()
    codes = np.concatenate([[-1], distinct.indices.to_numpy()])[np.cumsum(mask_of(runs.is_valid()))]
    own = [name[1:] for name in names if name != "-"]
    place = {name: code for code, name in enumerate(own)}
    of_name = np.array([*(-1 if name == "-" else place[name[1:]] for name in names), -1], np.int32)
    return Coded(of_name[codes], own)


def _stored(column: StatisticsColumns) -> pa.Array[Any] | None:
    """One column's statistics in Arrow; None if Arrow cannot hold a bound's form."""
    pairs: dict[str, tuple[pa.Array[Any], pa.Array[Any]]] = {}
    for pair in column.bounds:
        form = _form(pair.low)
        if form is None or form != _form(pair.high):
            return None
        sides = _arrow(pair.low), _arrow(pair.high)
        if form in pairs:  # Types with the same form, in different containers.
            sides = pc.coalesce(pairs[form][0], sides[0]), pc.coalesce(pairs[form][1], sides[1])
        pairs[form] = sides
    arrays = [pa.array(column.flags), _runs(Coded(column.type_codes.astype(np.int32), column.types))]
    names = ["flags", "type"]
    for form, (low, high) in pairs.items():
        arrays += [low, high]
        names += [f"low {form}", f"high {form}"]
    return pa.StructArray.from_arrays(arrays, names)


def _form(bounds: BoundArray) -> str | None:
    """Kind and form of an array of bounds as text; None for objects."""
    if isinstance(bounds, Texts):
        return f"{bounds.kind.name} text"
    if not isinstance(bounds, Numbers) or bounds.values.dtype == object:
        return None
    return f"{bounds.kind.name} {bounds.values.dtype.name} {bounds.scale} {int(bounds.decimal)}"


def _arrow(bounds: BoundArray) -> pa.Array[Any]:
    if isinstance(bounds, Texts):
        return bounds.values
    assert isinstance(bounds, Numbers)
    found: pa.Array[Any] = pa.array(bounds.values, mask=~bounds.known, from_pandas=False)
    return found


def _bounds(form: str, values: Any) -> BoundArray:
    """The inverse of :func:`_form`: an array of bounds from its values."""
    kind, kind_of_form, *rest = form.split(" ")
    if kind_of_form == "text":
        return Texts(Kind[kind], values)
    scale, decimal = map(int, rest)
    known = mask_of(values.is_valid())
    numbers = pc.fill_null(values, pa.scalar(0, values.type)).to_numpy(zero_copy_only=False)
    return Numbers(Kind[kind], known, numbers, scale, bool(decimal))


def _statistics(column: Any) -> StatisticsColumns:
    names = [one.name for one in column.type]
    arrays = dict(zip(names, column.flatten(), strict=True))
    types = _texts(arrays["type"])
    forms = [name.removeprefix("low ") for name in names if name.startswith("low ")]
    return StatisticsColumns(
        arrays["flags"].to_numpy(),
        tuple(types.names),
        types.codes.astype(np.int16),
        tuple(BoundPair(_bounds(form, arrays[f"low {form}"]), _bounds(form, arrays[f"high {form}"])) for form in forms),
    )


@dataclass(frozen=True)
class EmbeddedBatches:
    """The batches read so far, grouped by their stored schema: batches of one schema become columns together."""

    asked: Collection[str]
    _by_schema: dict[bytes, tuple[pa.Schema, list[pa.RecordBatch]]] = field(default_factory=dict)

    def add(self, place: EmbeddedPlace, content: pa.Buffer) -> bool:
        """Adds the bytes read at ``place``; returns False if they lack a requested column.

        Raises FormatError if the bytes are not those that were written there.
        """
        if len(content) != place.length or zlib.crc32(content) != place.checksum:
            raise FormatError("its columns are not those that were written: their checksum differs")
        unpacked = _CODEC.decompress(content, place.size)
        [length] = _SCHEMA_LENGTH.unpack_from(unpacked)
        stored = unpacked.slice(_SCHEMA_LENGTH.size, length).to_pybytes()
        known = self._by_schema.get(stored)
        if known is None:
            known = self._by_schema[stored] = (pa.ipc.read_schema(pa.py_buffer(stored)), [])
        schema, batches = known
        if _COMPLETE not in (schema.metadata or {}) and any(
            _stored_name(name) not in schema.names for name in self.asked
        ):
            return False
        batches.append(pa.ipc.read_record_batch(unpacked.slice(_SCHEMA_LENGTH.size + length), schema))
        return True

    def portions(self) -> list[PortionColumns]:
        """The columns of all batches."""
        return [_portion(batches, schema, self.asked) for schema, batches in self._by_schema.values() if batches]


def _portion(batches: Sequence[pa.RecordBatch], schema: pa.Schema, asked: Collection[str]) -> PortionColumns:
    names = {name: _stored_name(name) for name in asked if _stored_name(name) in schema.names}
    units = pa.Table.from_batches(batches, schema).select([*_OF_FILES, *names.values()]).combine_chunks()
    arrays: Mapping[str, Any] = {name: _whole(units[name]) for name in units.schema.names}
    is_file = mask_of(arrays["path"].is_valid())
    files, groups = np.flatnonzero(is_file), np.flatnonzero(~is_file)
    statistics = {name: _statistics(arrays[stored]) for name, stored in names.items()}
    for name in asked:
        if name not in statistics:
            statistics[name] = StatisticsColumns.nothing(units.num_rows)
    columns = UnitColumns(_texts(arrays["schema"]), statistics)
    of_files = FileUnits(
        arrays["path"].take(pa.array(files)),
        _texts(arrays["folder"]).take(files),
        _longs(arrays["size"], UNKNOWN)[files],
        _longs(arrays["time"], UNKNOWN)[files],
        columns.take(files),
    )
    if not len(groups):
        return PortionColumns((of_files,), (), frozenset(asked))
    lengths = [len(batch) for batch in batches]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    files_before = np.concatenate([[0], np.cumsum(is_file)])[starts]
    own = _longs(arrays["file"], -1)
    places: Any = np.where(own < 0, -1, own + np.repeat(files_before, lengths))[groups].astype(np.int32)
    numbers: Any = _longs(arrays["number"], -1)[groups].astype(np.int32)
    of_groups = RowGroupUnits(places, numbers, columns.take(groups))
    return PortionColumns((of_files,), (of_groups,), frozenset(asked))


def _longs(column: Any, instead: int) -> Longs:
    found: Longs = pc.fill_null(column.cast(pa.int64()), instead).to_numpy(zero_copy_only=False)
    return found


def _whole(column: pa.ChunkedArray[Any]) -> Any:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
