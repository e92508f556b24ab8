"""A file that PyIceberg's Avro writers put together in memory, to be written to the store in one go.

Their own way is to open the file first and to leave it open when what follows fails. A manifest or a list is small, so
it is made whole before the store hears of it: one write, no look at its length afterwards, and no half of it anywhere.
"""

from __future__ import annotations

import io
from io import BytesIO
from typing import NoReturn

from pyiceberg.io import FileIO, OutputFile


class EncodedFile(OutputFile):
    """What will stand at ``location``, while it is being made."""

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._stream = _Kept()

    def __len__(self) -> int:
        return len(self._stream.getvalue())

    def exists(self) -> bool:
        """Never: nothing is written yet."""
        return False

    def create(self, overwrite: bool = False) -> _Kept:
        """The stream to put the file together in."""
        return self._stream

    def to_input_file(self) -> NoReturn:
        """Refused: it is read from the store, once it stands there."""
        raise io.UnsupportedOperation(f"{self.location} is not written yet")

    def write_to(self, store: FileIO) -> None:
        """Write the file. Raises OSError."""
        with store.new_output(self.location).create() as stream:
            stream.write(self._stream.getvalue())


class _Kept(BytesIO):
    """Keeps its content when its writer is done with it."""

    def close(self) -> None:
        """Left open for :meth:`EncodedFile.write_to`; memory needs no closing."""
