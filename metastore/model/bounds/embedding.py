"""Makes the bytes that data files carry beside their rows: the units of a partition as columns.

Place in the flow: an encoder embeds these bytes where Parquet readers do not look, and the manifest entry records their
position (:class:`metastore.model.bounds.embedded_place.EmbeddedPlace`). :mod:`metastore.model.bounds.embedded_columns`
reads them.

One Arrow record batch for each partition has the files first, then the row groups, then all other units, which have
facts only (:mod:`metastore.model.bounds.fact_columns`). All partitions that have statistics of the same columns are
converted together, and each batch is a slice of the result. So an operation of Arrow or NumPy, which costs more than a
small partition has to convert, is done once for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.errors import FormatError
from metastore.model.bounds.bound_arrays import BoundArray, Mask, Numbers, Texts
from metastore.model.bounds.embedded_columns import COMPLETE, OF_FILES, stored_name
from metastore.model.bounds.embedded_place import EmbeddedContent, PackedSchema, pack_batch, runs_of
from metastore.model.bounds.fact_columns import StoredNumbers, fact_columns, whole
from metastore.model.bounds.statistics_columns import StatisticsColumns
from metastore.model.bounds.statistics_texts import decode_texts
from metastore.model.bounds.unit_columns import CodedTexts, folders_of
from metastore.model.bounds.unit_places import UnitPlaces
from metastore.model.mapping.recorded_numbers import UNKNOWN, with_nulls

_MOST_COLUMNS: Final = 64
"""Most columns to embed: queries use few columns. The other columns of a wide table are read from JSON."""
_MOST_ROWS: Final = 1 << 14
"""Partitions are converted together up to this number of units, which bounds the memory that it takes."""
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


def embed_partitions(partitions: Sequence[pa.Table]) -> list[EmbeddedContent | None]:
    """The files of each of ``partitions`` (its units in on-disk columns); None for one that columns cannot hold.

    That is a partition without files, and one with unreadable statistics: a reader of the units then gets the error.
    """
    found: list[EmbeddedContent | None] = [None] * len(partitions)
    for names, places in _alike(partitions):
        for place, content in zip(places, _embed_alike([partitions[each] for each in places], names), strict=True):
            found[place] = content
    return found


def _alike(partitions: Sequence[pa.Table]) -> Iterator[tuple[tuple[str, ...], list[int]]]:
    """The partitions that have statistics of the same columns, by their places; a limited number of units at a time."""
    groups: dict[tuple[str, ...], list[int]] = {}
    rows: dict[tuple[str, ...], int] = {}
    for place, units in enumerate(partitions):
        names = tuple(_keys(whole(units["columnsStatistics"])))
        if names in groups and rows[names] + units.num_rows > _MOST_ROWS:
            yield names, groups.pop(names)
        rows[names] = units.num_rows + (rows[names] if names in groups else 0)
        groups.setdefault(names, []).append(place)
    yield from groups.items()


def _keys(maps: Any) -> list[Any]:
    """All distinct keys in order. The child array of a slice also holds other rows' keys, which are left out."""
    first, last = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    found: list[Any] = maps.keys.slice(first, last - first).unique().to_pylist()
    return found


def _embed_alike(partitions: Sequence[pa.Table], names: Sequence[str]) -> list[EmbeddedContent | None]:
    """The bytes of ``partitions``, whose statistics have the columns ``names``."""
    try:
        columns = _Columns.of(partitions, names)
    except FormatError:
        if len(partitions) == 1:
            return [None]
        columns = None
    if columns is None or (len(partitions) > 1 and not columns.are_complete):
        # Each by itself, so that one partition takes nothing from the others.
        return list(chain.from_iterable(_embed_alike([units], names) for units in partitions))
    return [columns.embed_partition(number) for number in range(len(partitions))]


