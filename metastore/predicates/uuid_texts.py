"""Texts beside UUIDs in a condition, for engines that would compare the text's own bytes.

Place in the flow: Spark and DuckDB run a condition of a scan that Arrow cannot. The plan has refused a text that is no
UUID (:mod:`metastore.predicates.literals`).
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from sqlglot import exp

from metastore.predicates.columns import Columns
from metastore.predicates.literals import UUIDS


def with_uuids(tree: exp.Expr, columns: Columns, made: Callable[[UUID], exp.Expr]) -> exp.Expr | None:
    """Returns ``tree`` with ``made`` UUIDs for texts beside columns of UUIDs; None if there are none."""
    changed = tree.copy()
    beside = [
        literal
        for column in changed.find_all(exp.Column)
        if column.parent is not None and _is_of_uuids(column, columns)
        for literal in column.parent.iter_expressions()
        if isinstance(literal, exp.Literal) and literal.is_string
    ]
    for literal in beside:
        literal.replace(made(UUID(literal.name)))
    return changed if beside else None


def _is_of_uuids(column: exp.Column, columns: Columns) -> bool:
    found = columns.resolve(tuple(part.name for part in column.parts), "")
    return found.logical == UUIDS and found.type.name == "VARBINARY"
