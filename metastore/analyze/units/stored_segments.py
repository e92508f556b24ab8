"""What is stored of some top-level segments, beside a fresh listing: which files changed, and whose rows stay true.

Place in the flow: an incremental run makes the segments anew in which files changed; whoever does that, a task or the
driver, begins here with the segments' units. Pure.
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
from metastore.formats.source_file import SourceFile
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
"""The columns that tell the part which a unit stands for."""

OF_SEGMENTS: Final = ("metadataKey", "metadataIdentifier", *OF_PARTS)
"""The same, with the columns that name the segment and its state."""


@dataclass(frozen=True)
class Compared:
    """The changes of some files, and the FILE and ROW_GROUP rows of those that stay."""

    changes: FileChanges
    kept: pa.Table

    def standing(self, level: MetadataType, *, anew: bool) -> pa.Table:
        """The rows that are stored again at ``level``; none where the footers of all files are read ``anew``."""
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
        """From all units of these segments."""
        return cls(
            top_level(of_kind(units, MetadataType.SEGMENT)),
            of_kind(units, MetadataType.FILE, MetadataType.ROW_GROUP),
        )

    def compared(self, files: Iterable[SourceFile]) -> Compared:
        """What has come of these segments, which consist of ``files`` now."""
        changes = file_changes(_recorded(self.details), files)
        untrue = pa.array(changes.changed | changes.removed, pa.string())
        return Compared(changes, self.details.filter(pc.invert(pc.is_in(self.details["path"], untrue))))


def top_level(segments: pa.Table) -> pa.Table:
    """Those of SEGMENT rows that are of top-level segments."""
    return segments.filter(pc.equal(segments["metadataKey"], segments["metadataIdentifier"]))


def states_by_key(tops: pa.Table) -> dict[str, str]:
    """The states that SEGMENT rows of top-level segments tell, as :func:`short_states` has them."""
    states = map(state_in, values(tops, "additionalMetadata"))
    return short_states(dict(zip(values(tops, "metadataKey"), states, strict=True)))


def _recorded(details: pa.Table) -> Mapping[str, Sequence[str]]:
    """The statistics of the FILE rows, by path, in which the state stands that each file was in."""
    files = of_kind(details.select(["metadataType", "path", "metadataStatistics"]), MetadataType.FILE)
    return {
        path: holders or ()
        for path, holders in zip(values(files, "path"), values(files, "metadataStatistics"), strict=True)
    }
