"""Warnings on columns and files of a surveyed table that readers of Iceberg may read differently. Pure functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from metastore.procedures.hive.metrics import schema_of
from metastore.procedures.hive.migration.reader_differences import (
    HIDDEN_PARTITIONS,
    KNOWN,
    UNREAD,
    found_in,
    holds_int96,
)
from metastore.procedures.hive.migration.survey import Survey
from metastore.sources.hive.matching import match
from metastore.sources.hive.types import leaves_of

_SHOWN: Final = 100
"""Maximum number of files named in one warning."""


def warnings_of(survey: Survey, fragments: pa.Table, *, without: frozenset[int] = frozenset()) -> list[str]:
    """Returns a clause for each column and kind of value, naming files, except files with numbers in ``without``."""
    concerned: dict[tuple[str, str], list[str]] = {}
    schemas = _schemas(fragments)
    names = {shape: _column_names(survey, schema) for shape, schema in schemas.items()}
    places = {leaf.path[0]: at for at, leaf in enumerate(leaves_of(survey.table.columns)) if len(leaf.path) == 1}
    for row in fragments.select(["number", "shape", "lower"]).sort_by("number").to_pylist():
        if row["number"] in without or row["shape"] is None:
            continue
        for held, values in found_in(schemas[row["shape"]]):
            column = names[row["shape"]].get(held)
            bounded = column in places and row["lower"][places[column]] is not None
            if column is not None and not (bounded and KNOWN[values].excluded_by_bounds):
                concerned.setdefault((column, values), []).append(survey.files[row["number"]].location)
    warnings = [UNREAD[format_] for format_ in survey.formats if format_ in UNREAD]
    warnings += [HIDDEN_PARTITIONS] if survey.table.is_partitioned and survey.files else []
    return warnings + [
        f"column {column}: {_first_files(files)} may hold {values}: {KNOWN[values].what}"
        for (column, values), files in concerned.items()
    ]


def files_with_int96(fragments: pa.Table) -> frozenset[int]:
    """Returns the numbers of the files that have an INT96 column."""
    schemas = _schemas(fragments)
    having = {shape for shape, schema in schemas.items() if any(map(holds_int96, schema))}
    rows = fragments.select(["number", "shape"]).to_pylist()
    return frozenset(row["number"] for row in rows if row["shape"] in having)


def _schemas(fragments: pa.Table) -> dict[str, pa.Schema]:
    rows = fragments.select(["shape", "schema"]).to_pylist()
    return {row["shape"]: schema_of(row["schema"]) for row in rows if row["schema"] is not None}


def _column_names(survey: Survey, schema: pa.Schema) -> dict[str, str]:
    """Returns the table's names for the columns of a file, by the file's names; extra columns are left out."""
    aliases: Iterator[tuple[tuple[str, ...], set[str]]] = iter(match(survey.table.columns, schema).aliases.items())
    return {held: path[0] for path, held_names in aliases if len(path) == 1 for held in held_names}


def _first_files(files: Sequence[str]) -> str:
    more = f" and {len(files) - _SHOWN} more" if len(files) > _SHOWN else ""
    return f"{len(files)} file{'s' if len(files) > 1 else ''} ({', '.join(files[:_SHOWN])}{more})"
