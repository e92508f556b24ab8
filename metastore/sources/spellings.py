"""Columns whose names differ only in case: they are one column of a table of files, as in Spark and DuckDB.

The column has the name that the first file in order uses, and a list of its other spellings, by which it is found in
files and their units. The same holds for fields of structs, at every depth.

If one file has two such columns, they are different columns: they keep their exact names, and so do all columns of that
name in other files. If a file has two such fields in a struct, all fields of the column keep their exact names. With
``case_sensitive = true``, for a deployment or a call, names that differ in case are always different columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Final

from metastore.model.column_path import ColumnPath, lower_path, places_alike, quote
from metastore.model.drill_types import DrillType, common_type, folded_fields, has_twin_fields, minor_type, parse_type
from metastore.model.elements import elements_of, with_elements
from metastore.model.statistics import ColumnStatistics, merge
from metastore.model.tuple_schema import (
    LOGICAL_TYPE,
    SPELLINGS,
    TIME_ZONE,
    TWIN,
    TWIN_FIELDS,
    SchemaColumn,
    TupleSchema,
    agreed_properties,
    property_name,
)

_NOTHING: Final[Mapping[str, Sequence[ColumnPath]]] = {}


def fold_schema(schema: TupleSchema) -> TupleSchema:
    """Returns the merged ``schema`` of files with one column for each name, ignoring case; twins stay apart."""
    groups: dict[str, list[SchemaColumn]] = {}
    for column in schema.columns:
        groups.setdefault(column.name.lower(), []).append(column)
    if len(groups) == len(schema.columns) and not any(map(_has_fields_to_fold, schema.columns)):
        return schema
    columns = []
    for group in groups.values():
        if any(TWIN in column.properties for column in group):
            columns += [_one([column]) for column in group]
        else:
            columns.append(_one(group))
    order = {column.name: place for place, column in enumerate(schema.columns)}
    return replace(schema, columns=tuple(sorted(columns, key=lambda column: order[column.name])))


def spellings_of(schema: TupleSchema) -> Mapping[str, Sequence[ColumnPath]]:
    """Returns, for each leaf with several spellings in files, by its quoted path, all of its paths."""
    found: dict[str, Sequence[ColumnPath]] = {}
    for column in schema.columns:
        if not any(key.startswith(SPELLINGS) for key in column.properties):
            continue
        names = json.loads(column.properties.get(SPELLINGS, "[]")) or [column.name]
        for path, type_ in TupleSchema((column,)).leaves():
            stored = column.leaf_property(SPELLINGS, path) if len(path) > 1 else None
            paths = [(name, *path[1:]) for name in names] if stored is None else list(map(tuple, json.loads(stored)))
            if paths != [path]:
                found[quote(path)] = paths
                for inside, _ in elements_of(path, parse_type(type_)):
                    found[quote(inside)] = [(*one, inside[-1]) for one in paths]
    return found or _NOTHING


def folded_statistics(
    statistics: Mapping[str, ColumnStatistics], schema: TupleSchema, rows: int
) -> dict[str, ColumnStatistics]:
    """Returns statistics of ``rows`` rows, by quoted path, for the columns of a folded ``schema``.

    A row has its value in one of the spellings, and is null in all others.
    """
    types = {quote(path): minor_type(type_) for path, type_ in with_elements(schema.leaves())}
    spellings = spellings_of(schema)
    kept = {key: known for key, known in statistics.items() if key in types and key not in spellings}
    for leaf, several in spellings.items():
        parts = [statistics[key] for path in several if (key := quote(path)) in statistics]
        if len(parts) < len(several):
            continue
        whole = merge([*parts, ColumnStatistics(types[leaf], nulls=0, non_nulls=0, rows=0)])
        values = [_values(part, rows) for part in parts]
        known_values = None if None in values else sum(value for value in values if value is not None)
        nulls = None if known_values is None else rows - known_values
        kept[leaf] = replace(whole, rows=rows, nulls=nulls, non_nulls=known_values)
    return kept


def paths_of(schema: TupleSchema) -> frozenset[ColumnPath]:
    """Yields the path of each column and of each field, including fields inside arrays and maps."""
    return frozenset(path for column in schema.columns for path in _paths((column.name,), parse_type(column.type)))


@dataclass(frozen=True)
class InFiles:
    """The columns of a table of files: found in a file by their exact names, else, with ``any_case``, ignoring case."""

    names: tuple[str, ...]
    any_case: bool = True
    says_types: bool = False

    def places(self, names: Sequence[str]) -> Mapping[str, str]:
        """As :meth:`metastore.sources.table_columns.TableColumns.places`."""
        return (
            places_alike(self.names, names) if self.any_case else {name: name for name in self.names if name in names}
        )


def _has_fields_to_fold(column: SchemaColumn) -> bool:
    return TWIN_FIELDS not in column.properties and has_twin_fields(parse_type(column.type))


def _one(group: Sequence[SchemaColumn]) -> SchemaColumn:
    """Returns the one column of ``group``, the spellings of one name; its fields are folded unless a file has twins."""
    properties = dict(agreed_properties(group))
    whole = reduce(common_type, (column.type for column in group))
    type_ = whole if TWIN_FIELDS in properties else str(folded_fields(parse_type(whole)))
    if len(group) == 1 and type_ == group[0].type:
        return group[0]
    if len(group) > 1:
        properties[SPELLINGS] = _json([column.name for column in group])
    column = SchemaColumn(group[0].name, type_, required=len(group) == 1 and group[0].required)
    for leaf, several in _paths_in_files(column, group):
        if several != [(each.name, *leaf[1:]) for each in group]:
            properties[property_name(SPELLINGS, leaf)] = _json(several)
        for kind in (TIME_ZONE, LOGICAL_TYPE):
            values = {each.leaf_property(kind, path) for each in group for path in several if path[0] == each.name}
            if len(values) == 1 and (value := values.pop()) is not None:
                properties[property_name(kind, leaf)] = value
    return replace(column, properties=properties)


def _paths_in_files(
    column: SchemaColumn, group: Sequence[SchemaColumn]
) -> Iterator[tuple[ColumnPath, list[ColumnPath]]]:
    """Returns, for each leaf of a folded ``column`` that is a field, its paths in ``group``."""
    if TWIN_FIELDS in column.properties:
        return
    alike: dict[ColumnPath, list[ColumnPath]] = {}
    for path, _ in TupleSchema(tuple(group)).leaves():
        alike.setdefault(lower_path(path), []).append(path)
    for path, _ in TupleSchema((column,)).leaves():
        if len(path) > 1:
            yield path, alike.get(lower_path(path), [])


def _paths(path: ColumnPath, type_: DrillType) -> Iterator[ColumnPath]:
    yield path
    for field in type_.fields:
        yield from _paths((*path, field.name), field.type)
    for place, part in enumerate(type_.parts):
        yield from _paths((*path, str(place)), part)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _values(statistics: ColumnStatistics, rows: int) -> int | None:
    if statistics.non_nulls is not None:
        return statistics.non_nulls
    return None if statistics.nulls is None else rows - statistics.nulls
