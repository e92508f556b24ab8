"""The leaves of a condition, however the question was asked: made in one place, with notes on what was not usable.

The two readers (:mod:`metastore.predicates.sql_predicate`, :mod:`metastore.predicates.iceberg_predicate`) carry NOT
down to the leaves and then call here, so both reason about types, NaN and nulls alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import tzinfo
from typing import Final

from pyiceberg.expressions import AlwaysTrue, BooleanExpression, IsNaN, IsNull, NotNull, NotStartsWith, StartsWith

from metastore.predicates.columns import PredicateColumn
from metastore.predicates.literals import comparison, membership, widening_of
from metastore.predicates.recurring import Recurring
from metastore.predicates.time_spans import Literal

_LONGEST: Final = 300
"""Letters of a part of a condition that a note shows."""


@dataclass
class Leaves:
    """Makes the leaves of a condition, and remembers which columns they name and what was not usable."""

    zone: tzinfo | None
    columns: dict[str, PredicateColumn] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    """The parts that exclude nothing, or less than they could."""

    exact: bool = True
    """Whether the rows that pass the condition are those that pass the question, and no others."""

    def unknown(self, text: str, why: str = "") -> BooleanExpression:
        """A leaf that says nothing; ``why`` it does is for the note."""
        self._note_unusable(text, why)
        return AlwaysTrue()

    def implied(self, condition: BooleanExpression) -> BooleanExpression:
        """``condition`` in place of a test that it follows from: more rows may pass than pass the test."""
        self.exact = False
        return condition

    def compare(
        self, column: PredicateColumn, operator: str, literal: Literal, text: str, *, inverted: bool
    ) -> BooleanExpression:
        """``column operator literal``, under NOT if ``inverted``; ``text`` is what a note would show."""
        understood = comparison(self._remembered(column), operator, literal, self.zone, inverted=inverted)
        self.exact &= understood.exact
        self._note_widening(column, literal, text)
        return self._checked(understood.condition, column, text, usable=understood.usable)

    def contain(
        self, column: PredicateColumn, literals: Iterable[Literal], text: str, *, inverted: bool
    ) -> BooleanExpression:
        """``column IN (literals)`` with at least one literal."""
        literals = list(literals)
        understood = membership(self._remembered(column), literals, self.zone, inverted=inverted)
        self.exact &= understood.exact
        if literals:
            self._note_widening(column, literals[0], text)
        return self._checked(understood.condition, column, text, usable=understood.usable)

    def start_with(self, column: PredicateColumn, prefix: str, *, inverted: bool) -> BooleanExpression:
        """``column LIKE 'prefix%'``."""
        key = self._remembered(column).key
        if column.type.name != "VARCHAR" or not column.usable:
            return self._checked(NotNull(key), column, f"a prefix of {'.'.join(column.path)}", usable=False)
        return NotStartsWith(key, prefix) if inverted else StartsWith(key, prefix)

    def may_match(self, column: PredicateColumn, prefix: str) -> BooleanExpression:
        """What ``column LIKE pattern`` asks at least, of a pattern that begins with ``prefix`` and asks for more."""
        self.exact = False
        return self.start_with(column, prefix, inverted=False)

    def is_null(self, column: PredicateColumn, *, inverted: bool) -> BooleanExpression:
        """``column IS NULL``."""
        key = self._remembered(column).key
        if not column.usable:
            return self._checked(AlwaysTrue(), column, f"{'.'.join(column.path)} IS NULL", usable=False)
        return NotNull(key) if inverted else IsNull(key)

    def is_nan(self, column: PredicateColumn, *, inverted: bool) -> BooleanExpression:
        """``isnan(column)``; the inverse holds for every other value."""
        key = self._remembered(column).key
        return self._checked(NotNull(key) if inverted else IsNaN(key), column, "NaN", usable=True)

    def recurs(self, column: PredicateColumn, part: str, values: tuple[int, ...], text: str) -> BooleanExpression:
        """``month(column) IN (values)`` or another ``part`` of the calendar."""
        test = Recurring(self._remembered(column).key, part, values, self.zone)
        return self._checked(test, column, text, usable=True)

    def not_null(self, column: PredicateColumn, text: str, why: str = "") -> BooleanExpression:
        """All that is left of a comparison that cannot be used: no comparison passes a null."""
        return self._checked(NotNull(self._remembered(column).key), column, text, usable=False, why=why)

    def _remembered(self, column: PredicateColumn) -> PredicateColumn:
        self.columns[column.key] = column
        return column

    def _checked(
        self, condition: BooleanExpression, column: PredicateColumn, text: str, *, usable: bool, why: str = ""
    ) -> BooleanExpression:
        if not column.usable:
            why = f"engines may see other values in the column {'.'.join(column.path)}"
        if not usable or not column.usable:
            self._note_unusable(text, why or f"engines may differ in what it means beside {column.type}")
        return condition if column.usable else AlwaysTrue()

    def _note_unusable(self, text: str, why: str) -> None:
        text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
        self.unusable.append(text)
        self.exact = False
        self._note(f"not usable for pruning: {text}" + (f" ({why})" if why else ""))

    def _note_widening(self, column: PredicateColumn, literal: Literal, text: str) -> None:
        if (why := widening_of(column, literal, self.zone)) is not None:
            self._note(f"{text}: the time is {why}")

    def _note(self, note: str) -> None:
        if note not in self.notes:
            self.notes.append(note)
