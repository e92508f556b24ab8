"""Doubles keep their 64 bits, and PyIceberg alone still cuts them: else the mend is of no use any more."""

from __future__ import annotations

import subprocess
import sys

from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.reader import DoubleReader, Reader

from metastore.lake.iceberg.columns.exact_doubles import DOUBLE

CUT = """
import struct
from pyiceberg.avro.decoder import new_decoder
from pyiceberg.avro.reader import DoubleReader
print(DoubleReader().read(new_decoder(struct.pack("<d", 0.1) + bytes(16))))
"""


def test_a_double_is_read_whole() -> None:
    """For everybody in the process who uses PyIceberg's reader."""
    reader: Reader = DoubleReader()  # type: ignore[no-untyped-call] # PyIceberg has no types for it
    assert reader.read(new_decoder(DOUBLE.pack(0.1) + bytes(16))) == 0.1


def test_pyiceberg_alone_still_needs_it() -> None:
    """In a process without this package. If this fails, :mod:`metastore.lake.iceberg.columns.exact_doubles` can go."""
    said = subprocess.run([sys.executable, "-c", CUT], capture_output=True, text=True, check=True).stdout
    assert float(said) != 0.1
