"""The decision over a whole table: segment, then file, then row group; a skipped level costs nothing below it.

Input are the table's metadata units as Arrow, and what stands in the store now. The rule that keeps answers right when
metadata is old: statistics speak for the files that were analyzed, and for no others. Files that changed since, or that
are new, are read whatever their segment's statistics say, unless the names of their directories alone exclude them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression

from metastore.errors import InvalidRequestError
from metastore.model.column_path import parse as parse_path
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import DEFAULT_SEGMENT, IDENTIFIER_SEPARATOR, MetadataType
from metastore.pruning.columns import Columns
from metastore.pruning.containers import FolderStatistics, UnitStatistics
from metastore.pruning.evaluate import Evaluation, Exclusion
from metastore.pruning.known_files import Fingerprint, KnownFiles
from metastore.pruning.partition_values import DirectoryColumns, directories_of
from metastore.pruning.predicate import parse
from metastore.pruning.result import Count, KeptFile, PruneResult, SegmentDecision, SkippedFile

UNIT_TYPES = (MetadataType.TABLE, MetadataType.SEGMENT, MetadataType.FILE, MetadataType.ROW_GROUP)
"""The metadata types that :func:`prune` makes use of."""

UNIT_COLUMNS = (
    "metadataType",
    "metadataIdentifier",
    "location",
    "path",
    "rowGroupIndex",
    "schema",
    "columnsStatistics",
    "metadataStatistics",
)
"""The columns of those units that it needs, by their on-disk names."""

CHANGED = "changed since ANALYZE"
UNKNOWN = "not analyzed"


def prune(
    question: str | BooleanExpression,
    units: pa.Table,
    *,
    listing: Mapping[str, Fingerprint] | None = None,
    time_zone: str | None = None,
) -> PruneResult:
    """Decide what of a table must be read to answer ``question`` (Spark SQL text or a PyIceberg expression).

    ``units`` are one table's metadata units in on-disk columns: :data:`UNIT_COLUMNS` of :data:`UNIT_TYPES`, of which
    the finer levels may be absent. ``listing`` holds the files that exist now, by the FILE units' paths; None trusts
    the metadata. ``time_zone`` is the session's. Raises InvalidRequestError if there is no TABLE unit, and what
    :func:`metastore.pruning.predicate.parse` raises.
    """
    table = _Table.of(units)
    known = KnownFiles(table.files, listing)
    segment_folders = ["" if name == DEFAULT_SEGMENT else name for name in table.segment_names]
    new_folders = [IDENTIFIER_SEPARATOR.join(directories_of(path, table.root)) for path in known.unknown]
    folders = {*segment_folders, *known.folders, *new_folders}
    directories = DirectoryColumns(tuple(folder.split(IDENTIFIER_SEPARATOR)) for folder in folders if folder)
    predicate = parse(question, Columns(table.schema, directories.columns), time_zone)
    evaluation = Evaluation(predicate)

    of_segments = UnitStatistics(table.segments, segment_folders, directories)
    segments = evaluation.exclude(range(len(segment_folders)), of_segments)
    above = {segment_folders[i]: exclusion for i, exclusion in segments.items()}
    inside = {folder: _nearest(folder, above) for folder in set(known.folders)}
    in_segments: Counter[str] = Counter()
    for folder, number in Counter(known.folders[i] for i in known.unchanged).items():
        if exclusion := inside[folder]:
            in_segments[exclusion.tests] += number
    in_doubt = [i for i in known.unchanged if not inside[known.folders[i]]]

    kept, skipped = _analyzed(in_doubt, known, UnitStatistics(table.files, known.folders, directories), evaluation)
    kept, without_groups, groups_kept = _row_groups(kept, table.row_groups, known, directories, evaluation)
    unproven_kept, unproven_skipped = _unproven(known, new_folders, directories, evaluation)
    kept += unproven_kept
    skipped += without_groups + unproven_skipped
    return PruneResult(
        predicate=predicate.text,
        notes=predicate.notes,
        segments=[SegmentDecision(name, segments.get(i)) for i, name in enumerate(table.segment_names)],
        files=kept,
        skipped_files=skipped,
        files_count=Count(known.count, len(kept)),
        row_groups_count=Count(_count_groups(table.row_groups, known), groups_kept),
        bytes_count=_bytes(known, kept),
        unknown=known.unknown,
        changed=[known.paths[i] for i in known.changed],
        missing=[known.paths[i] for i in known.missing],
        skipped_in_segments=in_segments,
    )


@dataclass(frozen=True)
class _Table:
    """One table's units by level, and what its TABLE unit says."""

    root: str
    schema: TupleSchema
    segment_names: Sequence[str]
    segments: pa.Table
    files: pa.Table
    row_groups: pa.Table

    @classmethod
    def of(cls, units: pa.Table) -> _Table:
        table, segments, files, groups = (
            units.filter(pc.equal(units["metadataType"], pa.scalar(kind.value))).combine_chunks() for kind in UNIT_TYPES
        )
        if table.num_rows != 1:
            raise InvalidRequestError(f"pruning needs the one TABLE unit of an analyzed table, not {table.num_rows}")
        root, schema = (table[name][0].as_py() for name in ("location", "schema"))
        names: list[Any] = segments["metadataIdentifier"].to_pylist()
        return cls(root or "", TupleSchema.from_json(schema or "{}"), names, segments, files, groups)


