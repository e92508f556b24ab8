"""The beginning of locations, and another one in its place, however scheme and slashes are spelled.

Place in the flow: ``rewrite_table_path`` moves every location of a table by it. The rest of a location stays as its
writer spelled it, since it is a name on the store.
"""

from __future__ import annotations

from dataclasses import dataclass

from metastore.errors import InvalidRequestError, ProcedureError
from metastore.procedures.files.spelling import Spelling, agree, path_of


@dataclass(frozen=True)
class Prefixes:
    """What locations begin with, under any spelling of scheme and leading slashes, and what they are to begin with.

    Neither ends with a slash.
    """

    source: str
    target: str

    @classmethod
    def of(cls, source: str, target: str) -> Prefixes:
        """Raises InvalidRequestError for prefixes that are empty or the same."""
        made = cls(source.rstrip("/"), target.rstrip("/"))
        if not (made.source and made.target):
            raise InvalidRequestError("source_prefix and target_prefix must not be empty")
        if made.source == made.target:
            raise InvalidRequestError(f"Source prefix cannot be the same as target prefix: {source}")
        return made

    def moved(self, location: str) -> str:
        """The location at the target. Raises ProcedureError for one that is not below the source."""
        return self.target + self.below(location)

    def below(self, location: str) -> str:
        """What comes after the source prefix, as the location spells it. Raises ProcedureError as :meth:`moved`."""
        tail = self._tail(location)
        if tail is None:
            raise ProcedureError(f"Path {location} does not start with {self.source}: the table has files elsewhere")
        return tail

    def replaced(self, location: str) -> str:
        """The location at the target if it is below the source, else as it is."""
        tail = self._tail(location)
        return location if tail is None else self.target + tail

    def _tail(self, location: str) -> str | None:
        """None for a location that is not below the source."""
        source, path = path_of(self.source), path_of(location)
        if path != source and not path.startswith(f"{source.rstrip('/')}/"):
            return None
        spelling = Spelling()
        return path[len(source.rstrip("/")) :] if agree(spelling.place(self.source), spelling.place(location)) else None
