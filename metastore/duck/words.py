"""Pieces of SQL in DuckDB's words, put together as trees."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

AS_DUCKDB: Final = "in DuckDB's words"
"""Marks a cast that is in DuckDB's words, and is printed as it is."""


def phrase(template: str, **parts: exp.Expr) -> exp.Expr:
    """``template`` in DuckDB's words, with ``parts`` in the places of their names (``:name``)."""
    made: exp.Expr = exp.maybe_parse(template, dialect="duckdb")
    for cast in made.find_all(exp.Cast):
        cast.meta[AS_DUCKDB] = True
    return exp.replace_placeholders(made, **parts)
