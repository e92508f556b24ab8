"""Casts between types of numbers, correctly rounded: the one maker of values of a column whose type differs by file.

Place in the flow: readers of files and writers of tables cast arrays here. Promise: a number becomes the nearest one of
the other type, so order is kept: bounds that are cast the same way still contain the values. Arrow's own cast of
decimals is off by a digit, and its cast of integers beyond 53 bits is an error.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.types as pt


def rounds(own: Any, wanted: Any) -> bool:
    """Whether a cast from ``own`` to ``wanted``, neither of them nested, may round."""
    if not pt.is_floating(wanted):
        return False
    return bool(pt.is_decimal(own) or (pt.is_integer(own) and own.bit_width >= wanted.bit_width))


def cast_to_nearest(values: Any, type_: Any, *, whole: bool = False) -> Any:
    """Returns an array, not nested, as ``type_``, with the nearest numbers. Raises Arrow's errors for other values.

    With ``whole``, for writers, this includes an integer that ``type_`` does not hold exactly.
    """
    if values.type.equals(type_):
        return values
    if not rounds(values.type, type_):
        return values.cast(type_)
    if pt.is_integer(values.type):
        return values.cast(type_, safe=whole)
    # Only Arrow's parser of texts rounds a decimal correctly.
    return values.cast(pa.string()).cast(type_)
