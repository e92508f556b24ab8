"""Translates Spark's expressions for DuckDB with the same meaning, or refuses them.

Place in the flow: every expression in Spark's SQL that DuckDB runs is translated here before it is printed: ``where``
of scans, views in ``ms.sql``, queries of materialized views. sqlglot translates names and syntax; this module handles
expressions whose meaning differs. An expression without a counterpart raises InvalidRequestError, and so does each
function that is not known to mean the same.

DuckDB's types are not known here, so decisions that depend on them are made by ``typeof`` while the query runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.generators.duckdb import DuckDBGenerator

from metastore.duck.fine_times import cast_of_constant, with_nanoseconds
from metastore.duck.floats_as_doubles import (
    combining_floats_as_doubles,
    uniting_floats_as_doubles,
    with_floats_as_doubles,
)
from metastore.duck.mixed_kinds import (
    SYMBOLS,
    between,
    check_arithmetic,
    check_set_operation,
    compare_values,
    compare_with_list,
    guard_division,
    translate_case,
)
from metastore.duck.nested_values import comparing_by_place, comparing_plain
from metastore.duck.spark_casts import cast_as_spark, text_of
from metastore.duck.spark_function_words import FUNCTION_WORDS
from metastore.duck.spark_functions import refusal, require_known
from metastore.duck.value_kinds import INSTANTS, TEXTS, kind_of, mark_as
from metastore.duck.words import AS_DUCKDB
from metastore.errors import InvalidRequestError


class SparkInDuckDb(DuckDB):
    """DuckDB's dialect for Spark's trees: casts that sqlglot puts around dates and times follow Spark's grammar."""

    class Generator(DuckDBGenerator):
        """Prints such trees."""

        def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
            """Prints a cast in DuckDB's SQL as it is, and any other cast with Spark's meaning."""
            if expression.meta.get(AS_DUCKDB) or expression.to.this not in _DAYS_AND_TIMES:
                as_it_is: str = super().cast_sql(expression, safe_prefix=safe_prefix)
                return as_it_is
            as_spark: str = self.sql(cast_as_spark(expression))
            return as_spark


_Tree = TypeVar("_Tree", bound=exp.Expr)

_DAYS_AND_TIMES: Final = INSTANTS | {exp.DType.DATE, exp.DType.TIMESTAMPNTZ}
_MISSING: Final = re.compile(r'Function with name "?(\w+)"? does not exist')


def in_duckdbs_words(tree: _Tree) -> _Tree:
    """Returns ``tree``, of Spark's dialect, rewritten so that DuckDB's result is Spark's; ``tree`` does not change.

    Raises InvalidRequestError for an expression that has another meaning in DuckDB and no translation.
    """
    translated: Any = tree.copy()
    # Bottom-up, so that added nodes are not translated again.
    for node in reversed(list(translated.bfs())):
        say = _WORDS.get(type(node))
        if say is None and isinstance(node, exp.Func):
            require_known(node)
        words = node if say is None else say(node)
        if words is not node:
            mark_as(words, node)
            node.replace(words)
            translated = words if node is translated else translated
    result: _Tree = translated
    return result


def missing_function(message: str) -> InvalidRequestError | None:
    """Returns the error for a function of Spark's that DuckDB lacks; None if ``said`` is another error."""
    found = _MISSING.search(message)
    return None if found is None else refusal(f"{found[1]}()")


def _like(node: exp.Like | exp.ILike) -> exp.Expr:
    """Spark's LIKE uses the backslash as escape character; DuckDB's has none unless it is named, and requires text."""
    words = node.copy()
    if isinstance(words.expression, (exp.Any, exp.All)):
        patterns = words.expression.this.expressions or [words.expression.this.unnest()]
        each = [node.copy() for _ in patterns]
        for one, pattern in zip(each, patterns, strict=True):
            one.set("expression", pattern.copy())
        return exp.paren((exp.or_ if isinstance(words.expression, exp.Any) else exp.and_)(*map(_like, each)))
    if kind_of(words.this) not in TEXTS and not words.this.is_type(exp.DType.TEXT):
        words.set("this", exp.Paren(this=text_of(words.this)))
    if isinstance(node.parent, exp.Escape):
        return words
    return exp.Escape(this=words, expression=exp.Literal.string("\\"))


def _grouping(node: exp.Group) -> exp.Expr:
    """WITH CUBE and WITH ROLLUP apply to all grouping expressions; DuckDB only has the forms in brackets."""
    for part, kind in (("cube", exp.Cube), ("rollup", exp.Rollup)):
        if any(not each.expressions for each in node.args.get(part) or ()):
            return exp.Group(expressions=[kind(expressions=[each.copy() for each in node.expressions])])
    return node


_equal: Final = comparing_by_place(with_nanoseconds(with_floats_as_doubles(compare_values)))
_ordered: Final = comparing_plain(with_nanoseconds(with_floats_as_doubles(compare_values)))

_WORDS: Final[Mapping[type[exp.Expr], Callable[[Any], exp.Expr]]] = {
    **FUNCTION_WORDS,
    exp.Like: _like,
    exp.ILike: _like,
    exp.Cast: cast_of_constant,
    exp.TryCast: cast_of_constant,
    **dict.fromkeys(SYMBOLS, _equal),
    **dict.fromkeys((exp.LT, exp.LTE, exp.GT, exp.GTE), _ordered),
    exp.In: comparing_by_place(with_nanoseconds(with_floats_as_doubles(compare_with_list))),
    exp.Between: between(_ordered),
    exp.Case: combining_floats_as_doubles(translate_case),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul), combining_floats_as_doubles(check_arithmetic)),
    **dict.fromkeys((exp.Div, exp.Mod), combining_floats_as_doubles(guard_division)),
    **dict.fromkeys((exp.Union, exp.Intersect, exp.Except), uniting_floats_as_doubles(check_set_operation)),
    exp.Group: _grouping,
}
