"""PyIceberg's FileIO for Arrow, which bounds the metadata files that it opens.

Place in the flow: tables of catalogs of others are read through it, unless their catalog names a FileIO of its own or
says by its warehouse on which store they are.
"""

from __future__ import annotations

import io

from pyiceberg.io import InputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from metastore.errors import FormatError
from metastore.stores.bounded_reading import ReadLimits


class BoundedArrowFileIO(PyArrowFileIO):
    """Files of any store that Arrow reads; ``properties`` are PyIceberg's, with the limits among them."""

    def new_input(self, location: str) -> PyArrowFile:
        """The file to read; nothing is asked of the store yet."""
        return _BoundedFile(super().new_input(location), ReadLimits.of(self.properties))


class _BoundedFile(PyArrowFile):
    def __init__(self, file: PyArrowFile, limits: ReadLimits) -> None:
        vars(self).update(vars(file))
        self.limits = limits

    def open(self, seekable: bool = True) -> InputStream:
        """A stream from the start. Raises FormatError for a metadata file that is too large."""
        stream = super().open(seekable)
        if limit := self.limits.of_file(self.location):
            try:
                limit.require(self.location, len(self) if not seekable else stream.seek(0, io.SEEK_END))
            except FormatError:
                stream.close()
                raise
            if seekable:
                stream.seek(0)
        return stream
