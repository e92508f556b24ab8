"""How to quote names and text in SQL, including those that contain quotes."""

from __future__ import annotations


def double_quoted(name: str) -> str:
    """Returns a name quoted for standard SQL and DuckDB."""
    return '"' + name.replace('"', '""') + '"'


def quote_for_spark(name: str) -> str:
    """Returns a name quoted for Spark."""
    return "`" + name.replace("`", "``") + "`"


def text_constant(text: str) -> str:
    """Returns a text in single quotes. For Spark it must not contain a backslash, which escapes characters there."""
    return "'" + text.replace("'", "''") + "'"
