"""Names that choose a version or a metadata table: ``"t@dev"``, ``t.branch_dev``, ``"t.branch_dev"``, ``t.snapshots``.

Place in the flow: queries and statements that change rows read the names of catalogs' tables here, so every spelling
means the same at each of them. A table that has the whole name wins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from metastore.components.catalogs import Catalogs
from metastore.errors import InvalidRequestError
from metastore.ground.epoch import EPOCH_UTC
from metastore.lake.inspection import METADATA_TABLES
from metastore.lake.inspection.of_changes import CHANGES
from metastore.lake.writes.audit import Version

_OF_REF: Final = ("branch_", "tag_")
_OF_SNAPSHOT: Final = "snapshot_id_"
_OF_TIME: Final = "at_timestamp_"
"""The beginnings of Spark's words for a version after a table's name; the time is in milliseconds."""


@dataclass(frozen=True)
class VersionedName:
    """The ``parts`` of a full name, without its version. ``wanted`` is the version, ``word`` its spelling."""

    parts: Sequence[str]
    wanted: Version = None
    word: str = ""

    def at(self, version: Version) -> VersionedName:
        """Returns this name at the version of a clause. Raises InvalidRequestError if it has a version already."""
        if version is not None and self.word:
            raise InvalidRequestError(f"{'.'.join(self.parts)} has two versions, {self.word} and {version}: give one")
        return self if version is None else replace(self, wanted=version)


def versioned_name(catalogs: Catalogs, parts: Sequence[str]) -> VersionedName:
    """Returns the name that ``parts`` mean, completed by what USE has chosen."""
    full = catalogs.full(parts)
    base, at, ref = full[-1].rpartition("@")
    if base and at and not catalogs.has_table(full):
        return VersionedName([*full[:-1], base], int(ref) if ref.isdecimal() else ref, full[-1])
    base, _, word = full[-1].rpartition(".")  # Presto's spelling, with all of it in quotes
    if base and (wanted := _version(word)) is not None and not catalogs.has_table(full):
        return VersionedName([*full[:-1], base], wanted, full[-1])
    word = parts[-1]
    is_kind = word.lower() in (*METADATA_TABLES, CHANGES)
    wanted = None if is_kind else _version(word)
    if len(parts) < 2 or not (is_kind or wanted is not None) or catalogs.has_table(full):
        return VersionedName(full)
    table = catalogs.full(parts[:-1])
    if not catalogs.has_table(table):
        return VersionedName(full)
    if is_kind:
        return VersionedName([*table[:-1], f"{table[-1]}${word}"])
    return VersionedName(table, wanted, word)


def _version(word: str) -> Version:
    """Returns the version that ``word`` means after the name of a table; None if it is none."""
    lower = word.lower()
    for begin in _OF_REF:
        if lower.startswith(begin):
            return word[len(begin) :] or None
    if lower.startswith(_OF_SNAPSHOT) and (number := lower.removeprefix(_OF_SNAPSHOT)).isdecimal():
        return int(number)
    if lower.startswith(_OF_TIME) and (number := lower.removeprefix(_OF_TIME)).isdecimal():
        return EPOCH_UTC + timedelta(milliseconds=int(number))
    return None
