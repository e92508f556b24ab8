"""How SQL writes a name or a text that may hold quotes itself."""

from __future__ import annotations


def double_quoted(name: str) -> str:
    """A name as standard SQL and DuckDB quote it."""
    return '"' + name.replace('"', '""') + '"'


def backticked(name: str) -> str:
    """A name as Spark quotes it."""
    return "`" + name.replace("`", "``") + "`"


def text_constant(text: str) -> str:
    """A text between single quotes. In Spark's dialect it must hold no backslash, which would escape there."""
    return "'" + text.replace("'", "''") + "'"