def _nearest(folder: str, excluded: Mapping[str, Exclusion]) -> Exclusion | None:
    """Why the segment of ``folder``, or one around it, was excluded."""
    while folder not in excluded:
        folder, separator, _ = folder.rpartition(IDENTIFIER_SEPARATOR)
        if not separator:
            return None
    return excluded[folder]


def _analyzed(
    files: Sequence[int], known: KnownFiles, statistics: UnitStatistics, evaluation: Evaluation
) -> tuple[list[KeptFile], list[SkippedFile]]:
    """Decide unchanged files by their own statistics."""
    excluded = evaluation.exclude(files, statistics)
    skipped = [SkippedFile(known.paths[i], exclusion) for i, exclusion in excluded.items()]
    kept = [
        KeptFile(known.paths[i], None, _reason(statistics.lacking(i)), known.size(known.paths[i]))
        for i in files
        if i not in excluded
    ]
    return kept, skipped


def _reason(lacking: Sequence[str]) -> str:
    if not lacking:
        return "may match"
    return f"may match; no statistics for {', '.join('.'.join(parse_path(column)) for column in lacking)}"


def _row_groups(
    files: Sequence[KeptFile], units: pa.Table, known: KnownFiles, directories: DirectoryColumns, evaluation: Evaluation
) -> tuple[list[KeptFile], list[SkippedFile], int]:
    """Narrow kept files to row groups; files of which none is left, and the number of row groups that are."""
    if not units.num_rows or not files:
        return list(files), [], 0
    live = units.filter(pc.is_in(units["path"], value_set=pa.array([file.path for file in files], pa.string())))
    paths: list[Any] = live["path"].to_pylist()
    indices: list[Any] = live["rowGroupIndex"].to_pylist()
    folder_of = dict(zip(known.paths, known.folders, strict=True))
    statistics = UnitStatistics(live.combine_chunks(), [folder_of[path] for path in paths], directories)
    excluded = evaluation.exclude(range(len(paths)), statistics)
    groups: dict[str, tuple[list[int], dict[int, Exclusion]]] = {}
    for i, (path, index) in enumerate(zip(paths, indices, strict=True)):
        inside, outside = groups.setdefault(path, ([], {}))
        if i in excluded:
            outside[index] = excluded[i]
        else:
            inside.append(index)
    kept: list[KeptFile] = []
    skipped: list[SkippedFile] = []
    for file in files:
        inside, outside = groups.get(file.path, ([], {}))
        if not outside:
            kept.append(file)
        elif inside:
            kept.append(replace(file, row_groups=tuple(sorted(inside)), skipped_row_groups=outside))
        else:
            skipped.append(SkippedFile(file.path, Exclusion(cause for why in outside.values() for cause in why)))
    return kept, skipped, len(paths) - len(excluded)


def _unproven(
    known: KnownFiles, new_folders: Sequence[str], directories: DirectoryColumns, evaluation: Evaluation
) -> tuple[list[KeptFile], list[SkippedFile]]:
    """Decide changed and unknown files, of which only the folders are certain."""
    files = [(known.paths[i], known.folders[i], CHANGED) for i in known.changed]
    files += [(path, folder, UNKNOWN) for path, folder in zip(known.unknown, new_folders, strict=True)]
    excluded = evaluation.exclude(range(len(files)), FolderStatistics([folder for _, folder, _ in files], directories))
    skipped = [SkippedFile(files[i][0], exclusion) for i, exclusion in excluded.items()]
    kept = [
        KeptFile(path, None, reason, known.size(path)) for i, (path, _, reason) in enumerate(files) if i not in excluded
    ]
    return kept, skipped


def _count_groups(units: pa.Table, known: KnownFiles) -> int:
    gone = [known.paths[i] for i in (*known.changed, *known.missing)]
    return int(units.num_rows) - units.filter(pc.is_in(units["path"], value_set=pa.array(gone, pa.string()))).num_rows


def _bytes(known: KnownFiles, kept: Sequence[KeptFile]) -> Count | None:
    total = known.total_size()
    sizes = [file.size for file in kept]
    return None if total is None or None in sizes else Count(total, sum(size for size in sizes if size is not None))
