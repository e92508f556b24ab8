"""Translates a condition's syntax tree to conditions on columns; all entry points share this translation.

NOT is pushed down to the leaves. A comparison of a column with a constant is a leaf. A function of a column compared
with a constant is unwrapped (:mod:`metastore.predicates.unwrapping`). Anything else is left out, with a note that gives
the reason.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression, Or
from sqlglot import exp

from metastore.errors import InvalidRequestError
from metastore.predicates.columns import Columns, PredicateColumn
from metastore.predicates.condition import ARGUMENTS, COMPARISONS, MIRRORED, Condition, has_unknown_arguments
from metastore.predicates.constants import Constants, NotConstant
from metastore.predicates.containers import Containers
from metastore.predicates.function_of_column import Comparison, constant_comparison
from metastore.predicates.leaves import Leaves
from metastore.predicates.spark_sql import NESTED
from metastore.predicates.time_spans import Literal
from metastore.predicates.unwrapping import Unwrapping


def translate(condition: Condition, columns: Columns, leaves: Leaves) -> BooleanExpression:
    """Translates ``condition``; raises InvalidRequestError for an unknown column, with its position."""
    try:
        return _Translator(condition, columns, leaves).translate()
    except RecursionError as error:
        raise InvalidRequestError(NESTED) from error


_LIKE_SPECIAL: Final = "%_\\"
_MOST_UNWRAPPED: Final = 1000
"""Most values of an IN over a function that are unwrapped one by one."""

_MOST_SHOWN: Final = 100
"""Most values of an IN that a note shows; with more, it names the column."""


class _Translator:
    def __init__(self, condition: Condition, columns: Columns, leaves: Leaves) -> None:
        self._asked_condition = condition
        self._columns = columns
        self._leaves = leaves
        self._constants = Constants(condition, leaves.zone)
        self._containers = Containers(condition, self._column, self._constants, leaves)
        self._unwrapping = Unwrapping(condition.dialect, self._column, self._constants, leaves)

    def translate(self) -> BooleanExpression:
        # A mistyped name is an error anywhere; inside a subquery, names belong to other tables.
        if not self._asked_condition.of_query:
            for node in self._asked_condition.tree.walk(prune=lambda each: isinstance(each, exp.Query)):
                if isinstance(node, exp.Column):
                    self._resolve(node)
        return self._condition(self._asked_condition.tree, inverted=False)

    def _condition(self, node: exp.Expr, *, inverted: bool) -> BooleanExpression:
        """The condition of any node; where a constant cannot be read, only what NULL rules out remains."""
        while isinstance(node, exp.Paren) and not has_unknown_arguments(node):
            node = node.this
        inverted = inverted is not bool(node.args.get("negate"))
        if not inverted and (held := self._containers.test(node, self._text_of(node))) is not None:
            return held
        if (why := _why_unread(node)) is not None:
            return self._leaves.unknown(self._text_of(node), why)
        try:
            if isinstance(node, exp.Not):
                return self._condition(node.this, inverted=not inverted)
            if isinstance(node, (exp.And, exp.Or)):
                return self._junction(node, inverted=inverted)
            if isinstance(node, exp.Boolean):
                return AlwaysTrue() if node.this is not inverted else AlwaysFalse()
            if isinstance(node, exp.Null):
                return AlwaysFalse()
            return self._leaf(node, inverted=inverted)
        except NotConstant as reason:
            compared = node.this if isinstance(node, exp.Escape) else node
            column = self._column(compared.this) if _never_passes_null(compared) else None
            if column is None and isinstance(compared, (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)):
                column = self._column(compared.expression)
            if column is None and self._is_of_others(node):
                return AlwaysTrue()
            if column is None:
                return self._leaves.unknown(self._text_of(node), str(reason))
            return self._leaves.not_null(column, self._text_of(node), str(reason))

    def _is_of_others(self, node: exp.Expr) -> bool:
        """Whether ``node`` names only columns of the query's other tables, and so says nothing about this one."""
        columns = list(node.find_all(exp.Column))
        return self._asked_condition.of_query and bool(columns) and all(self._column(each) is None for each in columns)

    def _junction(self, node: exp.And | exp.Or, *, inverted: bool) -> BooleanExpression:
        parts = [self._condition(part, inverted=inverted) for part in node.flatten()]
        return And(*parts) if isinstance(node, exp.And) is not inverted else Or(*parts)

    def _leaf(self, node: exp.Expr, *, inverted: bool) -> BooleanExpression:
        """The condition of a test without AND, OR or NOT. NotConstant if no rule reads it."""
        if isinstance(node, (exp.Column, exp.Dot)):
            return self._boolean(self._required_column(node), inverted=inverted)
        if operator := COMPARISONS.get(type(node)):
            return self._comparison(node, operator, inverted=inverted)
        if isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ)):
            return self._null_safe(node, inverted=inverted is not isinstance(node, exp.NullSafeNEQ))
        if isinstance(node, exp.Is):
            return self._is(node, inverted=inverted)
        if isinstance(node, exp.In) and node.expressions and not node.args.get("query"):
            return self._in(node, inverted=inverted)
        if isinstance(node, exp.Between) and not node.args.get("symmetric"):
            return self._between(node, inverted=inverted)
        if isinstance(node, exp.Escape):
            # NOT LIKE … ESCAPE has its NOT inside.
            inverted = inverted is not bool(node.this.args.get("negate"))
            return self._like(node.this, self._constants.value(node.expression), inverted=inverted)
        if isinstance(node, exp.Like):
            return self._like(node, "", inverted=inverted)
        if (test := self._unwrapping.test(node, self._text_of(node), inverted=inverted)) is not None:
            return test
        raise NotConstant(_what(node))

    def _boolean(self, column: PredicateColumn, *, inverted: bool) -> BooleanExpression:
        return self._leaves.compare(column, "=", True, ".".join(column.path), inverted=inverted)

    def _comparison(self, node: exp.Expr, operator: str, *, inverted: bool) -> BooleanExpression:
        left, right = node.this.unnest(), node.expression.unnest()
        column, other = self._column(left), right
        if column is None and (mirrored := self._column(right)) is not None:
            column, other, operator = mirrored, left, MIRRORED[operator]
        if column is not None:
            return self._compare_column(column, operator, other, self._text_of(node), inverted=inverted)
        try:
            literal, subject = self._constants.value(right), left
        except NotConstant:
            literal, subject, operator = self._constants.value(left), right, MIRRORED[operator]
        if literal is None:
            return AlwaysFalse()  # neither a comparison with NULL nor its negation is ever true
        return self._unwrap_subject(subject, operator, literal, self._text_of(node), inverted=inverted)

    def _compare_column(
        self, column: PredicateColumn, operator: str, other: exp.Expr, text: str, *, inverted: bool
    ) -> BooleanExpression:
        literal = self._constants.value(other)
        if literal is None:
            return AlwaysFalse()
        return self._leaves.compare(column, operator, literal, text, inverted=inverted)

    def _unwrap_subject(
        self, subject: exp.Expr, operator: str, literal: Literal, text: str, *, inverted: bool
    ) -> BooleanExpression:
        """The condition for ``subject operator literal``, if ``subject`` is not a column."""
        try:
            constant = self._constants.value(subject)
        except NotConstant:
            comparison = Comparison(operator, literal, text, inverted=inverted)
            found = self._unwrapping.comparison(subject, comparison)
            if found is None:
                raise NotConstant(_what(subject)) from None
            return found
        if constant is None:
            return AlwaysFalse()
        holds = constant_comparison(constant, operator, literal)
        if holds is None:
            raise NotConstant("constants of different types are compared")
        return AlwaysTrue() if holds is not inverted else AlwaysFalse()

    def _null_safe(self, node: exp.Expr, *, inverted: bool) -> BooleanExpression:
        column = self._required_column(node.this)
        literal = self._constants.value(node.expression)
        if literal is None:
            return self._leaves.is_null(column, inverted=inverted)
        return self._or_null(
            self._leaves.compare(column, "=", literal, self._text_of(node), inverted=inverted),
            column,
            inverted=inverted,
        )

    def _is(self, node: exp.Is, *, inverted: bool) -> BooleanExpression:
        column = self._required_column(node.this)
        if isinstance(node.expression, exp.Null):
            return self._leaves.is_null(column, inverted=inverted)
        if not isinstance(node.expression, exp.Boolean):
            raise NotConstant(_what(node.expression))
        asked = self._leaves.compare(column, "=", bool(node.expression.this), self._text_of(node), inverted=inverted)
        return self._or_null(asked, column, inverted=inverted)

    def _or_null(self, condition: BooleanExpression, column: PredicateColumn, *, inverted: bool) -> BooleanExpression:
        """``IS NOT TRUE`` and ``IS DISTINCT FROM`` are true for nulls, unlike the comparisons they negate."""
        return Or(condition, self._leaves.is_null(column, inverted=False)) if inverted else condition

    def _in(self, node: exp.In, *, inverted: bool) -> BooleanExpression:
        """IN as one leaf if all values are compared alike, else as comparisons; NOT IN with a NULL is never true."""
        column = self._column(node.this)
        literals = [self._constants.value(item) for item in node.expressions]
        present = [literal for literal in literals if literal is not None]
        # NOT IN with a NULL among the values is never true; IN ignores it.
        if not present or (inverted and len(present) < len(literals)):
            return AlwaysFalse()
        text = self._text_of(node if len(present) <= _MOST_SHOWN else node.this)
        if column is not None and not self._takes_one_by_one(column, present):
            return self._leaves.contain(column, present, text, inverted=inverted)
        if len(present) > _MOST_UNWRAPPED:
            raise NotConstant(f"a function is compared with more than {_MOST_UNWRAPPED} values")
        if column is not None:
            parts = [self._leaves.compare(column, "=", each, text, inverted=inverted) for each in present]
        else:
            subject = node.this.unnest()
            parts = [self._unwrap_subject(subject, "=", each, text, inverted=inverted) for each in present]
        if len(parts) == 1:
            return parts[0]
        return And(*parts) if inverted else Or(*parts)

    def _takes_one_by_one(self, column: PredicateColumn, literals: list[Literal]) -> bool:
        """Whether the dialect converts each text of a list to the column's type, regardless of the other values."""
        texts = all(isinstance(literal, str) for literal in literals)
        return self._asked_condition.of_query and texts and column.type.name == "TIMESTAMP"

    def _between(self, node: exp.Between, *, inverted: bool) -> BooleanExpression:
        column, text = self._column(node.this), self._text_of(node)
        ends = zip((">=", "<="), self._ends(node), strict=True)
        parts = [
            AlwaysFalse()
            if end is None
            else self._unwrap_subject(node.this.unnest(), operator, end, text, inverted=inverted)
            if column is None
            else self._leaves.compare(column, operator, end, text, inverted=inverted)
            for operator, end in ends
        ]
        return Or(*parts) if inverted else And(*parts)

    def _ends(self, node: exp.Between) -> list[Literal | None]:
        """The ends of BETWEEN, as numbers of one type if the dialect makes them so: DOUBLE rounds the other end."""
        ends = [self._constants.value(node.args[end]) for end in ("low", "high")]
        kinds = {type(end) for end in ends if end is not None}
        if not self._asked_condition.dialect.between_has_one_type or float not in kinds or len(kinds) == 1:
            return ends
        if not kinds <= {int, Decimal, float}:
            raise NotConstant("the ends of BETWEEN are of different types")
        try:
            return [end if end is None else float(end) for end in ends]  # type: ignore[arg-type]  # see kinds
        except OverflowError as error:
            raise NotConstant("the number is beyond DOUBLE") from error

    def _like(self, node: exp.Expr, escape: Literal | None, *, inverted: bool) -> BooleanExpression:
        """LIKE by the prefix before its first wildcard or escape; NotConstant where a prefix says nothing."""
        column = self._required_column(node.this)
        pattern = self._constants.value(node.expression)
        # With any other type, the pattern is compared with the value's spelling, which differs between engines.
        if column.type.name != "VARCHAR" or not isinstance(pattern, str) or not isinstance(escape, str):
            raise NotConstant("only texts are compared with a pattern")
        # The escape character ends the usable prefix like a wildcard does: engines differ in their default for it.
        special = next((i for i, c in enumerate(pattern) if c in _LIKE_SPECIAL or c == escape), len(pattern))
        prefix, rest = pattern[:special], pattern[special:]
        if not rest:
            return self._leaves.compare(column, "=", pattern, self._text_of(node), inverted=inverted)
        if rest == "%" and escape != "%":
            return self._leaves.start_with(column, prefix, inverted=inverted)
        if inverted or not prefix:
            raise NotConstant("the pattern does not begin with letters that all matches share")
        return self._leaves.may_match(column, prefix)

    def _column(self, node: exp.Expr) -> PredicateColumn | None:
        node = node.unnest()
        return (
            self._resolve(node)
            if isinstance(node, (exp.Column, exp.Dot)) and self._asked_condition.path_of(node)
            else None
        )

    def _required_column(self, node: exp.Expr) -> PredicateColumn:
        column = self._column(node)
        if column is None:
            raise NotConstant(_what(node))
        return column

    def _resolve(self, node: exp.Expr) -> PredicateColumn | None:
        if self._asked_condition.of_query:
            try:
                return self._columns.resolve(self._asked_condition.path_of(node), "")
            except InvalidRequestError:  # a name of the query, not of this table
                return None
        while isinstance(node.parent, exp.Dot) and node.parent.this is node:
            node = node.parent
        path = self._asked_condition.path_of(node) or self._asked_condition.path_of(next(node.find_all(exp.Column)))
        start = next(node.find_all(exp.Column)).parts[0].meta.get("start")
        where = "" if start is None else f" at position {start + 1} of {self._asked_condition.quoted_text}"
        return self._columns.resolve(path, where)

    def _text_of(self, node: exp.Expr) -> str:
        return self._asked_condition.dialect.text_of(node)