@dataclass(frozen=True)
class _Columns:
    """The columns of several partitions, one partition after the other."""

    starts: Sequence[int]
    lower_counts: Sequence[int]
    """The numbers of files and row groups."""
    is_valid: Sequence[bool]
    """Which partitions have files that columns can hold."""
    of_files: Sequence[Any]
    facts: dict[str, Any]
    has_facts: Sequence[bool]
    statistics: dict[str, _Statistics]
    are_complete: bool
    """Whether there are columns for all statistics, up to :data:`_MOST_COLUMNS`."""
    metadata: dict[bytes | str, bytes | str] | None
    _schemas: dict[tuple[str, ...], PackedSchema] = field(default_factory=dict)

    @classmethod
    def of(cls, partitions: Sequence[pa.Table], names: Sequence[str]) -> _Columns:
        """Converts ``partitions``. Raises FormatError."""
        units = pa.concat_tables([each.select(_READ) for each in partitions]).combine_chunks()
        places = UnitPlaces.of(units, [each.num_rows for each in partitions])
        order: Any = pa.array(places.order)
        lower = pa.array(places.order, mask=places.is_other)
        maps = whole(units["columnsStatistics"])
        light = units.drop_columns(["columnsStatistics"]).take(order).combine_chunks()
        numbers = StoredNumbers.of(light)
        statistics = {}
        for name in names[:_MOST_COLUMNS]:
            texts: Any = pc.map_lookup(maps, pa.scalar(name), "first")
            known = _Statistics.of(decode_texts(texts.take(lower)), places)
            if known is not None:
                statistics[name] = known
        facts, has_facts = fact_columns(light, places, numbers)
        files, starts = places.is_file, places.starts[:-1]
        arrays = [
            _only(whole(light["path"]), files),
            runs_of(_folders(light, files), starts, ~files),
            with_nulls(numbers.lengths),
            pa.array(numbers.times, mask=~files | (numbers.times == UNKNOWN)),
            pa.array(places.owners_in_partition, mask=places.owners < 0),
            whole(light["rowGroupIndex"]),
            runs_of(CodedTexts.of(light["schema"]), starts, places.is_other),
        ]
        metadata: dict[bytes | str, bytes | str] | None = {COMPLETE: b"1"} if len(statistics) == len(names) else None
        are_complete = len(statistics) == min(len(names), _MOST_COLUMNS)
        return cls(
            places.starts.tolist(),
            places.count_in_partition(~places.is_other).tolist(),
            _have_files(light, places),
            arrays,
            facts,
            has_facts,
            statistics,
            are_complete,
            metadata,
        )

    def embed_partition(self, number: int) -> EmbeddedContent | None:
        """The bytes of one partition."""
        if not self.is_valid[number]:
            return None
        start, end = self.starts[number], self.starts[number + 1]
        has_facts = self.has_facts[number]
        count = end - start if has_facts else self.lower_counts[number]
        arrays = [each.slice(start, count) for each in self.of_files]
        names = list(OF_FILES)
        for name, column in self.facts.items() if has_facts else ():
            values = column.slice(start, count)
            if values.null_count < count:
                arrays.append(values)
                names.append(name)
        forms = []
        for name, known in self.statistics.items():
            struct, form = known.of_partition(number)
            arrays.append(struct.slice(start, count))
            names.append(stored_name(name))
            forms.append(form)
        key = (*names, *forms)
        schema = self._schemas.get(key)
        if schema is None:
            fields = [pa.field(name, array.type) for name, array in zip(names, arrays, strict=True)]
            schema = self._schemas[key] = PackedSchema.of(pa.schema(fields, self.metadata))
        return pack_batch(pa.RecordBatch.from_arrays(arrays, schema=schema.schema), schema, has_facts=has_facts)


@dataclass(frozen=True)
class _Statistics:
    """One column's statistics in Arrow, and for each partition whether it has bounds of each form."""

    flags: pa.Array[Any]
    types: pa.Array[Any]
    bounds: dict[str, tuple[pa.Array[Any], pa.Array[Any]]]
    present: Sequence[str]
    """For each partition the numbers of the forms that have a bound there, as text."""
    _structs: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, column: StatisticsColumns, places: UnitPlaces) -> _Statistics | None:
        """Converts ``column``; None if Arrow cannot hold a bound's form."""
        bounds: dict[str, tuple[pa.Array[Any], pa.Array[Any]]] = {}
        for pair in column.bounds:
            form = form_of(pair.low)
            if form is None or form != form_of(pair.high):
                return None
            sides = _arrow(pair.low), _arrow(pair.high)
            if form in bounds:  # Types with the same form, in different containers.
                sides = pc.coalesce(bounds[form][0], sides[0]), pc.coalesce(bounds[form][1], sides[1])
            bounds[form] = sides
        types = runs_of(
            CodedTexts(column.type_codes.astype(np.int32), column.types), places.starts[:-1], places.is_other
        )
        flags = pa.array(column.flags, mask=places.is_other)
        present = [""] * len(places.lengths)
        for number, (low, high) in enumerate(bounds.values()):
            has_bound = places.any_in_partition(_valid(low) | _valid(high))
            present = [f"{text} {number}" if has else text for text, has in zip(present, has_bound, strict=True)]
        return cls(flags, types, bounds, present)

    def of_partition(self, number: int) -> tuple[Any, str]:
        """The column for all partitions, with the forms that one partition has, and these forms as text."""
        present = self.present[number]
        struct = self._structs.get(present)
        if struct is None:
            forms = list(self.bounds)
            arrays, names = [self.flags, self.types], ["flags", "type"]
            for form in (forms[int(place)] for place in present.split()):
                arrays += self.bounds[form]
                names += [f"low {form}", f"high {form}"]
            struct = self._structs[present] = pa.StructArray.from_arrays(arrays, names)
        return struct, present


def form_of(bounds: BoundArray) -> str | None:
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


def _only(column: Any, mask: Mask) -> Any:
    """``column``, with null where it is not ``mask``."""
    return pc.if_else(pa.array(mask), column, pa.scalar(None, column.type))


def _valid(column: Any) -> Mask:
    found: Mask = column.is_valid().to_numpy(zero_copy_only=False)
    return found


def _folders(units: pa.Table, is_file: Mask) -> CodedTexts:
    """The folder of each file; none for other units."""
    identifiers: Any = pc.fill_null(units["metadataIdentifier"].filter(pa.array(is_file)), "")  # type: ignore[type-var]
    found = folders_of(identifiers)
    codes = np.full(len(is_file), -1, np.int32)
    codes[is_file] = found.codes
    return CodedTexts(codes, found.names)


def _have_files(units: pa.Table, places: UnitPlaces) -> list[bool]:
    """Which partitions have files, all of them with a path and an identifier."""
    lacking = ~(_valid(whole(units["path"])) & _valid(whole(units["metadataIdentifier"])))
    lacks = places.any_in_partition(places.is_file & lacking)
    has = places.any_in_partition(places.is_file)
    return [bool(one and not other) for one, other in zip(has, lacks, strict=True)]
