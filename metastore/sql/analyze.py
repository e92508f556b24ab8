"""ANALYZE TABLE, with Drill's syntax and options of its own.

::

    ANALYZE TABLE plugin.workspace.name
        [PARTITION (day = '2026-11-24', …), …]
        [(format => 'CSV', schema => 'a INT, b VARCHAR', delimiter => ';', …)]
        [COLUMNS (a, b.c, …) | COLUMNS NONE]
        [REFRESH METADATA ['level' LEVEL]]
        [COMPUTE STATISTICS [columns] | ESTIMATE STATISTICS [columns]] [SAMPLE number PERCENT]
        [PUBLISH AS catalog.schema.table]
    ANALYZE plugin.workspace.name
    ANALYZE TABLE plugin.workspace.name DROP METADATA [IF EXISTS]
    ANALYZE [TABLE] catalog.schema.table [COMPUTE STATISTICS [FOR ALL COLUMNS | FOR COLUMNS a, …]]
    ANALYZE [TABLE] catalog.schema.table WITH (columns = ARRAY['a', …])

REFRESH METADATA or STATISTICS, or both, is required after TABLE, unless partitions are named; STATISTICS also refreshes
the metadata. Its columns are ``(a, …)``, ``FOR COLUMNS a, …`` or ``FOR ALL COLUMNS``; all, if none are named. The table
may also be given as the path of its data, in quotes. A partition's value may have ``*`` and ``?`` for any text;
``day >= '2026-11-20'`` means all since that value, and is the same in every partition that is named. PUBLISH makes or
renews an Iceberg table over the files afterwards, as ``system.publish_table`` does. Of a catalog's table, distinct
values are counted and stored with the table, as ``system.compute_table_stats`` does.
"""

from __future__ import annotations

from typing import Any, Final

import pyarrow as pa
from sqlglot import TokenType

from metastore.analyze.request import AnalyzeRequest
from metastore.analyze.result import AnalyzeResult
from metastore.lake.formats.text.text_options import is_option
from metastore.model.column_path import ColumnPath, quote
from metastore.model.identity import TableInfo
from metastore.model.vocabulary import MetadataType
from metastore.sources.naming import path_named
from metastore.sql.call import constant
from metastore.sql.statement import Cursor, Statement
from metastore.sql.target import StatementTarget

_COUNTS: Final = (
    "version",
    "files",
    "new",
    "changed",
    "removed",
    "segments_written",
    "segments_removed",
    "units",
    "rows",
)
_OK: Final[list[tuple[str, pa.DataType]]] = [("ok", pa.bool_()), ("summary", pa.string())]
ANSWER: Final = pa.schema(
    [
        *_OK,
        *((name, pa.int64()) for name in _COUNTS),
        ("seconds", pa.float64()),
        ("engine", pa.string()),
        ("notes", pa.list_(pa.string())),
    ]
)
"""The result of ANALYZE: one row, whose first columns are Drill's."""

DROPPED: Final = pa.schema(_OK)


