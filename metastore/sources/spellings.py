"""Columns whose names differ in case alone: one column of a table of files, as for Spark and DuckDB.

A column is called as the first file in order calls it, and keeps a list of its other spellings, by which units of files
and files themselves are asked. Two such columns in one file are different ones: they keep their exact names, and so do
all columns of that name in other files. A deployment or a call with ``case_sensitive = true`` has no rule of case.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from metastore.errors import FormatError
from metastore.model.column_path import named_alike, parse, quote
from metastore.model.drill_types import common_type, minor_type
from metastore.model.statistics import ColumnStatistics, merge
from metastore.model.tuple_schema import SPELLINGS, TWIN, SchemaColumn, TupleSchema

_NOTHING: Final[Mapping[str, Sequence[str]]] = {}


def folded(schema: TupleSchema) -> TupleSchema:
    """The merged ``schema`` of files with one column for each name regardless of case, but for those of twins."""
    groups: dict[str, list[SchemaColumn]] = {}
    for column in schema.columns:
        groups.setdefault(column.name.lower(), []).append(column)
    if len(groups) == len(schema.columns):
        return schema
    columns = []
    for group in groups.values():
        if len(group) == 1 or any(TWIN in column.properties for column in group):
            columns += group
        else:
            columns.append(_one(group))
    order = {column.name: place for place, column in enumerate(schema.columns)}
    return replace(schema, columns=tuple(sorted(columns, key=lambda column: order[column.name])))


def spellings_of(schema: TupleSchema) -> Mapping[str, Sequence[str]]:
    """For each column that files spell in several ways, by its name, all of its spellings."""
    found = {
        column.name: json.loads(column.properties[SPELLINGS])
        for column in schema.columns
        if SPELLINGS in column.properties
    }
    return found or _NOTHING


def folded_statistics(
    found: Mapping[str, ColumnStatistics], schema: TupleSchema, rows: int
) -> dict[str, ColumnStatistics]:
    """Statistics of ``rows`` rows, by quoted path, for the columns of a folded ``schema``.

    A row has its value in one of the spellings, and is null in all others.
    """
    spellings = spellings_of(schema)
    names = {name for several in spellings.values() for name in several}
    kept = {key: known for key, known in found.items() if parse(key)[0] not in names}
    types = dict(schema.leaves())
    for name, several in spellings.items():
        if (name,) not in types:
            continue  # of fields nothing is told
        parts = [found[key] for each in several if (key := quote((each,))) in found]
        if len(parts) < len(several):
            continue
        type_ = minor_type(types[(name,)])
        whole = merge([*parts, ColumnStatistics(type_, nulls=0, non_nulls=0, rows=0)])
        values = [_values(part, rows) for part in parts]
        known_values = None if None in values else sum(value for value in values if value is not None)
        nulls = None if known_values is None else rows - known_values
        kept[quote((name,))] = replace(whole, rows=rows, nulls=nulls, non_nulls=known_values)
    return kept


@dataclass(frozen=True)
class AnyCase:
    """The columns of a table of files: found in a file by their exact names, else regardless of case."""

    names: tuple[str, ...]
    says_types: bool = False

    def places(self, names: Sequence[str]) -> Mapping[str, str]:
        """As :meth:`metastore.sources.table_columns.TableColumns.places`."""
        own = frozenset(self.names)
        twins = named_alike(self.names)
        free: dict[str, list[str]] = {}
        for name in names:
            if name not in own:
                free.setdefault(name.lower(), []).append(name)
        exact = set(names)
        found = {}
        for name in self.names:
            several = free.get(name.lower(), [])
            if name in exact and not several:
                found[name] = name
            elif len(several) == 1 and name not in exact and name.lower() not in twins:
                found[name] = several[0]
            elif several:
                both = ", ".join(sorted({*several, *exact.intersection([name])}))
                raise FormatError(f"column {name} may be any of {both} in it; run ANALYZE, which tells them apart")
        return found


def _one(group: Sequence[SchemaColumn]) -> SchemaColumn:
    first = group[0]
    type_ = reduce(common_type, (column.type for column in group))
    alike = {
        key: value
        for key, value in first.properties.items()
        if all(column.properties.get(key) == value for column in group)
    }
    spelled = json.dumps([column.name for column in group], ensure_ascii=False)
    return SchemaColumn(first.name, type_, required=False, properties={**alike, SPELLINGS: spelled})


def _values(known: ColumnStatistics, rows: int) -> int | None:
    if known.non_nulls is not None:
        return known.non_nulls
    return None if known.nulls is None else rows - known.nulls
