"""Reads doubles in Avro with all 64 bits: a patch of PyIceberg for the whole process.

PyIceberg's compiled decoder truncates doubles, such as partition values, to 32 bits. A partition of 0.1 then reads as
0.10000000149, and a scan skips the files that have the requested rows. PyIceberg creates its readers itself, so a
subclass does not help; importing this module replaces the reader's method. The patch covers this package and
PyIceberg's own planning and partition columns. A test fails once PyIceberg reads all 64 bits; then remove this module.
"""

from __future__ import annotations

import struct
from typing import Final

from pyiceberg.avro.decoder import BinaryDecoder
from pyiceberg.avro.reader import DoubleReader

DOUBLE: Final = struct.Struct("<d")
"""The binary layout of a double."""


def _read_double(self: DoubleReader, decoder: BinaryDecoder) -> float:  # noqa: ARG001 - becomes a method below
    number: float = DOUBLE.unpack(decoder.read(DOUBLE.size))[0]
    return number


DoubleReader.read = _read_double  # type: ignore[method-assign] # see above
