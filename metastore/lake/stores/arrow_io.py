"""PyIceberg's FileIO for Arrow, with size limits for metadata files.

Tables of foreign catalogs are read through it, unless their catalog names its own FileIO or its warehouse shows the
store.
"""

from __future__ import annotations

import io

from pyiceberg.io import InputStream
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from metastore.errors import FormatError
from metastore.lake.stores.bounded_reading import ReadLimits


class BoundedArrowFileIO(PyArrowFileIO):
    """Files of any store that Arrow reads; ``properties`` are PyIceberg's, with the limits among them."""

    def new_input(self, location: str) -> PyArrowFile:
        """Return the file to read; sends no request yet."""
        return _BoundedFile(super().new_input(location), ReadLimits.of(self.properties))


class _BoundedFile(PyArrowFile):
    def __init__(self, file: PyArrowFile, limits: ReadLimits) -> None:
        vars(self).update(vars(file))
        self.limits = limits

    def open(self, seekable: bool = True) -> InputStream:
        """Open a stream from the start. Raises FormatError for a metadata file that is too large."""
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