def _why_unread(node: exp.Expr) -> str | None:
    """The reason why nothing is known of ``node``; None if it can be read."""
    if not isinstance(node, (exp.And, exp.Or, exp.Not)) and node.find(exp.Query) is not None:
        return "a subquery"
    if any(map(_compares_with_many, _own_nodes(node))):
        return "ANY and ALL compare with each value of a list, and with none of an empty one"
    if any(type(each) in ARGUMENTS and has_unknown_arguments(each) for each in _own_nodes(node)):
        return "its form is not supported here"
    return None


def _compares_with_many(node: exp.Expr) -> bool:
    """Whether ``node`` is ``ANY``, ``SOME`` or ``ALL``; such a comparison can be true beside a null, too."""
    return isinstance(node, (exp.Any, exp.All)) or (
        isinstance(node, exp.Anonymous) and node.name.lower() in ("all", "some")
    )


def _own_nodes(node: exp.Expr) -> list[exp.Expr]:
    """``node``; for a leaf (never with a subquery), also all nodes below it.

    Parts of AND, OR and NOT are visited separately.
    """
    if isinstance(node, (exp.And, exp.Or, exp.Not)):
        return [node]
    return list(node.walk())


def _what(node: exp.Expr) -> str:
    """Describes ``node``, as the reason why a comparison cannot prune."""
    node = node.unnest()
    if isinstance(node, (exp.Column, exp.Dot)):
        return "a column of another table, or a part of a list or map"
    if isinstance(node, (exp.ArrayContains, exp.MapContainsKey, exp.Bracket)):
        return "bounds of what a list or map holds cannot decide it"
    name = node.name if isinstance(node, exp.Anonymous) else type(node).__name__
    return f"{name.lower()} of a column is not unwrapped"


def _never_passes_null(node: exp.Expr) -> bool:
    """True if a null on the left makes ``node`` NULL; with a subquery it need not, since that may be empty."""
    if isinstance(node, exp.In):
        return bool(node.expressions)
    return isinstance(node, (*COMPARISONS, exp.Like, exp.ILike, exp.Between))
