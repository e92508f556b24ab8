"""Replaces the prefix of locations, regardless of the spelling of scheme and leading slashes.

Place in the flow: ``rewrite_table_path`` uses it for every location of a table. The rest of a location keeps its
spelling, because it is a name on the store.
"""

from __future__ import annotations

from dataclasses import dataclass

from metastore.errors import InvalidRequestError, ProcedureError
from metastore.lake.stores.spelling import Spelling, agree, path_of


@dataclass(frozen=True)
class Prefixes:
    """The prefix of locations, in any spelling of scheme and leading slashes, and its replacement.

    Neither ends with a slash.
    """

    source: str
    target: str

    @classmethod
    def of(cls, source: str, target: str) -> Prefixes:
        """Raises InvalidRequestError if a prefix is empty or both are the same."""
        made = cls(source.rstrip("/"), target.rstrip("/"))
        if not (made.source and made.target):
            raise InvalidRequestError("source_prefix and target_prefix must not be empty")
        if made.source == made.target:
            raise InvalidRequestError(f"Source prefix cannot be the same as target prefix: {source}")
        return made

    def move(self, location: str) -> str:
        """Returns the location at the target. Raises ProcedureError if it is not below the source."""
        return self.target + self.below(location)

    def below(self, location: str) -> str:
        """Returns the part after the source prefix, as spelled. Raises ProcedureError if there is no such prefix."""
        tail = self._tail(location)
        if tail is None:
            raise ProcedureError(f"Path {location} does not start with {self.source}: the table has files elsewhere")
        return tail

    def move_if_below(self, location: str) -> str:
        """Returns the location at the target if it is below the source, and unchanged otherwise."""
        tail = self._tail(location)
        return location if tail is None else self.target + tail

    def _tail(self, location: str) -> str | None:
        """Returns the part after the source prefix; None if the location is not below the source."""
        source, path = path_of(self.source), path_of(location)
        if path != source and not path.startswith(f"{source.rstrip('/')}/"):
            return None
        spelling = Spelling()
        return path[len(source.rstrip("/")) :] if agree(spelling.place(self.source), spelling.place(location)) else None
