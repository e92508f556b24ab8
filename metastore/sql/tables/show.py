"""SHOW and DESCRIBE: lists of catalogs, schemas and tables, and the columns of a table.

::

    SHOW CATALOGS
    SHOW SCHEMAS | DATABASES | NAMESPACES [FROM | IN catalog] [LIKE 'pattern']
    SHOW TABLES | VIEWS [FROM | IN schema] [LIKE 'pattern']
    SHOW FUNCTIONS [LIKE 'pattern']
    DESCRIBE | DESC [TABLE] [EXTENDED | FORMATTED] name [column | 'pattern']
    USE catalog[.schema] | plugin.workspace

A schema is ``plugin.workspace``, ``catalog.schema``, ``metastore.components`` or ``information_schema``. Without FROM,
only the schemas and tables that the metastore itself knows are listed; no other catalog is contacted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyiceberg.expressions import EqualTo
from sqlglot import TokenType

from metastore.components.information_schema import InformationSchema
from metastore.components.information_schema.relations import NAME
from metastore.duck import typed_functions
from metastore.duck.queries import Duck
from metastore.errors import NotFoundError
from metastore.ground.suggestions import did_you_mean
from metastore.sql.queries.relation import Relation
from metastore.sql.queries.relations import Relations
from metastore.sql.statement import Cursor, Name, Statement
from metastore.sql.target import StatementTarget
from metastore.sql.views.statements import DESCRIPTION, column_comments, rows_of_columns_left_out
from metastore.sql.views.statements import describe as described


def show_catalogs(target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns the metastore's own catalog and the configured ones."""
    Cursor(statement, 2).end()
    return pa.table({"CATALOG_NAME": pa.array(target.catalogs.names(), pa.string())})


