"""Doubles in Avro are read with all of their 64 bits: a mend of PyIceberg, for everything in the process.

PyIceberg's compiled decoder cuts doubles, as partition values are, to 32 bits. With 0.10000000149 for the 0.1 of a
partition, a scan passes over the files that have the rows it is asked for. PyIceberg makes its readers itself, of no
subclass, so the method of its reader is replaced when this module is imported: for this package, and for all that
PyIceberg decodes on its own, to plan a scan or to fill in a column that only the partition has. A test fails once
PyIceberg reads them whole; then this module goes.
"""

from __future__ import annotations

import struct
from typing import Final

from pyiceberg.avro.decoder import BinaryDecoder
from pyiceberg.avro.reader import DoubleReader

DOUBLE: Final = struct.Struct("<d")
"""How a double is laid out."""


def _read_double(self: DoubleReader, decoder: BinaryDecoder) -> float:  # noqa: ARG001 - it is made a method below
    number: float = DOUBLE.unpack(decoder.read(DOUBLE.size))[0]
    return number


DoubleReader.read = _read_double  # type: ignore[method-assign] # see above
