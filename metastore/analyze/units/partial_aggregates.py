"""Aggregates of some files of a table (parts), and how parts add up.

A :class:`Part` is made from fragments that tasks return, from stored units of segments, or from stored units of files.
Adding parts is associative and commutative; schemas keep the order of the sorted files. It therefore does not matter
which parts were read just now and which were stored long ago.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.analyze.units.unit_rows import modified_times, of_kind, values
from metastore.model.alike_statistics import merge_texts
from metastore.model.column_path import ColumnPath, parse, quote
from metastore.model.drill_types import NO_TYPE, minor_type, parse_type
from metastore.model.elements import is_element, with_elements
from metastore.model.sketches.description import (
    Description,
    Descriptions,
    descriptions_in,
    summary_holders,
    with_holders,
)
from metastore.model.statistics import ColumnStatistics, merge, parse_many
from metastore.model.statistics_json import counts_exactly, holder_json, read_holders, read_many_holders
from metastore.model.tuple_schema import TupleSchema
from metastore.model.tuple_schema import merge as merge_schemas
from metastore.model.vocabulary import MetadataType, Statistic
from metastore.sources.directories import directories_of

Directories = tuple[str, ...]


@dataclass(frozen=True)
class Part:
    """The aggregate of some files below ``directories``; ``files`` are sorted paths, ``modified`` is in epoch ms.

    ``descriptions`` is empty if no column is described. ``whole`` is False if ``rows`` counts rows that are deleted
    elsewhere.
    """

    directories: Directories
    schema: TupleSchema
    statistics: Mapping[str, ColumnStatistics]
    rows: int
    modified: int
    files: Sequence[str]
    descriptions: Descriptions = field(default_factory=dict)
    whole: bool = True

    @classmethod
    def sum_of(cls, directories: Directories, parts: Sequence[Part]) -> Part:
        """The sum of all ``parts``, seen as parts of ``directories``; no parts give no rows."""
        parts = sorted(parts, key=lambda part: list(part.files[:1]))
        schema = merge_schemas(part.schema for part in parts)
        named = dict.fromkeys(key for part in parts for key in part.statistics)
        leaves = {quote(path): path for path, _ in with_elements(schema.leaves())}
        # If files disagree on whether a column is nested, the merged schema determines the leaves.
        statistics = {
            key: merge(statistics_of(part, key, path) for part in parts) for key, path in leaves.items() if key in named
        }
        return cls(
            directories,
            schema,
            statistics,
            sum(part.rows for part in parts),
            max((part.modified for part in parts), default=0),
            sorted(file for part in parts for file in part.files),
            _descriptions(parts, leaves),
            all(part.whole for part in parts),
        )

    def for_table(self) -> Part:
        """The part with only what a table's roll-up uses: of its files, the first is kept."""
        return replace(self, files=self.files[:1])

    @property
    def row_count(self) -> str:
        """The holder of the row count."""
        return holder_json(Statistic.ROW_COUNT, self.rows, exact=self.whole)

    @property
    def texts(self) -> list[str]:
        """The JSON of each column's statistics, with its description."""
        return [
            statistics.to_json()
            if (description := self.descriptions.get(key)) is None
            else with_holders(statistics.to_json(), summary_holders(description, statistics))
            for key, statistics in self.statistics.items()
        ]


def incomplete_segments(rows: pa.Table) -> list[str]:
    """The keys of SEGMENT rows that lack what a part needs; only units of other programs do."""
    needed = ("schema", "columnsStatistics", "metadataStatistics", "locations")
    lacking: Any = reduce(pc.or_, (pc.is_null(rows[name]) for name in needed))
    known = zip(values(rows, "metadataKey"), values(rows, "metadataStatistics"), lacking.to_pylist(), strict=True)
    return [key for key, texts, lacks in known if lacks or Statistic.ROW_COUNT not in read_holders(texts)]


