"""Columns that a query must name, because ``*`` leaves them out: ``$row_id``, and the columns of a row's file. Pure.

Place in the flow: SELECT, Spark and views determine here which of these columns a query reads from a table. The table
gets them before the query is bound, and each star that would include them leaves them out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from sqlglot import exp

from metastore.errors import InvalidRequestError
from metastore.model.identity import TableInfo
from metastore.model.tuple_schema import TIME_ZONE, SchemaColumn, TupleSchema
from metastore.scan.pruning.file_columns import MODIFIED, PSEUDO_COLUMNS
from metastore.scan.pruning.row_id import ROW_ID, TYPE
from metastore.sql.views.references import info_of, references

UNLISTED: Final[Mapping[str, pa.DataType]] = {**PSEUDO_COLUMNS, ROW_ID: TYPE}
"""All unlisted columns with their types, in a table's order."""

_STRUCT: Final = "_partition"
_OF_CATALOGS: Final = ("_file", "_pos", _STRUCT, "_spec_id", "_row_id", "_last_updated_sequence_number")
"""Further ones, which Iceberg tables of catalogs have, with Iceberg's names."""

_MEANT: Final = frozenset({*UNLISTED, *_OF_CATALOGS})

_TYPES: Final = {ROW_ID: "VARBINARY", MODIFIED: "TIMESTAMP"}


@dataclass(frozen=True)
class UnlistedColumns:
    """The unlisted columns that a query uses, by table."""

    names: Mapping[TableInfo, Sequence[str]]

    @classmethod
    def of(
        cls,
        query: exp.Query,
        schema_of: Callable[[TableInfo], TupleSchema | None],
        schema_path: Sequence[str] = (),
    ) -> UnlistedColumns:
        """Returns the unlisted columns of ``query``, and rewrites its stars to leave them out.

        ``schema_of`` returns the columns of a table, None for anything else, because the rows of a view have no file.
        """
        if not any(column.name.lower() in UNLISTED for column in query.find_all(exp.Column)):
            return cls({})
        read = [(table, info_of(table, schema_path)) for table in references(query)]
        names: dict[TableInfo, Sequence[str]] = {}
        for info in dict.fromkeys(info for _, info in read):
            meant = {name for table, of in read if of == info for name in meant_of(query, table)}
            schema = schema_of(info) if meant else None
            own = set() if schema is None else {column.name.lower() for column in schema.columns}
            names[info] = [name for name in UNLISTED if schema is not None and name in meant and name not in own]
        for star, left_out in stars_over((table, names[info]) for table, info in read):
            star.set("except_", [*(star.args.get("except_") or ()), *(exp.column(name) for name in left_out)])
        return cls(names)

    def added_to(self, schema: TupleSchema, table: TableInfo) -> TupleSchema:
        """Returns ``schema`` of ``table`` with its unlisted columns added."""
        more = [unlisted_column(name) for name in self.names.get(table, ())]
        return TupleSchema((*schema.columns, *more), schema.properties) if more else schema


def unlisted_column(name: str) -> SchemaColumn:
    """Returns the column ``name``, one of :data:`UNLISTED`."""
    return SchemaColumn(name, _TYPES.get(name, "VARCHAR"), properties={TIME_ZONE: "UTC"} if name == MODIFIED else {})


def meant_of(tree: exp.Expr, table: exp.Table) -> frozenset[str]:
    """Returns the unlisted columns that ``tree`` uses of its node ``table``, unless the table has its own.

    A name of Drill's or Iceberg's (``filename``, ``_pos``) without a qualifier counts only if the query reads no other
    table beside this one and gives this name to nothing else. ``_partition.p`` is a field of ``_partition``.
    """
    select = table.find_ancestor(exp.Select)
    named = [found for column in tree.find_all(exp.Column) if (found := _unlisted_name(column)) is not None]
    if select is None or not named:
        return frozenset()
    given = {each.alias.lower() for each in tree.find_all(exp.Alias) if each.this.name.lower() != each.alias.lower()}
    is_alone = not select.args.get("joins")

    def is_meant(column: exp.Column, name: str, qualifier: str) -> bool:
        if qualifier:
            return qualifier == table.alias_or_name.lower()
        is_own = column.find_ancestor(exp.Select) is select
        return is_own and (name.startswith("$") or (is_alone and name not in given))

    return frozenset(name for column, name, qualifier in named if is_meant(column, name, qualifier))


def _unlisted_name(column: exp.Column) -> tuple[exp.Column, str, str] | None:
    """Returns ``column`` with its unlisted name and the name before it, if it or a struct of its has one."""
    parts = ["", *(part.name.lower() for part in column.parts)]
    last = len(parts) - 1
    places = [place for place, part in enumerate(parts) if part == _STRUCT or (place == last and part in _MEANT)]
    return (column, parts[places[0]], parts[places[0] - 1]) if places else None


def stars_over(hidden: Iterable[tuple[exp.Table, Sequence[str]]]) -> Iterator[tuple[exp.Star, list[str]]]:
    """Returns the stars that would include ``hidden`` columns of tables, each with the names that it must leave out.

    Raises InvalidRequestError for a NATURAL join, which would join by them.
    """
    found: dict[int, tuple[exp.Star, list[str]]] = {}
    for table, names in hidden:
        select = table.find_ancestor(exp.Select)
        if not names or select is None:
            continue
        if any(join.method.upper() == "NATURAL" for join in select.args.get("joins") or ()):
            raise InvalidRequestError(f"{', '.join(names)}: join with ON or USING; NATURAL would join by it too")
        for star in select.find_all(exp.Star):
            of = star.parent.table if isinstance(star.parent, exp.Column) else ""
            if star.find_ancestor(exp.Select) is not select or isinstance(star.parent, exp.Count):
                continue
            if not of or of.lower() == table.alias_or_name.lower():
                wanted = found.setdefault(id(star), (star, []))[1]
                wanted += [name for name in names if name not in wanted]
    yield from found.values()
