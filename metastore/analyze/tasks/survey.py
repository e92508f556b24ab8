"""The task that lists top-level directories of a large table: one row for each directory, whatever it holds.

Place in the flow: :mod:`metastore.analyze.table_survey` sends the names of a table's directories. The driver compares
the states with the stored ones, and never holds the files. The task that makes a changed segment lists its directory
once more (:mod:`metastore.analyze.tasks.directories`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import pyarrow as pa

from metastore.analyze.changes import segments_of
from metastore.analyze.states import segment_state
from metastore.lake.formats.source_file import SourceFile, suffix_of
from metastore.sources.directories import Directories
from metastore.sources.listing import list_directories

_COLUMNS: Final[dict[str, pa.DataType]] = {
    "key": pa.string(),
    "state": pa.string(),
    "files": pa.int64(),
    "bytes": pa.int64(),
    "later": pa.int64(),
    "directories": pa.list_(pa.list_(pa.string())),
    "samples": pa.list_(pa.string()),
    "reaches": pa.bool_(),
}

SURVEYED: Final = pa.schema(_COLUMNS)
"""The columns of a row about one top-level segment."""


class StoreReach(Protocol):
    """The proof that a task has the driver's store: a part of the component's storage, which tasks need not import."""

    def is_given(self) -> bool:
        """Whether this process has the store."""


@dataclass(frozen=True)
class DirectoriesToList:
    """The directories ``names`` directly below a table's ``location``; plain data, which a task lists."""

    location: str
    names: Sequence[str]
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    passed_over: Sequence[str] = ()
    all_files: bool = False

    def files(self) -> Sequence[SourceFile]:
        """Returns their data files, sorted. Raises as :func:`list_directories`."""
        return list_directories(
            self.location,
            self.names,
            options=self.options,
            passed_over=self.passed_over,
            all_files=self.all_files,
        )


@dataclass(frozen=True)
class SurveyChunk:
    """Directories that one task lists. ``modified`` is when the table's latest known file was modified, in epoch ms."""

    listing: DirectoriesToList
    modified: int
    reach: StoreReach


@dataclass(frozen=True)
class SurveyedSegment:
    """What the driver holds of one top-level segment.

    * ``files`` and ``bytes`` count its files, ``later`` those modified after the last run's latest file.
    * ``directories`` are those with files.
    * ``samples`` has the path of a file for each suffix.
    """

    key: str
    state: str
    files: int
    bytes: int
    later: int
    directories: Sequence[Directories]
    samples: Sequence[str]

    @classmethod
    def of(cls, key: str, files: Sequence[SourceFile], modified: int) -> SurveyedSegment:
        """Describes a segment of ``files``, which are sorted."""
        samples = {suffix_of(file.name): file.path for file in reversed(files)}
        return cls(
            key,
            segment_state(files),
            len(files),
            sum(file.size for file in files),
            sum(file.mtime_ns // 1_000_000 > modified for file in files),
            list(dict.fromkeys(file.directories for file in files)),
            list(samples.values()),
        )

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> SurveyedSegment:
        """Reads a row of :data:`SURVEYED`."""
        found = {name: row[name] for name in ("key", "state", "files", "bytes", "later", "samples")}
        return cls(**found, directories=[tuple(each) for each in row["directories"]])


def survey(chunk: SurveyChunk) -> Iterator[pa.RecordBatch]:
    """Returns a row for each directory with files. Raises as :func:`list_directories`."""
    segments = segments_of(chunk.listing.files())
    found = [SurveyedSegment.of(key, own, chunk.modified) for key, own in segments.items()]
    reaches = chunk.reach.is_given()
    yield pa.RecordBatch.from_pylist([vars(each) | {"reaches": reaches} for each in found], SURVEYED)
