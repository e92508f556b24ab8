"""The files that an ANALYZE considers, by top-level segment: listed by the driver, or surveyed by tasks.

Place in the flow: a run begins with :class:`FoundFiles`. For a whole table, these come from one listing
(:meth:`FoundFiles.whole`), or from tasks if the table is large (:mod:`metastore.analyze.table_survey`). For named parts
of a table, :mod:`metastore.analyze.named_parts` finds them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from metastore.analyze.changes import segments_of
from metastore.analyze.states import segment_state
from metastore.analyze.tasks.survey import SurveyedSegment
from metastore.engines.engine import Engine
from metastore.lake.formats.source_file import SourceFile
from metastore.sources.directories import Directories, directories_of
from metastore.sources.listing import list_directories
from metastore.sources.source_table import SourceTable


class SegmentSize(NamedTuple):
    """The number of a segment's files, and of their bytes."""

    files: int
    bytes: int


@dataclass(frozen=True)
class FoundFiles:
    """The files by top-level segment, the segments' states, and the directories of other segments.

    * ``segments`` has all files of each segment that may have changed and that the driver has listed.
    * ``states`` has the state of every segment, in short form for those that are not looked at.
    * ``looked_at`` are the files that were found on the store, without those of surveyed segments.
    * ``others`` are the directories of files in segments that are not looked at.
    * ``passed_over`` are named paths without a data file, now or in the metadata.
    * ``surveyed`` has the segments that tasks have listed; their files are not held here.
    * ``reached_on`` is the engine of the survey, if all of its tasks reach the store of the component tables.
    """

    segments: Mapping[str, Sequence[SourceFile]]
    states: Mapping[str, str]
    looked_at: Sequence[SourceFile]
    others: Collection[Directories] = ()
    passed_over: Sequence[str] = ()
    surveyed: Mapping[str, SurveyedSegment] = field(default_factory=dict)
    reached_on: Engine | None = None

    @classmethod
    def whole(cls, files: Sequence[SourceFile]) -> FoundFiles:
        """Returns all ``files`` of a table; they must be sorted."""
        segments = segments_of(files)
        return cls(segments, {key: segment_state(own) for key, own in segments.items()}, files)

    @property
    def count(self) -> int:
        """The number of files that were found on the store."""
        return len(self.looked_at) + sum(each.files for each in self.surveyed.values())

    def samples(self, location: str) -> Sequence[SourceFile]:
        """Returns files with every suffix of the table's files, sorted; sizes and times of some are 0."""
        paths = (path for each in self.surveyed.values() for path in each.samples)
        samples = [SourceFile(directories_of(path, location), path.rpartition("/")[2], path, 0, 0) for path in paths]
        return sorted([*self.looked_at, *samples]) if samples else self.looked_at

    def size(self, key: str) -> SegmentSize:
        """Returns the size of the segment ``key``."""
        if key in self.surveyed:
            return SegmentSize(self.surveyed[key].files, self.surveyed[key].bytes)
        files = self.segments[key]
        return SegmentSize(len(files), sum(file.size for file in files))

    def later(self, key: str, modified: int) -> int:
        """Returns how many of the segment's files were modified after ``modified``, in epoch ms; 0 means unknown.

        At least this number is new or changed. A survey has counted them for the table's own time.
        """
        if not modified:
            return 0
        if key in self.surveyed:
            return self.surveyed[key].later
        return sum(file.mtime_ns // 1_000_000 > modified for file in self.segments[key])

    def list_segments(self, source: SourceTable, keys: Iterable[str]) -> dict[str, Sequence[SourceFile]]:
        """Returns the files of the segments ``keys``; surveyed ones are listed again, and may be gone."""
        wanted = list(keys)
        names = [key for key in wanted if key in self.surveyed]
        own: dict[str, Sequence[SourceFile]] = {key: self.segments[key] for key in wanted if key not in self.surveyed}
        if names:
            own |= segments_of(
                list_directories(source.location, names, options=source.options, passed_over=source.passed_over)
            )
        return own

    def directories(self, instead: Mapping[str, Collection[Directories]]) -> set[Directories]:
        """Returns the directories of the table's files; ``instead`` has those of segments listed since, by key."""
        found = {file.directories for key, own in self.segments.items() if key not in instead for file in own}
        found |= {path for key, each in self.surveyed.items() if key not in instead for path in each.directories}
        return found | set(self.others) | {path for own in instead.values() for path in own}
