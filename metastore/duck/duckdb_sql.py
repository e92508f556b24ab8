"""DuckDB's dialect as sqlglot has it, with the one literal that it lacks: ``X'00ff'``, which DuckDB reads as bytes."""

from __future__ import annotations

from sqlglot.dialects.duckdb import DuckDB


class DuckDbSql(DuckDB):
    """Reads what DuckDB reads. Nothing is printed by it."""

    class Tokenizer(DuckDB.Tokenizer):
        """Knows bytes as hexadecimal digits."""

        HEX_STRINGS = [("x'", "'"), ("X'", "'")]  # noqa: RUF012 - sqlglot's own way to say it
