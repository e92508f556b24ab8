"""Checks a query's columns against the schemas of its sources, and derives the columns of its result.

The case of column names does not matter, as in Spark and Drill. Names keep the spelling in which they were written;
columns of a star keep the schema's. A column that does not fit raises InvalidRequestError at its line and column.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope
from sqlglot.schema import MappingSchema

from metastore.errors import InvalidRequestError, NotFoundError
from metastore.ground.suggestions import did_you_mean
from metastore.model.column_path import named_alike
from metastore.model.identity import TableInfo
from metastore.model.tuple_schema import LOGICAL_TYPE, TIME_ZONE, SchemaColumn, TupleSchema
from metastore.sql.views.references import drop_table_paths, info_of, references
from metastore.sql.views.text import DEFAULT_DIALECT, identifier_at, place_of
from metastore.sql.views.types import UNKNOWN, to_sqlglot, type_of
from metastore.sql.views.unlisted_columns import UNLISTED

SchemaOf = Callable[[TableInfo], TupleSchema]
"""Returns the columns of a table or view. Raises NotFoundError for an unknown one."""

_KEY: Final = "metastore_table_"
"""The prefix of table names in a bound query; no common table expression has such a name."""

_PLACE: Final = re.compile(r"Line: (\d+), Col: (\d+)")
_QUOTED: Final = re.compile(r"'([^']*)'|: (\S+)$")


@dataclass(frozen=True)
class ResolvedQuery:
    """A query whose every column is known.

    ``query`` is the tree with stars expanded and columns qualified; its tables are named by the keys of ``tables``.
    ``columns`` are the columns of its result, in order. A type that cannot be derived is UNKNOWN.
    """

    query: exp.Query
    columns: tuple[SchemaColumn, ...]
    tables: dict[str, TableInfo]

    @property
    def schema(self) -> TupleSchema:
        """The columns as a schema."""
        return TupleSchema(self.columns)


def bind(
    query: exp.Query,
    schema_of: SchemaOf,
    *,
    dialect: str = DEFAULT_DIALECT,
    schema_path: Sequence[str] = (),
    is_view: bool = True,
) -> ResolvedQuery:
    """Check ``query``, which does not change, and derive its columns.

    Raises InvalidRequestError for an unknown table, and for an unknown or ambiguous column. For the query of a view it
    also raises it for a column without a name and for two columns of one name, because readers select a view's columns
    by name. In other queries, a column without a name is called by its text.
    """
    tree = query.copy()
    unnamed = [item for item in tree.selects if not item.output_name and not item.is_star]
    schemas: dict[str, TupleSchema] = {}
    tables: dict[str, TableInfo] = {}
    drop_table_paths(tree)
    for number, table in enumerate(list(references(tree))):
        info = info_of(table, schema_path)
        try:
            schema = schema_of(info)
        except NotFoundError as error:
            raise InvalidRequestError(f"{place_of(table)}{error}") from error
        key = f"{_KEY}{number}"
        schemas[key], tables[key] = schema, info
        if not table.alias:
            table.set("alias", exp.TableAlias(this=table.parts[-1].copy()))
        for part in ("db", "catalog"):
            table.set(part, None)
        table.set("this", exp.to_identifier(key))
    if not is_view:
        _name_by_text(tree, dialect)
    mapping = MappingSchema({key: _columns(schema) for key, schema in schemas.items()}, normalize=False)
    try:
        qualified = qualify(tree.copy(), schema=mapping, dialect=f"{dialect}, normalization_strategy=case_insensitive")
    except SqlglotError as error:
        raise _refusal(str(error), tree, schemas) from error
    except RecursionError as error:
        raise InvalidRequestError("the query of a view is nested too deeply") from error
    assert isinstance(qualified, exp.Query)
    _require_told_apart(qualified, schemas, tables)
    if (lost := _lost_in_having(qualified)) is not None:
        raise _refusal(f"Column '{lost.name}' could not be resolved", tree, schemas)
    names = _names(tree, qualified, schemas)
    if is_view:
        _require_names(names, unnamed, dialect)
    types = _types(qualified, schemas)
    columns = [_column(name, *described) for name, described in zip(names, types, strict=True)]
    return ResolvedQuery(qualified, tuple(columns), tables)


def _name_by_text(tree: exp.Query, dialect: str) -> None:
    """Name the columns that have no name, also in subqueries, since a star may include them."""
    for select in list(tree.find_all(exp.Select)):
        for item in select.expressions:
            if not item.output_name and not item.is_star:
                item.replace(exp.alias_(item.copy(), item.sql(dialect, normalize_functions="lower"), quoted=True))


def _require_names(names: Sequence[str], unnamed: Sequence[exp.Expr], dialect: str) -> None:
    if unnamed:
        raise InvalidRequestError(
            f"{place_of(unnamed[0])}column {unnamed[0].sql(dialect)} has no name; give it one with AS"
        )
    if twice := next((name for name in names if [n.lower() for n in names].count(name.lower()) > 1), None):
        raise InvalidRequestError(f"the query gives two columns called {twice!r}; rename one of them with AS")


def _require_told_apart(qualified: exp.Query, schemas: dict[str, TupleSchema], tables: dict[str, TableInfo]) -> None:
    """Refuse a name, also one of a star, that stands for several columns of a table: names that differ only in case."""
    used = {column.name for column in qualified.find_all(exp.Column)}
    for key, schema in schemas.items():
        for name, several in named_alike(column.name for column in schema.columns).items():
            if name in used:
                raise InvalidRequestError(
                    f"{tables[key]} has the columns {' and '.join(several)}, which differ in case alone: a query "
                    "cannot tell them apart"
                )


def _lost_in_having(query: exp.Query) -> exp.Column | None:
    """Returns a column that no source has.

    Sqlglot accepts such a column in HAVING, where it may name a result column.
    """
    for having in query.find_all(exp.Having):
        select = having.parent_select
        results = select.named_selects if isinstance(select, exp.Query) else []
        for column in having.find_all(exp.Column):
            if not column.table and column.name not in results:
                return column
    return None


def _columns(schema: TupleSchema) -> dict[str, object]:
    return {
        column.name.lower(): to_sqlglot(column.type, utc=column.properties.get(TIME_ZONE) == "UTC")
        for column in schema.columns
    }


def _names(query: exp.Query, qualified: exp.Query, schemas: dict[str, TupleSchema]) -> list[str]:
    """Returns the names of the columns as the query spells them; columns of a star, as the schemas spell them."""
    written = {each.name.lower(): each.name for alias in query.find_all(exp.TableAlias) for each in alias.columns}
    for select in query.find_all(exp.Select):
        written.update((item.alias_or_name.lower(), item.alias_or_name) for item in select.selects if not item.is_star)
    written.update((item.alias_or_name.lower(), item.alias_or_name) for item in query.selects if not item.is_star)
    listed = {item.alias_or_name.lower() for item in query.selects if not item.is_star}
    sources = traverse_scope(qualified)[-1].sources
    names = []
    for item in qualified.selects:
        name = item.alias_or_name
        column = item.unalias()
        source = sources.get(column.table) if isinstance(column, exp.Column) else None
        if name not in listed and isinstance(source, exp.Table) and source.name in schemas:
            spelled = {each.name.lower(): each.name for each in schemas[source.name].columns}
            names.append(spelled.get(name, name))
        else:
            names.append(written.get(name) or _first_spelling(name, schemas))
    return names


def _first_spelling(name: str, schemas: dict[str, TupleSchema]) -> str:
    every = (column.name for schema in schemas.values() for column in schema.columns)
    return next((spelled for spelled in every if spelled.lower() == name), name)


_Described = tuple[str, bool, frozenset[tuple[str, str]]]
"""A type, whether it is a TIMESTAMP adjusted to UTC, and the properties that say its logical types."""

_NOT_KNOWN: Final = (UNKNOWN, False, frozenset[tuple[str, str]]())


def _types(query: exp.Query, schemas: dict[str, TupleSchema]) -> list[_Described]:
    known: dict[int, dict[str, _Described]] = {}
    result: list[_Described] = []
    for scope in traverse_scope(query):
        select = scope.expression
        assert isinstance(select, exp.Query)
        described = [_describe(item, scope, known, schemas) for item in select.selects]
        if isinstance(select, exp.SetOperation):
            described = _set_operation(scope, known, len(described))
        result = described
        known[id(scope)] = dict(zip(select.named_selects, described, strict=False))
    return result


def _set_operation(scope: Scope, known: dict[int, dict[str, _Described]], width: int) -> list[_Described]:
    """Returns the types in which all branches of a UNION agree, by position."""
    branches = [list(known.get(id(branch), {}).values()) for branch in scope.set_operation_scopes]
    if any(len(branch) != width for branch in branches):
        return [_NOT_KNOWN] * width
    return [column[0] if len(set(column)) == 1 else _NOT_KNOWN for column in zip(*branches, strict=True)]


def _describe(
    item: exp.Expr, scope: Scope, known: dict[int, dict[str, _Described]], schemas: dict[str, TupleSchema]
) -> _Described:
    """Type, zone and logical type of one item of a query; not known where engines disagree about them."""

    def column_of(column: exp.Column) -> _Described:
        source = scope.sources.get(column.table)
        if isinstance(source, Scope):
            return known.get(id(source), {}).get(column.name, _NOT_KNOWN)
        if isinstance(source, exp.Table) and source.name in schemas:
            for candidate in schemas[source.name].columns:
                if candidate.name.lower() == column.name:
                    properties = candidate.properties
                    logical = frozenset(pair for pair in properties.items() if pair[0].startswith(LOGICAL_TYPE))
                    return candidate.type, properties.get(TIME_ZONE) == "UTC", logical
        return _NOT_KNOWN

    type_ = type_of(item, lambda column: column_of(column)[0])
    found = [column_of(column) for column in item.find_all(exp.Column)]
    zones = {zone for _, zone, _ in found}
    logicals = {logical for kind, _, logical in found if kind == type_}
    logical = logicals.pop() if len(logicals) == 1 and not item.find(exp.Cast) else frozenset[tuple[str, str]]()
    if type_ == "TIMESTAMP" and (len(zones) != 1 or item.find(exp.Cast)):
        return _NOT_KNOWN  # engines differ in whether a cast to TIMESTAMP has a zone
    return type_, type_ == "TIMESTAMP" and zones == {True}, logical


def _column(name: str, type_: str, utc: bool, logical: frozenset[tuple[str, str]]) -> SchemaColumn:
    return SchemaColumn(name, type_, properties={**({TIME_ZONE: "UTC"} if utc else {}), **dict(logical)})


def _refusal(message: str, tree: exp.Query, schemas: dict[str, TupleSchema]) -> InvalidRequestError:
    """Returns sqlglot's error as an error of ours, with the place, the name in question, and the known names."""
    quoted = _QUOTED.search(message)
    name = (quoted[1] or quoted[2]) if quoted else ""
    at = _PLACE.search(message)
    node: exp.Expr | None = identifier_at(tree, int(at[1]), int(at[2])) if at else None
    if node is None and name:
        node = next((each for each in tree.find_all(exp.Identifier) if each.name.lower() == name.lower()), None)
    if node is not None and isinstance(node.parent, exp.Column):
        node = node.parent
    place = place_of(node) if node is not None else ""
    if message.startswith("Unknown table"):
        return InvalidRequestError(f"{place}the query reads no table or subquery called {name}")
    if not message.startswith(("Column", "Unknown column")):
        return InvalidRequestError(f"{place}the query does not fit together: {message}")
    spellings = {column.name.lower(): column.name for schema in schemas.values() for column in schema.columns}
    qualifier = node.table if isinstance(node, exp.Column) else ""
    if name.lower() in spellings and not qualifier and "for table" not in message:
        holders = sum(any(c.name.lower() == name.lower() for c in schema.columns) for schema in schemas.values())
        if holders > 1:
            return InvalidRequestError(f"{place}column {name} is in several tables; write table.{name}")
    if name.lower() in UNLISTED and name.lower() not in spellings:
        return InvalidRequestError(
            f"{place}unknown column {name}: the rows of a view, a subquery or a join have no file of their own; "
            "name it in the query that reads the table, with the table's name before it"
        )
    reasons = {key.lower(): reason for schema in schemas.values() for key, reason in schema.left_out.items()}
    if name.lower() in reasons and name.lower() not in spellings:
        return InvalidRequestError(f"{place}column {name} cannot be in a view: {reasons[name.lower()]}")
    hint = did_you_mean(name, spellings.values())
    whose = f" of {qualifier}" if qualifier else ""
    return InvalidRequestError(f"{place}unknown column {name}{whose}{hint}")
