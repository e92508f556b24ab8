"""Statements that users of other engines type: what to write in their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from metastore.sql.statement import Statement

_ALONE: Final = "each statement is a transaction of its own, and tables have branches for what is tried first"
_RIGHTS: Final = "the store and the catalog decide who may read and write"
_SETTINGS: Final = 'but for spark.wap.branch and spark.wap.id, settings are configuration: "metastore config" shows it'
_REWRITE: Final = "CALL catalog.system.rewrite_data_files(schema => …, table_name => …) writes small files together"
_EXPIRE: Final = "CALL catalog.system.expire_snapshots(…) and remove_orphan_files(…) delete files that nothing needs"
_FRESH: Final = "nothing is cached, and every statement reads the newest version"
_ONE_FORM: Final = "write EXPLAIN alone, or EXPLAIN ANALYZE, which runs the query"
_PROMPT: Final = 'the prompt of "metastore sql" takes it'
_TEMPORARY: Final = "write CREATE VIEW, or WITH before a query: there are no temporary views and tables"

WAYS: Final[Mapping[tuple[str, ...], str]] = {
    ("START", "TRANSACTION"): _ALONE,
    ("BEGIN",): _ALONE,
    ("COMMIT",): _ALONE,
    ("ROLLBACK",): _ALONE,
    ("REFRESH", "TABLE"): _FRESH,
    ("INVALIDATE", "METADATA"): _FRESH,
    ("UNCACHE", "TABLE"): _FRESH,
    ("CACHE", "TABLE"): "CREATE MATERIALIZED VIEW keeps the rows of a query",
    ("MSCK",): "ANALYZE TABLE name REFRESH METADATA finds new directories by itself",
    ("LOAD", "DATA"): "CALL …system.add_files adds files to a table, and ANALYZE TABLE reads files where they are",
    ("COPY",): 'CREATE TABLE … AS SELECT writes a table, and "metastore sql --csv" or ms.sql(…) returns rows',
    ("SHOW", "FILES"): 'the command "metastore files" lists a table\'s files, and SELECT "$path" reads them',
    ("SHOW", "TABLE"): "SHOW TABLES lists tables, and INFORMATION_SCHEMA.TABLES says more of each",
    ("SHOW", "CURRENT"): "SELECT current_catalog(), current_schema() shows what USE has chosen",
    ("SHOW", "SESSION"): _SETTINGS,
    ("SHOW", "GRANTS"): _RIGHTS,
    ("SHOW", "ROLES"): _RIGHTS,
    ("DESCRIBE", "DETAIL"): "DESCRIBE EXTENDED shows format, location and properties",
    ("DESCRIBE", "HISTORY"): 'SELECT * FROM "t$snapshots" lists the versions of a table of a catalog',
    ("DESCRIBE", "QUERY"): "SELECT … LIMIT 0 has the columns of a query",
    ("DESCRIBE", "FUNCTION"): "SHOW FUNCTIONS LIKE 'name' lists functions",
    ("EXPLAIN", "EXTENDED"): _ONE_FORM,
    ("EXPLAIN", "FORMATTED"): _ONE_FORM,
    ("EXPLAIN", "COST"): _ONE_FORM,
    ("EXPLAIN", "CODEGEN"): _ONE_FORM,
    ("GRANT",): _RIGHTS,
    ("REVOKE",): _RIGHTS,
    ("ALTER", "SESSION"): _SETTINGS,
    ("ALTER", "SYSTEM"): _SETTINGS,
    ("OPTIMIZE",): _REWRITE,
    ("VACUUM",): _EXPIRE,
    ("RESTORE",): "CALL catalog.system.rollback_to_snapshot('schema', 'table', id) goes back to a version",
    ("CREATE", "TEMPORARY"): _TEMPORARY,
    ("CREATE", "TEMP"): _TEMPORARY,
    ("CREATE", "EXTERNAL"): "ANALYZE TABLE knows files where they are, and CREATE TABLE makes an Iceberg table",
    ("CREATE", "FUNCTION"): "a view or a WITH clause holds an expression that is used again",
    ("PREPARE",): "each call of ms.sql(text) runs one statement; build the text before",
    ("EXECUTE",): "each call of ms.sql(text) runs one statement; build the text before",
    ("KILL",): "Ctrl-C ends a statement, and ms.sql(text, timeout='30 s') bounds its time",
    ("HELP",): _PROMPT,
    ("QUIT",): _PROMPT,
    ("EXIT",): _PROMPT,
}
"""First words of statements of other engines, and the way to what they do."""


def refusal(statement: Statement) -> str | None:
    """Returns why ``statement``, which another engine has, is refused, with the way to what it does; else None."""
    for words, way in WAYS.items():
        if statement.begins_with(words) and not _names_a_table(statement, words):
            return f"{' '.join(words)} is no statement here: {way}"
    if statement.word(0) == "EXPLAIN" and statement.word(1) == "" and statement.word(2) in {"TYPE", "FORMAT"}:
        return f"EXPLAIN ({statement.word(2)} …) is no statement here: {_ONE_FORM}"
    return None


def _names_a_table(statement: Statement, words: tuple[str, ...]) -> bool:
    """Whether the last of ``words`` is a table's name or its beginning, as in ``DESCRIBE history``."""
    after = statement.tokens[len(words) :]
    return words[0] == "DESCRIBE" and (not after or statement.source(after[0]) == ".")
