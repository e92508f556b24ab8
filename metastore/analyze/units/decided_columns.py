"""Decides the columns of a whole table: as declared, as its catalog defines them, or those of all files. Pure.

Place in the flow: the roll-up has added up the files' statistics by their own column names and types. This module
decides which columns the table's unit has, and which of the statistics are valid for them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from metastore.analyze.changes import WantedMetadata
from metastore.analyze.units.partial_aggregates import Part, statistics_of
from metastore.errors import InvalidRequestError
from metastore.model.column_path import parse, quote
from metastore.model.drill_types import common_type, minor_type, parse_type
from metastore.model.elements import with_elements
from metastore.model.statistics import ColumnStatistics, merge
from metastore.model.tuple_schema import DIRECTORY, TupleSchema
from metastore.sources.source_table import SourceTable
from metastore.sources.spellings import fold_schema, folded_statistics, spellings_of
from metastore.sources.table_columns import kept_statistics


def decide_columns(whole: Part, source: SourceTable, request: WantedMetadata) -> Part:
    """``whole`` with the columns of the table, except those of directories.

    Raises InvalidRequestError if the files do not match the declared schema.
    """
    if request.declared is not None:
        return _as_declared(whole, request.declared)
    if source.says_columns:
        return _as_kept(whole, source)
    return whole if request.case_sensitive else _fold_case(whole)


def without_values(whole: Part, columns: Collection[str]) -> Part:
    """``whole`` without facts about the values of ``columns``, by name."""
    if not columns:
        return whole
    statistics = {key: known for key, known in whole.statistics.items() if parse(key)[0] not in columns}
    descriptions = {key: known for key, known in whole.descriptions.items() if parse(key)[0] not in columns}
    return replace(whole, statistics=statistics, descriptions=descriptions)


def _as_kept(whole: Part, source: SourceTable) -> Part:
    """``whole`` with the columns that the table's catalog defines, and statistics in their types."""
    declared = source.schema(whole.schema)
    schema = TupleSchema(
        tuple(column for column in declared.columns if DIRECTORY not in column.properties), whole.schema.properties
    )
    types = {quote(path): minor_type(type_) for path, type_ in with_elements(schema.leaves())}
    descriptions = {key: known for key, known in whole.descriptions.items() if key in types}
    return replace(whole, schema=schema, statistics=kept_statistics(whole.statistics, types), descriptions=descriptions)


def _fold_case(whole: Part) -> Part:
    """``whole`` with columns, and fields of structs, joined if their names differ only in case."""
    schema = fold_schema(whole.schema)
    if schema is whole.schema:
        return whole
    spelled = {quote(path) for several in spellings_of(schema).values() for path in several}
    return replace(
        whole,
        schema=schema,
        statistics=folded_statistics(whole.statistics, schema, whole.rows),
        descriptions={key: known for key, known in whole.descriptions.items() if key not in spelled},
    )


def _as_declared(whole: Part, declared: TupleSchema) -> Part:
    """``whole`` with exactly the declared columns, and its statistics in their types.

    Raises InvalidRequestError if the files hold values of another type, or lack values of a required column.
    """
    for column in declared.columns:
        found = whole.schema.by_name.get(column.name)
        if found is not None and common_type(found.type, column.type) != str(parse_type(column.type)):
            raise InvalidRequestError(
                f"column {column.name} is declared as {column.type}, but the files hold {found.type} values"
            )
        if column.required and (lacking := _nulls(whole, column.name)):
            raise InvalidRequestError(
                f"column {column.name} is declared NOT NULL, but {lacking:,} of {whole.rows:,} rows have no value in it"
            )
    leaves = {quote(path): type_ for path, type_ in with_elements(declared.leaves())}
    statistics = {
        key: merge([known, ColumnStatistics(minor_type(leaves[key]), nulls=0, non_nulls=0, rows=0)])
        for key, known in whole.statistics.items()
        if key in leaves
    }
    descriptions = {key: known for key, known in whole.descriptions.items() if key in leaves}
    return replace(whole, schema=declared, statistics=statistics, descriptions=descriptions)


def _nulls(whole: Part, name: str) -> int | None:
    """Number of rows without a value in a column; None if unknown, for example if the column was not analyzed."""
    return whole.rows if name not in whole.schema.by_name else statistics_of(whole, quote((name,)), (name,)).nulls
