"""The private names of PyIceberg that this package leans on, in one place; a test fails when one changes.

``_InclusiveMetricsEvaluator`` tells from a manifest entry's counts and bounds whether its file can hold a matching row.
PyIceberg has no public form of it, and a second implementation here would be one to keep right.
"""

from __future__ import annotations

from collections.abc import Callable

from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import _InclusiveMetricsEvaluator
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema


def metrics_evaluator(schema: Schema, expression: BooleanExpression) -> Callable[[DataFile], bool]:
    """A test of data files: False only when no row of the file can match ``expression``."""
    return _InclusiveMetricsEvaluator(schema, expression, case_sensitive=True).eval