def analyze(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run an ANALYZE TABLE of any form."""
    cursor = Cursor(statement, 1)
    is_short = not cursor.accept_word("TABLE")
    table = _table(target, cursor)
    if isinstance(table, TableInfo) and _is_of_catalog(target, table):
        return _of_catalog(target, cursor, table)
    if is_short:
        cursor.end()
        return _answer(target.analyze(table, on_progress=statement.on_progress))
    if cursor.accept_words("DROP", "METADATA"):
        if_exists = cursor.accept_words("IF", "EXISTS")
        cursor.end()
        return _answer_drop(table, dropped=target.drop_metadata(table, if_exists=if_exists))
    partitions, since = _partitions(cursor)
    request = _request(cursor, needs_words=partitions is None and since is None)
    to = _published_name(cursor)
    cursor.end()
    found = target.analyze(table, request, partitions=partitions, since=since, on_progress=statement.on_progress)
    if to is None:
        return _answer(found)
    [row] = target.procedures.call("metastore.system.publish_table", table=str(found.table), to=to).to_pylist()
    return _answer(found, f"{row['outcome']}: {to} publishes {row['files']} files")


def _is_of_catalog(target: StatementTarget, table: TableInfo) -> bool:
    catalogs = {name.lower() for name in target.catalogs.names()}
    return table.storage_plugin not in target.settings.storage and table.storage_plugin.lower() in catalogs


def _of_catalog(target: StatementTarget, cursor: Cursor, table: TableInfo) -> pa.Table:
    """Read the rest of the statement on a catalog's table, and run it."""
    columns = None
    if cursor.accept_word("WITH"):
        cursor.expect(TokenType.L_PAREN, "(")
        cursor.expect_word("COLUMNS")
        cursor.expect(TokenType.EQ, "=")
        columns = constant(cursor)
        cursor.expect(TokenType.R_PAREN, ")")
    elif cursor.accept_words("COMPUTE", "STATISTICS"):
        named = _columns_of_for(cursor)
        columns = None if named is None else [".".join(parts) for parts in named]
    elif cursor.token is not None:
        raise cursor.expectation_error("COMPUTE STATISTICS or WITH (columns = …), as for tables of catalogs,")
    cursor.end()
    schema, _, own = f"{table.workspace}.{table.name}".rpartition(".")
    procedure = f"{table.storage_plugin}.system.compute_table_stats"
    return target.procedures.call(procedure, schema=schema, table_name=own, columns=columns)


def _columns_of_for(cursor: Cursor) -> list[ColumnPath] | None:
    """The columns of ``FOR COLUMNS a, …``; None for ``FOR ALL COLUMNS``, or without FOR."""
    if not cursor.accept_word("FOR") or cursor.accept_words("ALL", "COLUMNS"):
        return None
    cursor.expect_word("COLUMNS")
    return cursor.list_of(lambda: _column(cursor))


def _column(cursor: Cursor) -> ColumnPath:
    return tuple(name.text for name in cursor.names("the name of a column"))


def _published_name(cursor: Cursor) -> str | None:
    if not cursor.accept_word("PUBLISH"):
        return None
    cursor.expect_word("AS")
    return ".".join(name.text for name in cursor.names("catalog.schema.table"))


def _partitions(cursor: Cursor) -> tuple[list[dict[str, str]] | None, dict[str, str] | None]:
    """The values of each partition that is named, and the least values, by column; None without any."""
    if not cursor.accept_word("PARTITION"):
        return None, None
    partitions: list[dict[str, str]] = []
    bounds: list[dict[str, str]] = []
    while True:
        values, since = _partition(cursor)
        if bounds and since != bounds[0]:
            raise cursor.expectation_error("the same >= in every partition")
        partitions.append(values)
        bounds.append(since)
        if not cursor.accept(TokenType.COMMA):
            break
    return partitions if any(partitions) else None, bounds[0] or None


def _partition(cursor: Cursor) -> tuple[dict[str, str], dict[str, str]]:
    values: dict[str, str] = {}
    since: dict[str, str] = {}
    cursor.expect(TokenType.L_PAREN, "(")
    while True:
        column = cursor.name("the column of a directory").text
        chosen = since if cursor.accept(TokenType.GTE) else values
        if chosen is values:
            cursor.expect(TokenType.EQ, "= or >=")
        if column in chosen:
            raise cursor.expectation_error(f"{column} once")
        chosen[column] = _option_value(cursor)
        if cursor.accept(TokenType.R_PAREN):
            return values, since
        cursor.expect(TokenType.COMMA, ", or )")


def _request(cursor: Cursor, *, needs_words: bool = True) -> AnalyzeRequest:
    """The request that the rest of the statement states; ``needs_words`` if it must say what to compute."""
    options = _options(cursor)
    columns = _columns(cursor)
    bounds = _bounds(cursor)
    refreshes = cursor.accept_word("REFRESH")
    level = _level(cursor) if refreshes else MetadataType.ROW_GROUP.value
    bounds = bounds or _bounds(cursor)
    statistics: list[str] | bool = False
    if cursor.accept_words("COMPUTE", "STATISTICS") or cursor.accept_words("ESTIMATE", "STATISTICS"):
        if cursor.ahead(TokenType.L_PAREN):
            statistics = _paths(cursor)
        else:
            named = _columns_of_for(cursor)
            statistics = True if named is None else list(map(quote, named))
    elif not refreshes and bounds is None and needs_words:
        raise cursor.expectation_error("REFRESH METADATA, COMPUTE STATISTICS, ESTIMATE STATISTICS or DROP METADATA")
    sample = _sample(cursor) if statistics is not False else None
    bounds = bounds or _bounds(cursor)
    case_sensitive = options.get("CASE_SENSITIVE")
    text = {name.lower(): value for name, value in options.items() if name not in _OF_TABLE}
    return AnalyzeRequest(
        columns=columns,
        level=level,
        statistics=statistics,
        sample=sample,
        format=options.get("FORMAT"),
        schema=options.get("SCHEMA"),
        options=text or None,
        bounds=bounds or options.get("BOUNDS"),
        case_sensitive=None if case_sensitive is None else case_sensitive == "TRUE",
    )


def _table(target: StatementTarget, cursor: Cursor) -> TableInfo | str:
    names = cursor.table()
    with cursor.statement.at(names[0].token):
        path = path_named(target.settings.storage, [name.text for name in names])
    if path is not None:
        return path
    parts = target.catalogs.full([name.text for name in names])
    if len(parts) < 3:
        raise cursor.statement.error("a table is named plugin.workspace.table", names[0].token)
    return TableInfo(parts[0], parts[1], ".".join(parts[2:]))


def _options(cursor: Cursor) -> dict[str, str]:
    """``(name => value, …)`` by names in upper case; an error at the second of one name. Empty without a bracket."""
    options: dict[str, str] = {}
    if not cursor.accept(TokenType.L_PAREN):
        return options
    while True:
        word = cursor.word
        if word in options or not (word in _OF_TABLE or is_option(word)):
            raise cursor.expectation_error(
                "FORMAT, SCHEMA, BOUNDS, CASE_SENSITIVE or an option of text (DELIMITER, HEADER …), each once,"
            )
        cursor.advance()
        cursor.expect(TokenType.FARROW, "=>")
        if word == "CASE_SENSITIVE":
            options[word] = next((flag for flag in ("TRUE", "FALSE") if cursor.accept_word(flag)), "")
            if not options[word]:
                raise cursor.expectation_error("TRUE or FALSE")
        else:
            options[word] = _option_value(cursor)
        if cursor.accept(TokenType.R_PAREN):
            return options
        cursor.expect(TokenType.COMMA, ", or )")


def _option_value(cursor: Cursor) -> str:
    if cursor.ahead(TokenType.STRING) or cursor.ahead(TokenType.NUMBER):
        return cursor.advance().text
    if cursor.word in ("TRUE", "FALSE"):
        return cursor.advance().text
    return cursor.expect(TokenType.STRING, "a text in quotes, a number, TRUE or FALSE").text


def _columns(cursor: Cursor) -> list[str] | None:
    if not cursor.accept_word("COLUMNS"):
        return None
    return [] if cursor.accept_word("NONE") else _paths(cursor)


def _paths(cursor: Cursor) -> list[str]:
    cursor.expect(TokenType.L_PAREN, "(")
    paths = cursor.list_of(lambda: quote(_column(cursor)))
    cursor.expect(TokenType.R_PAREN, ", or )")
    return paths


def _bounds(cursor: Cursor) -> list[str] | None:
    return _paths(cursor) if cursor.accept_word("BOUNDS") else None


_OF_TABLE: Final = ("FORMAT", "SCHEMA", "BOUNDS", "CASE_SENSITIVE")
"""Options of ANALYZE that do not describe delimited text."""


def _level(cursor: Cursor) -> str:
    cursor.expect_word("METADATA")
    if not cursor.ahead(TokenType.STRING):
        return MetadataType.ROW_GROUP.value
    level = cursor.advance().text
    cursor.expect_word("LEVEL")
    return level


def _sample(cursor: Cursor) -> float | None:
    if not cursor.accept_word("SAMPLE"):
        return None
    percent = float(cursor.expect(TokenType.NUMBER, "a number").text)
    cursor.expect_word("PERCENT")
    return percent


def _answer(result: AnalyzeResult, *notes: str) -> pa.Table:
    done = "is up to date" if result.status == "up to date" else f"analyzed: {result.files:,} files"
    row: dict[str, Any] = {"ok": True, "summary": f"{result.table} {done}", **vars(result)}
    row["seconds"] = round(result.seconds, 3)
    unskipped = (f"{name} cannot skip files: {reason}" for name, reason in result.without_bounds.items())
    row["notes"] = [*unskipped, *notes]
    return pa.Table.from_pylist([{name: row[name] for name in ANSWER.names}], ANSWER)


def _answer_drop(table: TableInfo | str, *, dropped: bool) -> pa.Table:
    summary = f"metadata of {table} dropped" if dropped else f"there was no metadata of {table}"
    return pa.Table.from_pylist([{"ok": dropped, "summary": summary}], DROPPED)


HANDLERS: Final = {("ANALYZE", "TABLE"): analyze, ("ANALYZE",): analyze}
"""Handlers by the first words of their statements."""
