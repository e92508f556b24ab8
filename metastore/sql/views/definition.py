"""Definitions: a name and a query become the unit that is stored, after all checks.

Nothing is written here. The query is kept as it was written. If a list of column names is given, the query's columns
are renamed, so that the text alone defines the view. A view may read analyzed tables, views and materialized views, but
not itself, directly or through other views.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sqlglot import exp

from metastore.errors import InvalidRequestError
from metastore.ground.user import user_name
from metastore.model.column_path import quote
from metastore.model.identity import TableInfo
from metastore.model.materialized_view_unit import MaterializedViewMetadataUnit, RefreshStatus
from metastore.model.tuple_schema import TupleSchema
from metastore.model.view_unit import ViewMetadataUnit
from metastore.sql.views import fields
from metastore.sql.views.binding import ResolvedQuery
from metastore.sql.views.bound_query import bind_query
from metastore.sql.views.contract import SOURCES, Contract, contract_of, to_json
from metastore.sql.views.dialects import translate
from metastore.sql.views.expansion import ViewText, expand
from metastore.sql.views.names import NameKind, Names
from metastore.sql.views.references import info_of, references
from metastore.sql.views.text import DEFAULT_DIALECT, parse_query, require_dialect

COMMENT: Final = "comment"
COLUMN_COMMENTS: Final = "columnComments"
DEPENDENCIES: Final = "dependencies"
"""Keys of a materialized view's additional metadata, for data that has no column in Drill's schema."""


@dataclass(frozen=True)
class Definition:
    """A requested definition: a query in ``dialect``, and its description.

    ``columns`` renames the query's columns, all of them. ``schema_path`` completes names without plugin or workspace;
    if it is empty, the view's own plugin and workspace do. ``translations`` are further dialects in which to store the
    query.
    """

    sql: str
    dialect: str = DEFAULT_DIALECT
    columns: Sequence[str] = ()
    comment: str | None = None
    column_comments: Mapping[str, str] = field(default_factory=dict)
    properties: Mapping[str, str] = field(default_factory=dict)
    schema_path: Sequence[str] = ()
    translations: Sequence[str] = ()
    owner: str | None = None


@dataclass(frozen=True)
class _CheckedDefinition:
    sql: str
    dialect: str
    schema: TupleSchema
    path: tuple[str, ...]
    dependencies: dict[str, str]
    contract: Contract


def define_view(names: Names, name: TableInfo, definition: Definition, now_ms: int) -> ViewMetadataUnit:
    """Returns the unit of view ``name``.

    Raises InvalidRequestError, with line and column if there is one. The causes: SQL that cannot be parsed, an unknown
    table or column, no columns, two columns of one name or one without a name, a view that would read itself, the name
    of a table or materialized view, and a translation that would lose meaning.
    """
    checked = _check(names, name, definition, NameKind.VIEW)
    representations = {checked.dialect: checked.sql}
    for dialect in definition.translations:
        translated = translate(checked.sql, checked.dialect, dialect)
        if translated.unsupported:
            lost = "; ".join(translated.unsupported)
            raise InvalidRequestError(f"view {name} cannot be written in {translated.dialect}: {lost}")
        representations[translated.dialect] = translated.sql
    return ViewMetadataUnit(
        name.storage_plugin,
        name.workspace,
        name.name,
        owner=definition.owner or user_name(),
        dialect=checked.dialect,
        representations=representations,
        schema=checked.schema.to_json(),
        fields=fields.to_json(checked.schema),
        workspace_schema_path=list(checked.path),
        comment=definition.comment,
        column_comments=dict(_known_comments(definition, checked.schema)),
        properties=dict(definition.properties),
        dependencies=checked.dependencies,
        last_modified_time=now_ms,
        additional_metadata=json.dumps({SOURCES: to_json(checked.contract)}, ensure_ascii=False),
    )


def define_materialized_view(
    names: Names, name: TableInfo, definition: Definition, now_ms: int
) -> MaterializedViewMetadataUnit:
    """Returns the unit of materialized view ``name``, which holds no rows yet.

    Raises as :func:`define_view`, and for a name within a table. Drill has no column for the dialect. So a query in
    another dialect is stored in Spark's, and refused if Spark's has no equivalent.
    """
    names.require_outside_tables(name)
    checked = _check(names, name, definition, NameKind.MATERIALIZED_VIEW)
    translated = translate(checked.sql, checked.dialect, DEFAULT_DIALECT)
    if translated.unsupported:
        lost = "; ".join(translated.unsupported)
        raise InvalidRequestError(f"materialized view {name} cannot be written in {DEFAULT_DIALECT}: {lost}")
    additional: dict[str, Any] = {DEPENDENCIES: checked.dependencies, SOURCES: to_json(checked.contract)}
    if definition.comment is not None:
        additional[COMMENT] = definition.comment
    if comments := _known_comments(definition, checked.schema):
        additional[COLUMN_COMMENTS] = comments
    return MaterializedViewMetadataUnit(
        name.storage_plugin,
        name.workspace,
        name.name,
        owner=definition.owner or user_name(),
        sql=checked.sql if checked.dialect == DEFAULT_DIALECT else translated.sql,
        schema=checked.schema.to_json(),
        fields=fields.to_json(checked.schema),
        workspace_schema_path=list(checked.path),
        refresh_status=RefreshStatus.PENDING.value,
        last_modified_time=now_ms,
        additional_metadata=json.dumps(additional, ensure_ascii=False),
    )


def _check(names: Names, name: TableInfo, definition: Definition, kind: NameKind) -> _CheckedDefinition:
    """The definition if its query can be bound, does not read itself, and has as many columns as names."""
    present = names.find(name)
    if present is not None and present.kind is not kind:
        raise InvalidRequestError(f"{name} is the name of a {present.kind.noun} already")
    dialect = require_dialect(definition.dialect)
    path = tuple(definition.schema_path) or (name.storage_plugin, name.workspace)
    tree = parse_query(definition.sql, dialect)
    text = ViewText(definition.sql, dialect, path)
    expand(tree, lambda each: text if each == name else names.text(each), schema_path=path)
    sql = definition.sql.strip()
    if definition.columns and not _has_names(tree, definition.columns, names, dialect, path):
        if any(item.is_star for item in tree.selects):
            _require_width(definition.columns, len(_bind(tree, names, dialect, path).columns))
        else:
            _require_width(definition.columns, len(tree.selects))
        tree = _rename_columns(tree, definition.columns)
        sql = tree.sql(dialect)
    bound = _bind(tree, names, dialect, path)
    schema = bound.schema
    if not schema.columns:
        raise InvalidRequestError("the query gives no columns: a view needs one at least")
    infos = sorted({info_of(table, path) for table in references(tree)})
    dependencies = {quote((i.storage_plugin, i.workspace, i.name)): str(names.get(i).kind) for i in infos}
    return _CheckedDefinition(sql, dialect, schema, path, dependencies, contract_of(bound, names.schema))


def _bind(tree: exp.Query, names: Names, dialect: str, path: Sequence[str]) -> ResolvedQuery:
    return bind_query(tree, names, dialect=dialect, schema_path=path).bound


def _has_names(tree: exp.Query, columns: Sequence[str], names: Names, dialect: str, path: Sequence[str]) -> bool:
    """Whether the query's columns already have these names, so that its text can stay as it was written."""
    try:
        return [column.name for column in _bind(tree, names, dialect, path).columns] == [*columns]
    except InvalidRequestError:  # for example a column without a name, which is about to get one
        return False


def _require_width(columns: Sequence[str], width: int) -> None:
    if len(columns) != width:
        raise InvalidRequestError(f"{len(columns)} column names for {width} columns: {', '.join(columns)}")


def _rename_columns(tree: exp.Query, columns: Sequence[str]) -> exp.Query:
    """Returns ``tree`` with other names for its columns."""
    names = [exp.to_identifier(name, quoted=True) for name in columns]
    renamed = tree.copy()
    if any(item.is_star for item in tree.selects):
        alias = exp.TableAlias(this=exp.to_identifier("renamed"), columns=names)
        return exp.select("*").from_(exp.Subquery(this=renamed, alias=alias))
    for item, name in zip(renamed.selects, names, strict=True):
        item.replace(exp.Alias(this=item.unalias().copy(), alias=name))
    return renamed


def _known_comments(definition: Definition, schema: TupleSchema) -> Mapping[str, str]:
    spelled = {column.name.lower(): column.name for column in schema.columns}
    if unknown := [name for name in definition.column_comments if name.lower() not in spelled]:
        raise InvalidRequestError(f"there is no column {unknown[0]} to comment on; they are {', '.join(spelled)}")
    return {spelled[name.lower()]: comment for name, comment in definition.column_comments.items()}
