"""Lists a large table by tasks, directory by directory, so that the driver holds one line a segment and no file.

Place in the flow: a run of ANALYZE asks here first. Only a table of files in directories is surveyed, and only if it is
large: by its stored units if it was analyzed before, else by a sample of its directories. The driver lists every other
table itself, in fewer requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from metastore.analyze.changes import segments_of
from metastore.analyze.found_files import FoundFiles
from metastore.analyze.states import segment_state
from metastore.analyze.stored_metadata import StoredMetadata
from metastore.analyze.tasks.chunks import Limits, run_named
from metastore.analyze.tasks.survey import SURVEYED, DirectoriesToList, SurveyChunk, SurveyedSegment, survey
from metastore.components.storage.partition_sender import StoreProof
from metastore.engines.engine import Engine
from metastore.sources.listing import FirstLevel, list_directories, list_first_level
from metastore.sources.source_table import SourceTable

_SAMPLE: Final = 16
"""Directories that are listed to estimate the files of a table that was not analyzed before."""


@dataclass(frozen=True)
class TableSurvey:
    """What is known before a large table is surveyed: its first level, and its approximate number of files."""

    first: FirstLevel
    files: int

    @classmethod
    def of_large(cls, source: SourceTable, stored: StoredMetadata, limits: Limits) -> TableSurvey | None:
        """Returns the survey of a large table; None for every other table. Raises the errors of a listing."""
        least_directories, least_files, least_a_directory = limits.surveyed
        if source.provided is not None or source.lister is not None:
            return None
        partitions, units = stored.size
        # The table's unit is read only where it matters: otherwise the listing runs beside it.
        if 0 < partitions < least_directories:
            return None
        is_known = partitions > 0 and stored.keeps_files
        if is_known and units < least_files:
            return None
        first = list_first_level(
            source.location, least_directories, options=source.options, passed_over=source.passed_over
        )
        if first is None:
            return None
        files = units if is_known else _estimate_files(source, first)
        is_large = files >= max(least_files, least_a_directory * len(first.directories))
        return cls(first, files) if is_large else None

    def files_by(
        self, engine: Engine, source: SourceTable, stored: StoredMetadata, reach: StoreProof, limits: Limits
    ) -> FoundFiles:
        """Lists the directories by tasks on ``engine``. Raises the errors of a listing."""
        names = self.first.directories
        loose = self.first.files
        segments = segments_of(loose)
        at_once = -(-len(names) // (limits.chunks_per_task * engine.parallelism))
        chunks = [
            SurveyChunk(
                DirectoriesToList(
                    source.location,
                    names[start : start + at_once],
                    source.options,
                    source.passed_over,
                    source.all_files,
                ),
                stored.last_modified_ms if stored.known_table is not None else 0,
                reach,
            )
            for start in range(0, len(names), at_once)
        ]
        rows = [row for batch in run_named(engine, chunks, survey, SURVEYED) for row in batch.to_pylist()]
        found = {row["key"]: SurveyedSegment.from_row(row) for row in sorted(rows, key=lambda row: str(row["key"]))}
        states = {key: segment_state(own) for key, own in segments.items()}
        states |= {key: each.state for key, each in found.items()}
        is_reached = all(row["reaches"] for row in rows)
        return FoundFiles(segments, states, loose, surveyed=found, reached_on=engine if is_reached else None)


def _estimate_files(source: SourceTable, first: FirstLevel) -> int:
    """Returns the approximate number of files, by directories that lie far apart."""
    step = max(1, len(first.directories) // _SAMPLE)
    sample = first.directories[::step][:_SAMPLE]
    found = list_directories(source.location, sample, options=source.options, passed_over=source.passed_over)
    return len(first.files) + len(found) * len(first.directories) // max(1, len(sample))
