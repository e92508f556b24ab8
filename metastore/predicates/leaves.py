"""Makes the leaves of a condition in one place for all kinds of questions, with notes on unusable parts.

Both readers (:mod:`metastore.predicates.sql_predicate`, :mod:`metastore.predicates.iceberg_predicate`) push NOT down to
the leaves and then call this module. Types, NaN and nulls are therefore treated alike.
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
"""Most letters of a part of a condition that a note shows."""


@dataclass
class Leaves:
    """Makes the leaves of a condition, and records the columns they name and the parts that were not usable."""

    zone: tzinfo | None
    columns: dict[str, PredicateColumn] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    unusable: list[str] = field(default_factory=list)
    """The parts that exclude nothing, or less than they could."""

    exact: bool = True
    """Whether the condition passes exactly the rows that pass the question."""

    def unknown(self, text: str, why: str = "") -> BooleanExpression:
        """A leaf that passes every row; ``why`` is the reason for the note."""
        self._note_unusable(text, why)
        return AlwaysTrue()

    def weaken_to(self, condition: BooleanExpression) -> BooleanExpression:
        """``condition`` instead of a test that implies it: more rows may pass than pass the test."""
        self.exact = False
        return condition

    def compare(
        self, column: PredicateColumn, operator: str, literal: Literal, text: str, *, inverted: bool
    ) -> BooleanExpression:
        """``column operator literal``, under NOT if ``inverted``; ``text`` is shown in notes."""
        understood = comparison(self._remember(column), operator, literal, self.zone, inverted=inverted)
        self.exact &= understood.exact
        self._note_widening(column, literal, text)
        return self._check_usable(understood.condition, column, text, usable=understood.usable)

    def contain(
        self, column: PredicateColumn, literals: Iterable[Literal], text: str, *, inverted: bool
    ) -> BooleanExpression:
        """``column IN (literals)`` with at least one literal."""
        literals = list(literals)
        understood = membership(self._remember(column), literals, self.zone, inverted=inverted)
        self.exact &= understood.exact
        if literals:
            self._note_widening(column, literals[0], text)
        return self._check_usable(understood.condition, column, text, usable=understood.usable)

    def start_with(self, column: PredicateColumn, prefix: str, *, inverted: bool) -> BooleanExpression:
        """``column LIKE 'prefix%'``."""
        key = self._remember(column).key
        if column.type.name != "VARCHAR" or not column.usable:
            return self._check_usable(NotNull(key), column, f"a prefix of {'.'.join(column.path)}", usable=False)
        return NotStartsWith(key, prefix) if inverted else StartsWith(key, prefix)

    def may_match(self, column: PredicateColumn, prefix: str) -> BooleanExpression:
        """The weaker condition for a ``column LIKE pattern`` that begins with ``prefix`` and asks for more."""
        self.exact = False
        return self.start_with(column, prefix, inverted=False)

    def is_null(self, column: PredicateColumn, *, inverted: bool) -> BooleanExpression:
        """``column IS NULL``."""
        key = self._remember(column).key
        if not column.usable:
            return self._check_usable(AlwaysTrue(), column, f"{'.'.join(column.path)} IS NULL", usable=False)
        return NotNull(key) if inverted else IsNull(key)

    def is_nan(self, column: PredicateColumn, *, inverted: bool) -> BooleanExpression:
        """``isnan(column)``; with ``inverted``, the condition passes every row that is not null."""
        key = self._remember(column).key
        return self._check_usable(NotNull(key) if inverted else IsNaN(key), column, "NaN", usable=True)

    def recurs(self, column: PredicateColumn, part: str, values: tuple[int, ...], text: str) -> BooleanExpression:
        """``month(column) IN (values)``, or another ``part`` of the calendar."""
        test = Recurring(self._remember(column).key, part, values, self.zone)
        return self._check_usable(test, column, text, usable=True)

    def not_null(self, column: PredicateColumn, text: str, why: str = "") -> BooleanExpression:
        """``IS NOT NULL`` in place of an unusable comparison: no comparison passes a null."""
        return self._check_usable(NotNull(self._remember(column).key), column, text, usable=False, why=why)

    def _remember(self, column: PredicateColumn) -> PredicateColumn:
        self.columns[column.key] = column
        return column

    def _check_usable(
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