def segment_parts(rows: pa.Table) -> list[Part]:
    """The parts that complete SEGMENT rows represent; fragments and stored units are alike."""
    return [
        Part(
            directories=tuple(row["partitionValues"] or ()),
            schema=schema_of(row["schema"]),
            statistics=_statistics(
                [key for key, _ in row["columnsStatistics"]], [text for _, text in row["columnsStatistics"]]
            ),
            rows=int(read_holders(row["metadataStatistics"])[Statistic.ROW_COUNT]),
            modified=row["lastModifiedTime"] or 0,
            files=row["locations"],
            descriptions=descriptions_in(row["additionalMetadata"]),
            whole=counts_exactly(row["metadataStatistics"]),
        )
        for row in rows.to_pylist()
    ]


def file_parts(rows: pa.Table, root: str) -> list[Part]:
    """The parts of stored FILE rows: one for each directory and schema."""
    files = of_kind(rows, MetadataType.FILE).sort_by("path")
    groups: dict[tuple[str, str], list[int]] = {}
    for position, group in enumerate(zip(values(files, "location"), values(files, "schema"), strict=True)):
        groups.setdefault(group, []).append(position)
    return [
        _part_of(
            files.take(pa.array(positions)) if len(groups) > 1 else files,
            directories_of(f"{location}/", root),
            schema_of(schema),
        )
        for (location, schema), positions in groups.items()
    ]


def _part_of(files: pa.Table, directories: Directories, schema: TupleSchema) -> Part:
    """The part of FILE rows with one schema."""
    rows = row_counts(files)
    return Part(
        directories=directories,
        schema=schema,
        statistics={
            key: _merge_column(texts, schema, parse(key), files.num_rows)
            for key, texts in _texts_by_column(files["columnsStatistics"])
        },
        rows=sum(rows),
        modified=max(modified_times(files)),
        files=values(files, "path"),
        descriptions=_of_files_described(files, schema, rows),
        whole=all(map(counts_exactly, values(files, "metadataStatistics"))),
    )


def _merge_column(texts: Sequence[str | None], schema: TupleSchema, path: ColumnPath, files: int) -> ColumnStatistics:
    """The statistics of one column in ``files`` files; a file without a text has rows that nothing is known of.

    Files that an older version analyzed have no statistics of elements.
    """
    found = merge_texts(texts)
    return found if len(texts) == files else merge([found, without_statistics(schema, path, 0)])


def _texts_by_column(statistics: pa.ChunkedArray[Any]) -> Iterator[tuple[str, list[str | None]]]:
    """The texts of each column that the first unit has, one column at a time: all at once may be a gigabyte."""
    maps: Any = statistics.combine_chunks()
    first, last = maps.offsets[0].as_py(), maps.offsets[-1].as_py()
    encoded, texts = maps.keys[first:last].dictionary_encode(), maps.items[first:last]
    codes = encoded.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    ends = np.cumsum(np.bincount(codes))
    places = {key: code for code, key in enumerate(encoded.dictionary.to_pylist())}
    for key, _ in maps[0].as_py() or ():
        end = ends[places[key]]
        start = ends[places[key] - 1] if places[key] else 0
        yield key, texts.take(pa.array(order[start:end])).to_pylist()


def row_counts(units: pa.Table) -> list[int]:
    """The row count of every unit."""
    return [int(holders[Statistic.ROW_COUNT]) for holders in read_many_holders(values(units, "metadataStatistics"))]


def lacks_count(files: pa.Table) -> bool:
    """Whether a FILE row has no count of its rows: it is stored as zero rows that are not exact."""
    texts = values(files, "metadataStatistics")
    return any(not rows and not counts_exactly(text) for rows, text in zip(row_counts(files), texts, strict=True))


def statistics_of(part: Part, key: str, path: ColumnPath) -> ColumnStatistics:
    """The statistics of the leaf at ``path`` in ``part``; ``key`` is the leaf's key among statistics."""
    found = part.statistics.get(key)
    return found if found is not None else without_statistics(part.schema, path, part.rows)


