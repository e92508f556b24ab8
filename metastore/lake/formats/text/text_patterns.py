"""Java's patterns of dates and timestamps (``dd.MM.yyyy HH:mm:ss``), as Spark takes them, applied to Arrow's texts."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from metastore.errors import InvalidRequestError

_FIELDS: Final = {
    "yyyy": (r"\d{4}", "%Y"),
    "yy": (r"\d{2}", "%y"),
    "MM": (r"\d{2}", "%m"),
    "M": (r"\d{1,2}", "%m"),
    "dd": (r"\d{2}", "%d"),
    "d": (r"\d{1,2}", "%d"),
    "HH": (r"\d{2}", "%H"),
    "H": (r"\d{1,2}", "%H"),
    "mm": (r"\d{2}", "%M"),
    "m": (r"\d{1,2}", "%M"),
    "ss": (r"\d{2}", "%S"),
    "s": (r"\d{1,2}", "%S"),
}
_PIECE: Final = re.compile(r"'([^']*)'|\.(S{1,6})$|([A-Za-z])\3*|[^A-Za-z']", re.DOTALL)


class MomentPattern(NamedTuple):
    """One pattern of dates or timestamps.

    ``looks`` describes the whole value; the others are Arrow's form of the pattern, and the fraction's digits.
    """

    looks: str
    read_as: str
    fraction: int

    def read(self, values: Any, type_: pa.DataType) -> Any:
        """Returns ``values`` in ``type_``, a date or a timestamp.

        Raises ArrowInvalid for a value that does not match.
        """
        whole = values
        if self.fraction:
            whole = pc.utf8_slice_codeunits(values, 0, -1 - self.fraction)
        found: Any = pc.strptime(whole, format=self.read_as, unit="us")
        if self.fraction:
            digits = pc.utf8_slice_codeunits(values, -self.fraction)
            parts = pc.multiply(pc.cast(digits, pa.int64()), 10 ** (6 - self.fraction))
            found = pc.cast(pc.add(pc.cast(found, pa.int64()), parts), pa.timestamp("us"))
        return pc.cast(found, type_)


@lru_cache(maxsize=64)
def moment_pattern(java: str) -> MomentPattern:
    """Returns the pattern ``java``.

    Raises InvalidRequestError for letters other than years to fractions of a second.
    """
    looks, read_as, fraction = [], [], 0
    for match in _PIECE.finditer(java):
        piece = match.group()
        if match.group(2):
            fraction = len(match.group(2))
            looks.append(rf"\.\d{{{fraction}}}")
        elif match.group(3):
            if piece not in _FIELDS:
                raise InvalidRequestError(
                    f"the pattern {java!r} has {piece!r}, which is not supported; supported are {', '.join(_FIELDS)}, "
                    "and .S to .SSSSSS at its end"
                )
            looks.append(_FIELDS[piece][0])
            read_as.append(_FIELDS[piece][1])
        else:
            literal = piece if match.group(1) is None else match.group(1) or "'"
            looks.append(re.escape(literal))
            read_as.append(literal.replace("%", "%%"))
    return MomentPattern(f"^{''.join(looks)}$", "".join(read_as), fraction)
