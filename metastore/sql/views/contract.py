"""The contract of a view: it reads its sources with the columns that they had when the view was created.

Place in the flow: a definition keeps the columns that the query uses of each source, and all column names of the
source. If a source has other columns when the view is used, it is read through a projection to the kept columns. So a
star, USING, a set operation and a list of column names keep the columns to which they were bound. A source that lost a
used column, or changed its type, breaks the contract: the error names the view, the column and the next step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlglot import exp

from metastore.errors import InvalidRequestError
from metastore.model.column_path import parse, quote
from metastore.model.identity import TableInfo
from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.sql.views.binding import ResolvedQuery
from metastore.sql.views.types import UNKNOWN
from metastore.sql.views.unlisted_columns import UNLISTED, unlisted_column

SOURCES: Final = "sources"
"""Key of the contract in a unit's additional metadata."""

Pins = Mapping[TableInfo, Sequence[str]]
"""The columns that a view reads of a source, in order, for each source whose columns have changed."""


@dataclass(frozen=True)
class KeptSource:
    """The columns that a view uses of a source, with their types, and all column names that the source had."""

    columns: Mapping[str, str]
    every: Sequence[str]


Contract = Mapping[TableInfo, KeptSource]


def contract_of(bound: ResolvedQuery, schema_of: Callable[[TableInfo], TupleSchema]) -> dict[TableInfo, KeptSource]:
    """Returns the columns that a bound query, before expansion, uses of each table and view that it reads.

    All columns of a source count as used if a star or a natural join remains, or if columns are renamed by position.
    """
    unclear = any(not isinstance(star.parent, exp.Count) for star in bound.query.find_all(exp.Star))
    unclear |= any(join.method for join in bound.query.find_all(exp.Join))
    unclear |= any(alias.columns for alias in bound.query.find_all(exp.TableAlias))
    aliases: dict[str, set[str]] = {}
    for table in bound.query.find_all(exp.Table):
        if table.name in bound.tables:
            aliases.setdefault(table.name, set()).add(table.alias_or_name)
    found: dict[TableInfo, KeptSource] = {}
    for key, info in bound.tables.items():
        named = {c.name.lower() for c in bound.query.find_all(exp.Column) if c.table in aliases.get(key, ())}
        listed = schema_of(info).columns
        own = {column.name.lower() for column in listed}
        of_files = [unlisted_column(name) for name in UNLISTED if name in named and name not in own]
        columns = [*listed, *of_files]
        before = found[info].columns if info in found else {}
        used = {c.name: c.type for c in columns if unclear or c.name in before or c.name.lower() in named}
        found[info] = KeptSource(used, [column.name for column in listed])
    return found


def to_json(contract: Contract) -> dict[str, Any]:
    """Returns the contract in the form stored in additional metadata."""
    return {
        quote((info.storage_plugin, info.workspace, info.name)): {"columns": kept.columns, "every": list(kept.every)}
        for info, kept in contract.items()
    }


def from_json(document: Mapping[str, Any]) -> dict[TableInfo, KeptSource]:
    """Reads the contract from additional metadata; empty if an earlier release or another program created the view."""
    return {
        TableInfo(*parse(name)): KeptSource(kept["columns"], kept["every"])
        for name, kept in (document.get(SOURCES) or {}).items()
    }


def pins(
    view: str, contract: Contract, schema_of: Callable[[TableInfo], TupleSchema | None], *, types_may_change: bool
) -> dict[TableInfo, tuple[str, ...]]:
    """Returns the columns to read of each source whose columns have changed since ``view`` was created.

    ``view`` is the view's kind and name. ``schema_of`` returns the current columns, None for a missing source. Raises
    InvalidRequestError for a used column that is gone, and for one of another type unless ``types_may_change``.
    """
    found = {}
    for info, kept in contract.items():
        now = schema_of(info)
        if now is None:
            continue
        columns = [
            _as_kept(view, info, name, type_, now, strict=not types_may_change) for name, type_ in kept.columns.items()
        ]
        if columns and [column.name for column in now.columns] != list(kept.every):
            found[info] = tuple(column.name for column in columns)
    return found


def _as_kept(view: str, source: TableInfo, name: str, type_: str, now: TupleSchema, *, strict: bool) -> SchemaColumn:
    column = now.by_name.get(name) or next((c for c in now.columns if c.name.lower() == name.lower()), None)
    if column is None and name in UNLISTED:
        return unlisted_column(name)
    if column is None:
        raise InvalidRequestError(
            f"{view} reads column {name} of {source}, which has no such column any more; run CREATE OR REPLACE with a "
            "query without it"
        )
    if strict and column.type != type_ and UNKNOWN not in (column.type, type_):
        raise InvalidRequestError(
            f"{view} was made when column {name} of {source} was {type_}, and it is {column.type} now; run CREATE OR "
            "REPLACE with the same query, or with a CAST"
        )
    return column
