"""The columns of a table as whoever keeps it has them, and which column of a file each of them is.

Place in the flow: a kind of source makes one :class:`TableColumns` for a table. ANALYZE names what it finds in files by
it (:func:`as_kept`), and scans find columns in files by it. So a file's own names count only where the keeper says so.
What comes of ANALYZE is marked, unless a file has the very columns of the table: then every reader finds them by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Protocol

from metastore.model.column_path import ColumnPath
from metastore.model.drill_types import DrillType, parse_type
from metastore.model.statistics import ColumnStatistics, merge
from metastore.model.tuple_schema import (
    DIRECTORY,
    KEPT,
    LOGICAL_TYPE,
    TIME_ZONE,
    SchemaColumn,
    TupleSchema,
    property_name,
)

_MATCHED: Final = "metastore.matched"
"""Schema property of a file's unit: the file has other columns, or of other types, than its table."""


class ColumnFinder(Protocol):
    """Finds the columns of a table in its files; plain data, so that tasks can carry it."""

    @property
    def says_types(self) -> bool:
        """Whether a file must have the types of the table, or narrower ones; else what Arrow can cast is read."""

    def places(self, names: Sequence[str]) -> Mapping[str, str]:
        """For each column of the table, the name of the one that it is in a file with the columns ``names``.

        A column that the file lacks is left out, and reads as null. FormatError where a file has two for one.
        """


class TableColumns(ColumnFinder, Protocol):
    """What the keeper of a table says of its columns, too."""

    @property
    def schema(self) -> TupleSchema:
        """The columns that files hold, in the table's order."""


@dataclass(frozen=True)
class KeptSchema:
    """A file's schema by the names of its table; ``names`` are those of the table by those of the file."""

    schema: TupleSchema
    names: Mapping[str, str]
    types: Mapping[str, DrillType]

    def path(self, of_file: ColumnPath) -> ColumnPath | None:
        """What the table calls the leaf at ``of_file``; None for one that it has not."""
        name = self.names.get(of_file[0])
        if name is None:
            return None
        return (name, *_spelled_path(of_file[1:], self.types[name]))


def as_kept(columns: TableColumns, of_file: TupleSchema) -> KeptSchema:
    """The schema of a file by the table's names, in the table's order; types are the file's own.

    Raises FormatError as :meth:`TableColumns.places`.
    """
    places = columns.places([column.name for column in of_file.columns])
    kept, is_alike = [], True
    for column in columns.schema.columns:
        if (place := places.get(column.name)) is None:
            continue
        own = of_file.by_name[place]
        type_ = str(_spelled(parse_type(own.type), parse_type(column.type)))
        is_alike &= place == column.name and own.type == column.type
        kept.append(_renamed(own, column.name, type_, parse_type(column.type)))
    properties = dict(of_file.properties) if is_alike else {**of_file.properties, _MATCHED: "true"}
    types = {column.name: parse_type(column.type) for column in columns.schema.columns}
    return KeptSchema(TupleSchema(tuple(kept), properties), {place: name for name, place in places.items()}, types)


@lru_cache(maxsize=256)
def is_matched(schema: str | None) -> bool:
    """Whether the columns of a file must be found by its table: always where its unit tells no ``schema`` (JSON)."""
    return schema is None or _MATCHED in TupleSchema.from_json(schema).properties


def kept_schema(columns: TupleSchema, directories: Mapping[str, str], stored: TupleSchema) -> TupleSchema:
    """All columns of a table: those that files hold, then those of its ``directories``, by name and type, by level.

    What the types cannot say (zones, units of time) no descriptor says either: it is what ``stored`` found in files.
    """
    of_directories = (
        SchemaColumn(name, type_, properties={DIRECTORY: f"dir{level}"})
        for level, (name, type_) in enumerate(directories.items())
    )
    found = [_with_properties(column, stored.by_name.get(column.name)) for column in columns.columns]
    return TupleSchema((*found, *of_directories), {KEPT: "true"})


def kept_statistics(found: Mapping[str, ColumnStatistics], types: Mapping[str, str]) -> dict[str, ColumnStatistics]:
    """Statistics of files in the minor ``types`` of their table, both by quoted path; bounds of other types go."""
    kept = {}
    for key, known in found.items():
        if (type_ := types.get(key)) is None:
            continue
        both = merge([known, ColumnStatistics(type_, nulls=0, non_nulls=0, rows=0)])
        kept[key] = (
            both
            if both.type == type_
            else ColumnStatistics(type_, nulls=both.nulls, non_nulls=both.non_nulls, rows=both.rows)
        )
    return kept


def by_lower_name(names: Iterable[str]) -> dict[str, list[str]]:
    """``names`` by what they are regardless of case."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.lower(), []).append(name)
    return found


def _with_properties(column: SchemaColumn, stored: SchemaColumn | None) -> SchemaColumn:
    return column if stored is None or stored.type != column.type else replace(column, properties=stored.properties)


def _renamed(own: SchemaColumn, name: str, type_: str, wanted: DrillType) -> SchemaColumn:
    """A file's column as the table calls it and its fields; properties of fields move with them."""
    properties = dict(own.properties)
    for path, _ in TupleSchema((own,)).leaves():
        for kind in (TIME_ZONE, LOGICAL_TYPE):
            if len(path) > 1 and (value := properties.pop(property_name(kind, path), None)) is not None:
                properties[property_name(kind, (name, *_spelled_path(path[1:], wanted)))] = value
    return SchemaColumn(name, type_, own.required, properties)


def _spelled(type_: DrillType, wanted: DrillType) -> DrillType:
    """``type_`` with its fields called as those of ``wanted`` that differ in case alone."""
    names = {field.name.lower(): field for field in wanted.fields}
    fields = []
    for field in type_.fields:
        same = names.get(field.name.lower())
        fields.append(field if same is None else replace(field, name=same.name, type=_spelled(field.type, same.type)))
    parts = tuple(_spelled(*pair) for pair in zip(type_.parts, wanted.parts, strict=False))
    return replace(type_, fields=tuple(fields), parts=parts if len(parts) == len(type_.parts) else type_.parts)


def _spelled_path(path: ColumnPath, wanted: DrillType) -> ColumnPath:
    if not path:
        return ()
    same = next((field for field in wanted.fields if field.name.lower() == path[0].lower()), None)
    return path if same is None else (same.name, *_spelled_path(path[1:], same.type))
