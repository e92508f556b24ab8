"""Reads the units of partitions from the bytes that their data files carry beside the rows.

:mod:`metastore.model.bounds.embedding` makes the bytes and describes them. Planning fetches only these bytes, and reads
no Parquet and no JSON. They hold what :class:`metastore.model.bounds.portion_columns.PortionColumns` has of the units.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.model.bounds.bound_arrays import BoundArray, Kind, Mask, Numbers, Texts, mask_of
from metastore.model.bounds.embedded_place import EmbeddedPlace, texts_of, unpack_content
from metastore.model.bounds.fact_columns import KIND, longs, whole
from metastore.model.bounds.portion_columns import PortionColumns, RowGroupUnits
from metastore.model.bounds.statistics_columns import BoundPair, StatisticsColumns
from metastore.model.bounds.unit_columns import FileUnits, UnitColumns
from metastore.model.mapping.recorded_numbers import UNKNOWN
from metastore.model.vocabulary import MetadataType

COMPLETE: Final = b"complete"
"""The key in a batch's schema that says that the batch has every column with statistics."""
OF_FILES: Final = ("path", "folder", "size", "time", "file", "number", "schema")
"""The columns of every batch that describe files and row groups."""


def stored_name(column: str) -> str:
    """The name under which a batch has the statistics of ``column``."""
    return f"={column}"


def _bounds(form: str, values: Any) -> BoundArray:
    """The inverse of :func:`metastore.model.bounds.embedding.form_of`: an array of bounds from its values."""
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
        stored = unpack_content(place, content)
        known = self._by_schema.get(stored.schema)
        if known is None:
            known = self._by_schema[stored.schema] = (pa.ipc.read_schema(pa.py_buffer(stored.schema)), [])
        schema, batches = known
        if COMPLETE not in (schema.metadata or {}) and any(
            stored_name(name) not in schema.names for name in self.asked
        ):
            return False
        batches.append(pa.ipc.read_record_batch(stored.content, schema))
        return True

    def portions(self) -> list[PortionColumns]:
        """The columns of all batches."""
        return [_portion(batches, schema, self.asked) for schema, batches in self._by_schema.values() if batches]


def _portion(batches: Sequence[pa.RecordBatch], schema: pa.Schema, asked: Collection[str]) -> PortionColumns:
    """The units of one partition's files: numbers of files go on from one batch to the next."""
    names = {name: stored_name(name) for name in asked if stored_name(name) in schema.names}
    needed = [*OF_FILES, *([KIND] if KIND in schema.names else []), *names.values()]
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
