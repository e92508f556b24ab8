"""The columns of a table as its keeper gives them, and the column of a file that each one corresponds to.

Place in the flow: a kind of source makes one :class:`TableColumns` for a table. ANALYZE uses it to name the columns of
files (:func:`as_kept`), and scans use it to find columns in files. So a file's own names count only if the keeper says
so. Units of ANALYZE are marked unless a file has exactly the table's columns, which every reader finds by name.
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
    KEPT,
    LOGICAL_TYPE,
    TIME_ZONE,
    SchemaColumn,
    TupleSchema,
    directory_column,
    property_name,
)

_MATCHED: Final = "metastore.matched"
"""Schema property of a file's unit: the file's columns or their types differ from its table's."""


class ColumnFinder(Protocol):
    """Finds the columns of a table in its files. It holds plain data only, so that it can be sent to tasks."""

    @property
    def says_types(self) -> bool:
        """Whether a file must have the table's types, or narrower ones; else any type is read that Arrow can cast."""

    def places(self, names: Sequence[str]) -> Mapping[str, str]:
        """Returns, for each column of the table, its name in a file with the columns ``names``.

        A column that the file lacks is left out, and reads as null. Raises FormatError if a file has two columns for
        one.
        """


class TableColumns(ColumnFinder, Protocol):
    """A finder that also has the keeper's definition of the columns."""

    @property
    def schema(self) -> TupleSchema:
        """The columns that files hold, in the table's order."""


@dataclass(frozen=True)
class KeptSchema:
    """A file's schema with the table's names; ``names`` maps the file's names to the table's."""

    schema: TupleSchema
    names: Mapping[str, str]
    types: Mapping[str, DrillType]

    def path(self, of_file: ColumnPath) -> ColumnPath | None:
        """Returns the table's path of the leaf at ``of_file``; None if the table does not have it."""
        name = self.names.get(of_file[0])
        if name is None:
            return None
        return (name, *_spelled_path(of_file[1:], self.types[name]))


def as_kept(columns: TableColumns, of_file: TupleSchema) -> KeptSchema:
    """Returns the schema of a file with the table's names, in the table's order; types are the file's own.

    Raises FormatError as :meth:`TableColumns.places`.
    """
    places = columns.places([column.name for column in of_file.columns])
    kept, is_alike = [], True
    for column in columns.schema.columns:
        if (place := places.get(column.name)) is None:
            continue
        own = of_file.by_name[place]
        type_ = str(_rename_fields(parse_type(own.type), parse_type(column.type)))
        is_alike &= place == column.name and own.type == column.type
        kept.append(_rename_column(own, column.name, type_, parse_type(column.type)))
    properties = dict(of_file.properties) if is_alike else {**of_file.properties, _MATCHED: "true"}
    types = {column.name: parse_type(column.type) for column in columns.schema.columns}
    return KeptSchema(TupleSchema(tuple(kept), properties), {place: name for name, place in places.items()}, types)


@lru_cache(maxsize=256)
def is_matched(schema: str | None) -> bool:
    """Whether the table must find the columns of a file; always if the file's unit has no ``schema`` (JSON)."""
    return schema is None or _MATCHED in TupleSchema.from_json(schema).properties


def kept_schema(columns: TupleSchema, directories: Mapping[str, str], stored: TupleSchema) -> TupleSchema:
    """Returns all columns of a table: those in files, then those of its ``directories``, by name and type, by level.

    The keeper's types have no zones and no units of time; these come from ``stored``, the columns found in files.
    """
    of_directories = (
        directory_column(name, type_, f"dir{level}") for level, (name, type_) in enumerate(directories.items())
    )
    found = [_with_properties(column, stored.by_name.get(column.name)) for column in columns.columns]
    return TupleSchema((*found, *of_directories), {KEPT: "true"})


def kept_statistics(
    statistics: Mapping[str, ColumnStatistics], types: Mapping[str, str]
) -> dict[str, ColumnStatistics]:
    """Returns statistics of files in the minor ``types`` of their table, by quoted path.

    Bounds of other types are removed.
    """
    kept = {}
    for key, known in statistics.items():
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
    """Returns ``names`` by their lower-case form."""
    found: dict[str, list[str]] = {}
    for name in names:
        found.setdefault(name.lower(), []).append(name)
    return found


def _with_properties(column: SchemaColumn, stored: SchemaColumn | None) -> SchemaColumn:
    return column if stored is None or stored.type != column.type else replace(column, properties=stored.properties)


def _rename_column(own_column: SchemaColumn, name: str, type_: str, wanted_type: DrillType) -> SchemaColumn:
    """Returns a file's column with the table's names for it and its fields; properties of fields move with them."""
    properties = dict(own_column.properties)
    for path, _ in TupleSchema((own_column,)).leaves():
        for kind in (TIME_ZONE, LOGICAL_TYPE):
            if len(path) > 1 and (value := properties.pop(property_name(kind, path), None)) is not None:
                properties[property_name(kind, (name, *_spelled_path(path[1:], wanted_type)))] = value
    return SchemaColumn(name, type_, own_column.required, properties)


def _rename_fields(type_: DrillType, wanted_type: DrillType) -> DrillType:
    """Returns ``type_`` with its fields renamed like those of ``wanted_type`` that differ in case only."""
    names = {field.name.lower(): field for field in wanted_type.fields}
    fields = []
    for field in type_.fields:
        same = names.get(field.name.lower())
        fields.append(
            field if same is None else replace(field, name=same.name, type=_rename_fields(field.type, same.type))
        )
    parts = tuple(_rename_fields(*pair) for pair in zip(type_.parts, wanted_type.parts, strict=False))
    return replace(type_, fields=tuple(fields), parts=parts if len(parts) == len(type_.parts) else type_.parts)


def _spelled_path(path: ColumnPath, wanted_type: DrillType) -> ColumnPath:
    if not path:
        return ()
    same = next((field for field in wanted_type.fields if field.name.lower() == path[0].lower()), None)
    return path if same is None else (same.name, *_spelled_path(path[1:], same.type))
