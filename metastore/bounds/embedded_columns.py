"""Units of a partition as columns in bytes, embedded in its data file where Parquet readers do not look.

Place in the flow: an encoder makes the bytes beside the rows (:func:`embedded`), and the manifest entry records their
position (:class:`metastore.bounds.embedded_place.EmbeddedPlace`). Planning fetches only these bytes, and reads no
Parquet and no JSON (:class:`EmbeddedBatches`). They hold what
:class:`metastore.bounds.portion_columns.PortionColumns` has of the units.

One Arrow record batch has the files first, then the row groups, then all other units, which have facts only
(:mod:`metastore.bounds.fact_columns`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.bounds.bound_arrays import BoundArray, Kind, Mask, Numbers, Texts, mask_of
from metastore.bounds.embedded_place import Embedded, EmbeddedPlace, opened, packed, runs_of, texts_of
from metastore.bounds.fact_columns import KIND, StoredNumbers, fact_columns, longs, whole
from metastore.bounds.portion_columns import PortionColumns, RowGroupUnits
from metastore.bounds.statistics_columns import BoundPair, StatisticsColumns
from metastore.bounds.unit_columns import Coded, FileUnits, UnitColumns, folders_of
from metastore.errors import FormatError
from metastore.mapping.recorded_numbers import UNKNOWN, with_nulls
from metastore.mapping.runs import together
from metastore.model.vocabulary import MetadataType

_MOST_COLUMNS: Final = 64
"""Most columns to embed: queries use few columns. The other columns of a wide table are read from JSON."""
_COMPLETE: Final = b"complete"
_OF_FILES: Final = ("path", "folder", "size", "time", "file", "number", "schema")


def embedded(rows: pa.Table) -> Embedded | None:
    """The files among ``rows`` (units of one partition in on-disk columns); None if columns cannot hold them.

    Returns None for unreadable statistics too: a reader of the units then gets the error.
    """
    kinds = together(rows.select(_READ), "metadataType")
    files, groups = (
        kinds.pop(kind.value, rows.slice(0, 0).select(_READ)) for kind in (MetadataType.FILE, MetadataType.ROW_GROUP)
    )
    if not files.num_rows or files["path"].null_count or files["metadataIdentifier"].null_count:
        return None
    others = pa.concat_tables(kinds.values()) if kinds else files.slice(0, 0)
    lower = pa.concat_tables([files, groups]).combine_chunks()
    units = pa.concat_tables([lower, others])
    names = _keys(whole(lower["columnsStatistics"]))
    try:
        columns = UnitColumns.of(lower, names[:_MOST_COLUMNS])
        numbers = StoredNumbers.of(units)
    except FormatError:
        return None
    found: Any = pc.index_in(whole(groups["path"]), whole(files["path"]))
    facts = fact_columns(units, files.num_rows, found, numbers)
    units = lower if facts is None else units
    count = units.num_rows
    arrays = [
        _padded(whole(files["path"]), count),
        _padded(runs_of(folders_of(files["metadataIdentifier"])), count),
        with_nulls(numbers.lengths[:count]),
        _padded(with_nulls(numbers.times[: files.num_rows]), count),
        _padded(pa.concat_arrays([pa.nulls(files.num_rows, pa.int32()), found]), count),
        whole(units["rowGroupIndex"]),
        _padded(runs_of(columns.schemas), count),
    ]
    stored = {name: found for name, one in columns.by_column.items() if (found := _stored(one)) is not None}
    metadata = {_COMPLETE: b"1"} if len(stored) == len(names) else None
    named = {
        **dict(zip(_OF_FILES, arrays, strict=True)),
        **(facts or {}),
        **{_stored_name(name): _padded(column, count) for name, column in stored.items()},
    }
    batch = pa.record_batch(list(named.values()), list(named))
    return packed(batch.replace_schema_metadata(metadata), has_facts=facts is not None)


_READ: Final = [
    "metadataType",
    "metadataIdentifier",
    "location",
    "path",
    "rowGroupIndex",
    "schema",
    "columnsStatistics",
    "metadataStatistics",
    "lastModifiedTime",
    "column",
    "locations",
    "partitionValues",
]


def _padded(column: Any, count: int) -> Any:
    """``column`` with nulls behind it, ``count`` rows in total."""
    lacking = count - len(column)
    return pa.concat_arrays([column, pa.nulls(lacking, column.type)]) if lacking else column


def _stored_name(column: str) -> str:
    return f"={column}"


def _keys(maps: Any) -> list[Any]:
    """All distinct keys in order. The child array of a slice also holds other rows' keys, which are left out."""
    first, last = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    found: list[Any] = maps.keys.slice(first, last - first).unique().to_pylist()
    return found


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
    arrays = [pa.array(column.flags), runs_of(Coded(column.type_codes.astype(np.int32), column.types))]
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
    types = texts_of(arrays["type"])
    forms = [name.removeprefix("low ") for name in names if name.startswith("low ")]
    return StatisticsColumns(
        pc.fill_null(arrays["flags"], 0).to_numpy(),
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
        stored = opened(place, content)
        known = self._by_schema.get(stored.schema)
        if known is None:
            known = self._by_schema[stored.schema] = (pa.ipc.read_schema(pa.py_buffer(stored.schema)), [])
        schema, batches = known
        if _COMPLETE not in (schema.metadata or {}) and any(
            _stored_name(name) not in schema.names for name in self.asked
        ):
            return False
        batches.append(pa.ipc.read_record_batch(stored.content, schema))
        return True

    def portions(self) -> list[PortionColumns]:
        """The columns of all batches."""
        return [_portion(batches, schema, self.asked) for schema, batches in self._by_schema.values() if batches]


def _portion(batches: Sequence[pa.RecordBatch], schema: pa.Schema, asked: Collection[str]) -> PortionColumns:
    names = {name: _stored_name(name) for name in asked if _stored_name(name) in schema.names}
    needed = [*_OF_FILES, *([KIND] if KIND in schema.names else []), *names.values()]
    units = pa.Table.from_batches(batches, schema).select(needed).combine_chunks()
    arrays: Mapping[str, Any] = {name: whole(units[name]) for name in units.schema.names}
    is_file = mask_of(arrays["path"].is_valid())
    files, groups = np.flatnonzero(is_file), np.flatnonzero(_are_row_groups(arrays, is_file))
    statistics = {name: _statistics(arrays[stored]) for name, stored in names.items()}
    for name in asked:
        if name not in statistics:
            statistics[name] = StatisticsColumns.nothing(units.num_rows)
    columns = UnitColumns(texts_of(arrays["schema"]), statistics)
    of_files = FileUnits(
        arrays["path"].take(pa.array(files)),
        texts_of(arrays["folder"]).take(files),
        longs(arrays["size"], UNKNOWN)[files],
        longs(arrays["time"], UNKNOWN)[files],
        columns.take(files),
    )
    if not len(groups):
        return PortionColumns((of_files,), (), frozenset(asked))
    lengths = [len(batch) for batch in batches]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]])
    files_before = np.concatenate([[0], np.cumsum(is_file)])[starts]
    own = longs(arrays["file"], -1)
    places: Any = np.where(own < 0, -1, own + np.repeat(files_before, lengths))[groups].astype(np.int32)
    numbers: Any = longs(arrays["number"], -1)[groups].astype(np.int32)
    of_groups = RowGroupUnits(places, numbers, columns.take(groups))
    return PortionColumns((of_files,), (of_groups,), frozenset(asked))


def _are_row_groups(arrays: Mapping[str, Any], is_file: Mask) -> Mask:
    """Which rows are row groups; batches without facts have nothing but files and row groups."""
    if KIND not in arrays:
        return ~is_file
    kinds = texts_of(arrays[KIND])
    row_group = [code for code, name in enumerate(kinds.names) if name == MetadataType.ROW_GROUP]
    found: Mask = np.isin(kinds.codes, row_group)
    return found