def show_schemas(target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns the schemas of one catalog, or the schemas that the metastore knows."""
    cursor = Cursor(statement, 2)
    catalog = _from(cursor, "the name of a catalog")
    pattern = like(cursor)
    if catalog is None:
        names = _texts(InformationSchema(target.metastore).schemata(["SCHEMA_NAME"]))
    else:
        with statement.at(catalog[0].token):
            below = _matching(target.catalogs.schemas(_join_names(catalog)), pattern)
        return pa.table({"SCHEMA_NAME": pa.array([f"{_join_names(catalog)}.{each}" for each in below], pa.string())})
    return pa.table({"SCHEMA_NAME": pa.array(_matching(names, pattern), pa.string())})


def show_tables(target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns the tables and views of one schema, by default that of USE; else all that the metastore knows."""
    cursor = Cursor(statement, 2)
    schema = _from(cursor, "the name of a schema")
    pattern = like(cursor)
    if schema is not None:
        with statement.at(schema[0].token):
            pairs = _tables_of(target, [part.text for part in schema])
    elif len(target.catalogs.current) > 1:
        pairs = _tables_of(target, list(target.catalogs.current))
    else:
        known = InformationSchema(target.metastore).tables(["TABLE_SCHEMA", "TABLE_NAME"])
        pairs = [(row["TABLE_SCHEMA"], row["TABLE_NAME"]) for row in known.to_pylist()]
    return _schemas_and_names(pairs, pattern)


def show_views(target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns the views of one schema, or all that the metastore knows; materialized ones, too."""
    cursor = Cursor(statement, 2)
    schema = _from(cursor, "the name of a schema")
    pattern = like(cursor)
    if schema is not None and schema[0].text.lower() in {each.lower() for each in target.catalogs.names()}:
        with statement.at(schema[0].token):
            namespace = tuple(part.text for part in schema[1:])
            views = target.catalogs.views_in(schema[0].text, namespace)
            if views is None:
                raise NotFoundError(f"schema {_join_names(schema)} does not exist")
        return _schemas_and_names([(_join_names(schema), each) for each in views], pattern)
    known = InformationSchema(target.metastore).views(["TABLE_SCHEMA", "TABLE_NAME"]).to_pylist()
    pairs = [(row["TABLE_SCHEMA"], row["TABLE_NAME"]) for row in known]
    return _schemas_and_names([pair for pair in pairs if schema is None or pair[0] == _join_names(schema)], pattern)


def _schemas_and_names(pairs: Iterable[tuple[str, str]], pattern: re.Pattern[str] | None) -> pa.Table:
    """Returns the schemas and names, in order, whose name fits."""
    rows = sorted(pair for pair in pairs if pattern is None or pattern.fullmatch(pair[1]))
    names = ("TABLE_SCHEMA", "TABLE_NAME")
    return pa.table({name: pa.array([row[place] for row in rows], pa.string()) for place, name in enumerate(names)})


def show_functions(_target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns the names of the functions that a query can call."""
    pattern = like(Cursor(statement, 2))
    with Duck() as duck:
        names = _texts(
            duck.run("SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type <> 'pragma'")
        )
    return pa.table({"FUNCTION_NAME": pa.array(_matching({*names, *typed_functions.NAMES}, pattern), pa.string())})


def describe(target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns the columns of a table or view; for an Iceberg table, in Iceberg's types."""
    start = 2 if statement.word(1) == "TABLE" and len(statement.tokens) > 2 else 1
    extended = statement.word(start) in {"EXTENDED", "FORMATTED"} and len(statement.tokens) > start + 1
    cursor = Cursor(statement, start + extended)
    name = cursor.table()
    columns = described_columns(target, statement, name)
    if cursor.token is not None and not extended:
        return _described_column(cursor, columns)
    cursor.end()
    if not extended:
        return columns
    facts = _facts(target, [part.text for part in name])
    rows = [{"COLUMN_NAME": f"# {label}", "DATA_TYPE": value} for label, value in facts.items() if value]
    return pa.concat_tables([columns, pa.Table.from_pylist(rows, DESCRIPTION)])


def _described_column(cursor: Cursor, columns: pa.Table) -> pa.Table:
    """Returns the rows of ``columns`` that the rest of the statement names, a column or a pattern in single quotes."""
    names = columns["COLUMN_NAME"].to_pylist()
    if cursor.ahead(TokenType.STRING):
        pattern = _pattern(cursor.advance().text)
        kept = [pattern.fullmatch(str(name)) is not None for name in names]
    else:
        start = cursor.token
        wanted = ".".join(part.text for part in cursor.names("a column"))
        kept = [str(name).lower() == wanted.lower() for name in names]
        if not any(kept):
            message = f"there is no column {wanted}{did_you_mean(wanted, list(map(str, names)))}"
            raise cursor.statement.error(message, start)
    cursor.end()
    return columns.filter(pa.array(kept, pa.bool_()))


def _facts(target: StatementTarget, parts: list[str]) -> Mapping[str, str | None]:
    """Returns what EXTENDED adds of a table of a catalog, or of a plugin."""
    relations = Relations(target)
    info = relations.plugin_name(parts)
    if info is not None:
        unit = relations.meaning(info).unit
        kind, location = getattr(unit, "tableType", None), getattr(unit, "location", None)
        return {"Name": str(info), "Format": kind, "Location": location}
    full = target.catalogs.full(parts)
    table = target.catalogs.table(full[0], ".".join(full[1:-1]), full[-1])
    metadata = table.load().metadata
    snapshot = metadata.current_snapshot()
    return {
        "Name": str(table),
        "Format": f"Iceberg, version {metadata.format_version}",
        "Location": metadata.location,
        "Partitioning": ", ".join(map(str, metadata.spec().fields)),
        "Sort order": ", ".join(map(str, metadata.sort_order().fields)),
        "Snapshot": None if snapshot is None else str(snapshot.snapshot_id),
        "Properties": ", ".join(f"{key}={value}" for key, value in sorted(metadata.properties.items())),
    }


def described_columns(target: StatementTarget, statement: Statement, name: list[Name]) -> pa.Table:
    """Returns the rows of DESCRIBE for a name. Raises NotFoundError, with its place."""
    parts, relations = [part.text for part in name], Relations(target)
    with statement.at(name[0].token):
        info = relations.plugin_name(parts)
        if info is not None:
            meaning = relations.meaning(info)
            return described(meaning.schema, column_comments(meaning.unit))
        found = relations.resolve(parts)
    assert isinstance(found, Relation)
    fields = {field.name: field for field in found.fits.fields} if found.fits is not None else {}
    rows = [
        {
            "COLUMN_NAME": column.name,
            "DATA_TYPE": str(fields[column.name].field_type) if column.name in fields else str(column.type),
            "IS_NULLABLE": "NO" if column.name in fields and fields[column.name].required else "YES",
            "COMMENT": fields[column.name].doc if column.name in fields else None,
        }
        for column in found.schema
    ]
    return pa.Table.from_pylist([*rows, *rows_of_columns_left_out(found.left_out)], DESCRIPTION)


def _tables_of(target: StatementTarget, parts: list[str]) -> list[tuple[str, str]]:
    name = ".".join(parts)
    catalogs = {each.lower() for each in target.catalogs.names()}
    if len(parts) > 1 and parts[0].lower() in catalogs:
        tables = target.catalogs.tables(parts[0], ".".join(parts[1:]))
        return [(name, each) for each in tables]
    known = InformationSchema(target.metastore)
    schema = NAME if name.lower() == NAME else name
    found = _texts(known.tables(["TABLE_NAME"], EqualTo("TABLE_SCHEMA", schema)))
    if not found:
        schemas = _texts(known.schemata(["SCHEMA_NAME"]))
        if schema not in schemas:
            raise NotFoundError(f"unknown schema {name}{did_you_mean(schema, [*schemas, *catalogs])}")
    return [(schema, each) for each in found]


def _texts(table: pa.Table) -> list[str]:
    """Returns the texts of a table's only column."""
    return [text for text in table.column(0).to_pylist() if text is not None]


def _from(cursor: Cursor, what: str) -> list[Name] | None:
    if cursor.accept_word("FROM") or cursor.accept_word("IN"):
        return cursor.names(what)
    return None


def like(cursor: Cursor) -> re.Pattern[str] | None:
    """Read the rest of the statement: a LIKE pattern, or nothing."""
    pattern = cursor.expect(TokenType.STRING, "a pattern in single quotes").text if cursor.accept_word("LIKE") else None
    cursor.end()
    return None if pattern is None else _pattern(pattern)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile("".join({"%": ".*", "_": "."}.get(each, re.escape(each)) for each in text), re.DOTALL)


def _matching(names: Iterable[str], pattern: re.Pattern[str] | None) -> list[str]:
    return sorted(name for name in names if pattern is None or pattern.fullmatch(name))


def _join_names(name: Iterable[Name]) -> str:
    return ".".join(part.text for part in name)


def use(target: StatementTarget, statement: Statement) -> pa.Table:
    """Choose what shorter names of this session begin with, in every statement; returns one row that says so."""
    cursor = Cursor(statement, 1)
    names = cursor.names("catalog, catalog.schema or plugin.workspace")
    cursor.end()
    catalog, schema = names[0].text, ".".join(name.text for name in names[1:])
    plugins = target.settings.storage
    with statement.at(names[0].token):
        if catalog in plugins:
            known: Sequence[str] = list(plugins[catalog].workspaces)
        else:
            catalog = target.catalogs.canonical(catalog)
            known = target.catalogs.schemas(catalog) if schema else ()
        if schema and schema not in known:
            raise NotFoundError(f"{catalog} has no schema {schema}{did_you_mean(schema, known)}")
    target.catalogs.current = (catalog, *schema.split(".")) if schema else (catalog,)
    return pa.table({"ok": [True], "summary": [f"names begin with {'.'.join(target.catalogs.current)}"]})


HANDLERS: Final = {
    ("USE",): use,
    ("SHOW", "CATALOGS"): show_catalogs,
    ("SHOW", "SCHEMAS"): show_schemas,
    ("SHOW", "DATABASES"): show_schemas,
    ("SHOW", "NAMESPACES"): show_schemas,
    ("SHOW", "TABLES"): show_tables,
    ("SHOW", "VIEWS"): show_views,
    ("SHOW", "FUNCTIONS"): show_functions,
    ("DESCRIBE",): describe,
    ("DESC",): describe,
}
