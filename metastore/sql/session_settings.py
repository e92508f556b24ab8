"""SET and RESET: where the statements of this session write tables with ``write.wap.enabled``.

::

    SET [SESSION] {spark.wap.branch | spark.wap.id} [= value]           -- without a value: show it
    RESET [SESSION] [{spark.wap.branch | spark.wap.id}]

The property ``write.wap.enabled`` of a table turns it on (:mod:`metastore.lake.writes.audit`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pyarrow as pa
from sqlglot import TokenType

from metastore.lake.writes.audit import Audit
from metastore.sql.statement import Cursor, Statement
from metastore.sql.target import StatementTarget

_KEYS: Final = {f"{prefix}.wap.{name}": name for prefix in ("spark", "write") for name in ("branch", "id")}
_OTHERS: Final = (
    "a session has spark.wap.branch and spark.wap.id; USE chooses a schema, ms.sql(text, timeout=…, memory=…) has "
    "limits, and the rest is configuration"
)


def set_value(target: StatementTarget, statement: Statement) -> pa.Table:
    """Change or show one setting, or show all; returns a row for each."""
    cursor = Cursor(statement, 1)
    key = _key(cursor)
    if key is None or cursor.token is None:
        cursor.end()
        return _show_settings(target, key)
    cursor.expect(TokenType.EQ, "=")
    first = cursor.advance()
    text = statement.text[first.start : statement.tokens[-1].end + 1]
    value = first.text if first.token_type in {TokenType.STRING, TokenType.IDENTIFIER} else text
    target.catalogs.audit = replace(target.catalogs.audit, **{_KEYS[key]: value})
    return _show_settings(target, key)


def reset(target: StatementTarget, statement: Statement) -> pa.Table:
    """Forget one setting, or all; returns a row for each."""
    cursor = Cursor(statement, 1)
    key = _key(cursor)
    cursor.end()
    kept = Audit() if key is None else replace(target.catalogs.audit, **{_KEYS[key]: None})
    target.catalogs.audit = kept
    return _show_settings(target, key)


def _key(cursor: Cursor) -> str | None:
    """Read ``[SESSION] [key]``. Raises InvalidRequestError for a key that is no setting."""
    cursor.accept_word("SESSION")
    if cursor.token is None:
        return None
    key = ".".join(name.text for name in cursor.names("a setting")).lower()
    if key not in _KEYS:
        statement = cursor.statement
        raise statement.error(f"{statement.word(0)} {key} is no statement here: {_OTHERS}", statement.tokens[0])
    return key


def _show_settings(target: StatementTarget, key: str | None) -> pa.Table:
    keys = [each for each in _KEYS if each.startswith("spark.")] if key is None else [key]
    values = [getattr(target.catalogs.audit, _KEYS[each]) for each in keys]
    return pa.table({"key": pa.array(keys, pa.string()), "value": pa.array(values, pa.string())})


HANDLERS: Final = {("SET",): set_value, ("RESET",): reset}
"""Handlers by the first words of their statements."""
