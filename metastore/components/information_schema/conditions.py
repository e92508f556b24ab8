"""Translates conditions on INFORMATION_SCHEMA into conditions on the metadata units of its rows. Pure functions.

The translated condition holds for every unit with a matching row, and is as narrow as possible; the rows themselves are
tested afterwards. A condition on a column without a counterpart in the unit selects all units.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundEqualTo,
    BoundGreaterThan,
    BoundGreaterThanOrEqual,
    BoundIn,
    BoundLessThan,
    BoundLessThanOrEqual,
    BoundLiteralPredicate,
    BoundNotEqualTo,
    BoundNotIn,
    BoundPredicate,
    BoundSetPredicate,
    BoundStartsWith,
    BoundUnaryPredicate,
    EqualTo,
    GreaterThanOrEqual,
    LessThanOrEqual,
    Or,
    StartsWith,
)
from pyiceberg.expressions.visitors import rewrite_not
from pyiceberg.types import TimestamptzType

from metastore.components.information_schema.relation import SCHEMA_PARTS, Source, Value


def for_units(source: Source, condition: BooleanExpression) -> BooleanExpression:
    """Returns the condition on the units of ``source`` for ``condition``, which is bound to the relation's schema."""
    return _map_condition(source, rewrite_not(condition))


def _map_condition(source: Source, condition: BooleanExpression) -> BooleanExpression:
    if isinstance(condition, And):
        return And(_map_condition(source, condition.left), _map_condition(source, condition.right))
    if isinstance(condition, Or):
        return Or(_map_condition(source, condition.left), _map_condition(source, condition.right))
    if isinstance(condition, BoundPredicate):
        value = source.values.get(condition.term.ref().field.name)
        return AlwaysTrue() if value is None else _leaf(value, condition)
    return condition


def _leaf(value: Value, test: BoundPredicate) -> BooleanExpression:
    """The test of a column as a test of its unit's column; AlwaysTrue where the unit has no counterpart."""
    if value.constant is not None:
        return AlwaysTrue() if _holds(test, value.constant) else AlwaysFalse()
    if value.needs == SCHEMA_PARTS:
        return _of_schema(test)
    if value.same_as is None:
        return AlwaysTrue()
    if isinstance(test.term.ref().field.field_type, TimestamptzType):
        return _of_moment(value.same_as, test)
    unbound = cast("Any", test.as_unbound)
    if isinstance(test, BoundUnaryPredicate):
        return cast("BooleanExpression", unbound(value.same_as))
    if isinstance(test, BoundSetPredicate):
        return cast("BooleanExpression", unbound(value.same_as, {literal.value for literal in test.literals}))
    assert isinstance(test, BoundLiteralPredicate)
    return cast("BooleanExpression", unbound(value.same_as, test.literal.value))


def _holds(test: BoundPredicate, text: str) -> bool:
    """Returns whether ``test`` can hold for ``text``."""
    match test:
        case BoundEqualTo():
            return bool(test.literal.value == text)
        case BoundNotEqualTo():
            return bool(test.literal.value != text)
        case BoundStartsWith():
            return text.startswith(str(test.literal.value))
        case BoundIn():
            return any(literal.value == text for literal in test.literals)
        case BoundNotIn():
            return all(literal.value != text for literal in test.literals)
    return True


def _of_schema(test: BoundPredicate) -> BooleanExpression:
    """Translates a test of a schema's name.

    Several dots are ambiguous: ``a.b.c`` is ``a`` + ``b.c`` or ``a.b`` + ``c``.
    """
    plugin, workspace = SCHEMA_PARTS
    found: BooleanExpression = AlwaysFalse()
    match test:
        case BoundEqualTo() | BoundIn():
            literals = [test.literal] if isinstance(test, BoundEqualTo) else test.literals
            for literal in literals:
                for left, right in _splits(str(literal.value)):
                    found = Or(found, And(EqualTo(plugin, left), EqualTo(workspace, right)))
            return found
        case BoundStartsWith():
            prefix = str(test.literal.value)
            found = StartsWith(plugin, prefix)
            for left, right in _splits(prefix):
                found = Or(found, And(EqualTo(plugin, left), StartsWith(workspace, right)))
            return found
    return AlwaysTrue()


def _splits(name: str) -> Iterator[tuple[str, str]]:
    for position, character in enumerate(name):
        if character == ".":
            yield name[:position], name[position + 1 :]


def _of_moment(column: str, test: BoundPredicate) -> BooleanExpression:
    """Translates a test of a time from microseconds to milliseconds; literals are rounded so that no match is lost."""
    if not isinstance(test, BoundLiteralPredicate):
        return AlwaysTrue()
    micros = int(test.literal.value)
    down, up = micros // 1000, -(-micros // 1000)
    match test:
        case BoundLessThan() | BoundLessThanOrEqual():
            return LessThanOrEqual(column, down)
        case BoundGreaterThan() | BoundGreaterThanOrEqual():
            return GreaterThanOrEqual(column, up)
        case BoundEqualTo():
            return EqualTo(column, down) if down == up else AlwaysFalse()
    return AlwaysTrue()
