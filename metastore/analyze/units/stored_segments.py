"""Compares stored units of some top-level segments with a fresh listing: which files changed, which rows stay valid.

Place in the flow: an incremental run rebuilds the segments with changed files. A task or the driver does this, and
begins here with the segments' units. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from metastore.analyze.changes import FileChanges, file_changes
from metastore.analyze.levels import reaches
from metastore.analyze.states import short_states, state_in
from metastore.analyze.units.unit_rows import of_kind, values
from metastore.lake.formats.source_file import SourceFile
from metastore.model.vocabulary import MetadataType

OF_PARTS: Final = (
    "schema",
    "columnsStatistics",
    "metadataStatistics",
    "lastModifiedTime",
    "additionalMetadata",
    "locations",
    "partitionValues",
)
"""The columns that give the part which a unit represents."""

OF_SEGMENTS: Final = ("metadataKey", "metadataIdentifier", *OF_PARTS)
""":data:`OF_PARTS` with the columns that name the segment and its state."""


@dataclass(frozen=True)
class FileComparison:
    """The changes of some files, and the FILE and ROW_GROUP rows of unchanged files."""

    changes: FileChanges
    kept: pa.Table

    def standing(self, level: MetadataType, *, anew: bool) -> pa.Table:
        """The rows to store again at ``level``; none if the footers of all files are read ``anew``."""
        if anew:
            return self.kept.slice(0, 0)
        return self.kept if reaches(level, MetadataType.ROW_GROUP) else of_kind(self.kept, MetadataType.FILE)


@dataclass(frozen=True)
class StoredSegments:
    """Some top-level segments: their SEGMENT rows, and the FILE and ROW_GROUP rows of all their files."""

    tops: pa.Table
    details: pa.Table

    @classmethod
    def of(cls, units: pa.Table) -> StoredSegments:
        """Takes all units of these segments."""
        return cls(
            top_level(of_kind(units, MetadataType.SEGMENT)),
            of_kind(units, MetadataType.FILE, MetadataType.ROW_GROUP),
        )

    def compare(self, files: Iterable[SourceFile]) -> FileComparison:
        """Compares these segments' stored files with ``files``, the present ones."""
        changes = file_changes(_file_states(self.details), files)
        untrue = pa.array(changes.changed | changes.removed, pa.string())
        return FileComparison(changes, self.details.filter(pc.invert(pc.is_in(self.details["path"], untrue))))


def top_level(segments: pa.Table) -> pa.Table:
    """The SEGMENT rows that belong to top-level segments."""
    return segments.filter(pc.equal(segments["metadataKey"], segments["metadataIdentifier"]))


def states_by_key(tops: pa.Table) -> dict[str, str]:
    """The states in SEGMENT rows of top-level segments, in the form of :func:`short_states`."""
    states = map(state_in, values(tops, "additionalMetadata"))
    return short_states(dict(zip(values(tops, "metadataKey"), states, strict=True)))


def _file_states(details: pa.Table) -> Mapping[str, Sequence[str]]:
    """The statistics of the FILE rows, by path; they record the state of each file."""
    files = of_kind(details.select(["metadataType", "path", "metadataStatistics"]), MetadataType.FILE)
    return {
        path: holders or ()
        for path, holders in zip(values(files, "path"), values(files, "metadataStatistics"), strict=True)
    }