def without_statistics(schema: TupleSchema, path: ColumnPath, rows: int) -> ColumnStatistics:
    """The statistics of a leaf for which none are stored: all null if ``schema`` lacks the leaf, else unknown."""
    if is_element(path):
        return _without_elements(schema, path)
    if _lacks(schema, path):
        return ColumnStatistics(NO_TYPE, nulls=rows, non_nulls=0, rows=rows)
    return ColumnStatistics(minor_type(schema.by_name[path[0]].type), rows=rows)


def _without_elements(schema: TupleSchema, path: ColumnPath) -> ColumnStatistics:
    """As :func:`without_statistics`, of elements: there is none if ``schema`` lacks the list, or never has a value."""
    types = dict(with_elements(schema.leaves()))
    if path in types:
        return ColumnStatistics(minor_type(types[path]))
    whole = types.get(path[:-1])
    is_unknown = whole not in (None, NO_TYPE)
    return ColumnStatistics(NO_TYPE, non_nulls=None if is_unknown else 0)


def _descriptions(parts: Sequence[Part], leaves: Mapping[str, ColumnPath]) -> dict[str, Description | None]:
    """The descriptions of all parts together; a column is left undescribed if a part has it without a description."""
    described = dict.fromkeys(key for part in parts for key in part.descriptions if key in leaves)
    return {key: _union([_description_of(part, key, leaves[key]) for part in parts if part.rows]) for key in described}


def _description_of(part: Part, key: str, path: ColumnPath) -> Description | None:
    if key in part.descriptions:
        return part.descriptions[key]
    return Description.of_nulls(part.rows) if _lacks(part.schema, path) else None


def _of_files_described(files: pa.Table, schema: TupleSchema, counts: Sequence[int]) -> Descriptions:
    """The merged descriptions of files with one schema; ``counts`` are their numbers of rows."""
    of_files = [descriptions_in(text) for text in values(files, "additionalMetadata")]
    described = dict.fromkeys(key for each in of_files for key in each)
    return {
        key: _union([each.get(key) for each, rows in zip(of_files, counts, strict=True) if rows])
        for key in described
        if not _lacks(schema, parse(key))
    }


def _union(descriptions: Sequence[Description | None]) -> Description | None:
    known = [each for each in descriptions if each is not None]
    return Description.union(known) if len(known) == len(descriptions) else None


def _lacks(schema: TupleSchema, path: ColumnPath) -> bool:
    column = schema.by_name.get(path[0])
    if column is None:
        return True
    type_ = parse_type(column.type)
    for name in path[1:]:
        if type_.name != "STRUCT":
            return False
        inner = next((field for field in type_.fields if field.name == name), None)
        if inner is None:
            return True
        type_ = inner.type
    return False


def column_statistics(units: pa.Table, key: str) -> list[ColumnStatistics | None]:
    """Each unit's statistics of the column ``key``, None if it has none."""
    return parse_many(pc.map_lookup(units["columnsStatistics"], pa.scalar(key), "first").to_pylist())


def file_statistics(units: pa.Table) -> list[dict[str, ColumnStatistics]]:
    """Each unit's statistics by column."""
    return [
        _statistics([key for key, _ in pairs], [text for _, text in pairs])
        for pairs in values(units, "columnsStatistics")
    ]


def _drop_unknown(statistics: Sequence[ColumnStatistics | None]) -> list[ColumnStatistics]:
    return [one for one in statistics if one is not None]


def _statistics(keys: Sequence[str], texts: Sequence[str]) -> dict[str, ColumnStatistics]:
    return dict(zip(keys, _drop_unknown(parse_many(texts)), strict=True))


@lru_cache(maxsize=256)
def schema_of(text: str) -> TupleSchema:
    """The schema in a unit; equal texts give one object, so merging schemas of like files is cheap."""
    return TupleSchema.from_json(text)
