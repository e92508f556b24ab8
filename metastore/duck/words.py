"""Fragments of DuckDB's SQL, combined as trees."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

AS_DUCKDB: Final = "in DuckDB's words"
"""Marks a cast that is already in DuckDB's SQL, and is printed unchanged."""


def phrase(template: str, **parts: exp.Expr) -> exp.Expr:
    """Returns ``template`` in DuckDB's SQL, with ``parts`` for the names ``:name`` in it."""
    made: exp.Expr = exp.maybe_parse(template, dialect="duckdb")
    for cast in made.find_all(exp.Cast):
        cast.meta[AS_DUCKDB] = True
    return exp.replace_placeholders(made, **parts)
