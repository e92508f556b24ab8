"""The whole or decimal numbers of a type, and the place of a number between two of them or beyond all.

Every translator uses this to bring a literal to the column's type, so no comparison needs a wider type. Over whole
numbers, ``x < 5.5`` becomes ``x < 6`` and ``x = 5.5`` is never true; ``x < 128`` is true for every TINYINT.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from metastore.predicates.literals import EXACT


@dataclass(frozen=True)
class NumberGrid:
    """The values of a type: from ``low`` to ``high``, with ``scale`` digits after the point."""

    low: Decimal
    high: Decimal
    scale: int = 0

    @classmethod
    def of_integer(cls, bits: int, *, signed: bool = True) -> NumberGrid:
        """Whole numbers of ``bits`` bits."""
        if not signed:
            return cls(Decimal(0), Decimal(2**bits - 1))
        return cls(Decimal(-(2 ** (bits - 1))), Decimal(2 ** (bits - 1) - 1))

    @classmethod
    def of_decimal(cls, precision: int, scale: int) -> NumberGrid:
        """DECIMAL(precision, scale)."""
        high = Decimal((0, (9,) * precision, -scale))
        return cls(high.copy_negate(), high, scale)

    def align(self, operator: str, number: Decimal) -> Decimal | bool:
        """The value of the type to compare with by ``operator`` (``=``, ``!=``, ``<`` …) instead of ``number``.

        Returns True or False if the comparison holds for every value of the type, or for none.
        """
        step = Decimal((0, (1,), -self.scale))
        below, above = (number.quantize(step, rounding, EXACT) for rounding in (ROUND_FLOOR, ROUND_CEILING))
        if below != above and operator in ("=", "!="):
            return operator == "!="
        found = below if operator in ("<=", ">") else above
        if found < self.low:
            return operator in (">", ">=", "!=")
        if found > self.high:
            return operator in ("<", "<=", "!=")
        return found
