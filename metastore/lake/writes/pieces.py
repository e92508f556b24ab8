"""Decides which files are rewritten together, and splits the work, by sizes, counts and partitions. Pure functions.

Files of the output spec are grouped by partition. Files of other specs are pooled, and the output spec determines the
partitions of their rows. Files and groups qualify as in Spark's procedure: a file by its size or its deletes, a group
by the gain of rewriting it. A group is split into pieces, and one task turns each piece into whole new files. Pieces
may begin and end inside files, so new files reach the target size even if the old files are larger.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

from pyiceberg.manifest import FileFormat
from pyiceberg.typedef import Record

from metastore.lake.iceberg.columns.version_3_fields import first_row_id
from metastore.lake.iceberg.manifests.partition_key import SpecPartition, partition_key
from metastore.lake.iceberg.rows.delete_index import DeleteFile
from metastore.lake.iceberg.rows.live_files import LiveFile
from metastore.lake.writes.limits import RewriteOptions

_SPREAD: Final = 1.1
"""A remainder is spread over the other files if these stay below this multiple of the target size."""

_REPARTITIONED: Final = 8
"""Size of the pieces, in targets, for rows that move to other partitions. Smaller ones would leave more small files."""


@dataclass(frozen=True)
class Candidate:
    """A data file that may be rewritten, and the delete files that may apply; ``own_deletes`` apply to it alone."""

    live: LiveFile
    deletes: tuple[LiveFile, ...] = ()
    own_deletes: tuple[LiveFile, ...] = ()

    @property
    def size(self) -> int:
        """Bytes on the store."""
        return self.live.file.file_size_in_bytes

    @property
    def rows(self) -> int:
        """Rows in the file, including deleted ones."""
        return self.live.file.record_count

    @property
    def deleted_ratio(self) -> float:
        """The ratio of its rows that its ``own_deletes`` remove."""
        return sum(delete.file.record_count for delete in self.own_deletes) / self.rows if self.rows else 0.0


@dataclass(frozen=True)
class Group:
    """Files that are rewritten together. All rows stay in ``partition``; if it is None, each row has its own."""

    number: int
    candidates: tuple[Candidate, ...]
    partition: Record | None

    @property
    def size(self) -> int:
        """Bytes on the store."""
        return sum(candidate.size for candidate in self.candidates)


class Slice(NamedTuple):
    """Rows ``first`` to ``end`` of a data file, the delete files that may apply, and the values its rows inherit."""

    path: str
    format: FileFormat
    file_size: int
    file_rows: int
    first: int
    end: int
    spec_id: int
    partition: Record
    deletes: tuple[DeleteFile, ...]
    first_row_id: int | None = None
    added_number: int = 0

    @classmethod
    def whole(cls, live: LiveFile, deletes: Iterable[DeleteFile]) -> Slice:
        """Create a slice with all rows of a file."""
        file = live.file
        rows = file.record_count
        return cls(
            file.file_path,
            file.file_format,
            file.file_size_in_bytes,
            rows,
            0,
            rows,
            file.spec_id,
            file.partition,
            tuple(deletes),
            first_row_id(file),
            live.added_number,
        )

    @property
    def size(self) -> int:
        """Bytes of the rows, estimated by their number."""
        return self.file_size * (self.end - self.first) // max(1, self.file_rows)


@dataclass(frozen=True)
class Piece:
    """The work of one task: slices of a group that become new files of ``file_rows`` rows each."""

    group: int
    number: int
    slices: tuple[Slice, ...]
    partition: Record | None
    file_rows: int

    @property
    def size(self) -> int:
        """Bytes of the slices on the store, estimated."""
        return sum(cut.size for cut in self.slices)


@dataclass(frozen=True)
class Choice:
    """The groups to rewrite, and the counts of other files by the reason why they are left."""

    groups: tuple[Group, ...]
    left: dict[str, int] = field(default_factory=dict)


def choose(candidates: Sequence[Candidate], output_spec_id: int | None, options: RewriteOptions) -> Choice:
    """Returns the groups that are worth rewriting, in the order of the work.

    Without an output spec every file stays in its own partition, as delete files do.
    """
    left: dict[str, int] = {}
    if options.rewrite_all:
        wanted = list(candidates)
    else:
        wanted = [candidate for candidate in candidates if _qualifies(candidate, options)]
        if len(wanted) < len(candidates):
            left["of a good size and with few deletes"] = len(candidates) - len(wanted)
    packs: list[tuple[Record | None, list[Candidate]]] = []
    for partition, members in _by_partition(wanted, output_spec_id):
        for pack in _pack_candidates(members, options):
            if options.rewrite_all or _pays(pack, options):
                packs.append((partition, pack))
            else:
                # A single file is not a group, whatever min-input-files says: rewriting it would change nothing.
                reason = f"in a group of fewer than {max(2, options.min_input_files)} files"
                left[reason] = left.get(reason, 0) + len(pack)
    packs = _order_packs(packs, options)
    if options.max_files is not None:
        packs, over = _limit_packs(packs, options.max_files)
        if over:
            left["over max-files-to-rewrite"] = over
    return Choice(tuple(Group(number, tuple(pack), at) for number, (at, pack) in enumerate(packs)), left)


def pieces(group: Group, options: RewriteOptions, *, whole: bool) -> list[Piece]:
    """Returns the tasks of ``group``; a single one if its order must hold over the ``whole`` group."""
    size = max(1, int(group.size * options.compression_factor))
    files = output_files(size, options)
    rows = sum(candidate.rows for candidate in group.candidates)
    file_rows = max(1, -(-rows // files))
    if whole:
        count = 1
    elif group.partition is None:
        count = -(-files // _REPARTITIONED)
    else:
        count = files
    cuts = _cut([_slice(candidate) for candidate in group.candidates], count)
    return [
        Piece(group.number, number, tuple(cut), group.partition, file_rows if whole or count < files else rows)
        for number, cut in enumerate(cuts)
    ]


def output_files(size: int, options: RewriteOptions) -> int:
    """Returns the number of files for ``size`` bytes at the target size; a small remainder is spread over them."""
    target = options.target_bytes
    whole, rest = divmod(size, target)
    if not whole:
        return 1
    if rest > options.min_bytes or size / whole >= min(_SPREAD * target, options.max_bytes):
        return whole + 1
    return whole


def _qualifies(candidate: Candidate, options: RewriteOptions) -> bool:
    return not options.min_bytes <= candidate.size <= options.max_bytes or _has_many_deletes(candidate, options)


def _has_many_deletes(candidate: Candidate, options: RewriteOptions) -> bool:
    return (
        len(candidate.deletes) >= options.delete_file_threshold
        or candidate.deleted_ratio >= options.delete_ratio_threshold
    )


def _pays(pack: Sequence[Candidate], options: RewriteOptions) -> bool:
    size = sum(candidate.size for candidate in pack)
    return (
        (len(pack) > 1 and (len(pack) >= options.min_input_files or size > options.target_bytes))
        or size > options.max_bytes
        or any(_has_many_deletes(candidate, options) for candidate in pack)
    )


def _by_partition(
    candidates: Iterable[Candidate], output_spec_id: int | None
) -> list[tuple[Record | None, list[Candidate]]]:
    kept: dict[SpecPartition, list[Candidate]] = {}
    moved: list[Candidate] = []
    for candidate in candidates:
        file = candidate.live.file
        if output_spec_id is None or file.spec_id == output_spec_id:
            kept.setdefault(partition_key(file.spec_id, file.partition), []).append(candidate)
        else:
            moved.append(candidate)
    found: list[tuple[Record | None, list[Candidate]]] = [
        (members[0].live.file.partition, members) for members in kept.values()
    ]
    return [*found, (None, moved)] if moved else found


def _pack_candidates(candidates: Iterable[Candidate], options: RewriteOptions) -> list[list[Candidate]]:
    """Split into packs within the limits, in order, because adjacent files have similar rows."""
    packs: list[list[Candidate]] = []
    size = 0
    for candidate in candidates:
        full = not packs or size + candidate.size > options.max_group_bytes or len(packs[-1]) >= options.max_group_files
        if full:
            packs.append([])
            size = 0
        packs[-1].append(candidate)
        size += candidate.size
    return packs


def _order_packs(
    packs: list[tuple[Record | None, list[Candidate]]], options: RewriteOptions
) -> list[tuple[Record | None, list[Candidate]]]:
    if options.job_order == "none":
        return packs
    measure, _, direction = options.job_order.partition("-")

    def weight(pack: tuple[Record | None, list[Candidate]]) -> int:
        return len(pack[1]) if measure == "files" else sum(candidate.size for candidate in pack[1])

    return sorted(packs, key=weight, reverse=direction == "desc")


def _limit_packs(
    packs: list[tuple[Record | None, list[Candidate]]], limit: int
) -> tuple[list[tuple[Record | None, list[Candidate]]], int]:
    kept: list[tuple[Record | None, list[Candidate]]] = []
    room, over = limit, 0
    for partition, pack in packs:
        if room:
            kept.append((partition, pack[:room]))
        over += max(0, len(pack) - room)
        room = max(0, room - len(pack))
    return kept, over


def _slice(candidate: Candidate) -> Slice:
    return Slice.whole(candidate.live, (DeleteFile.of(delete.file) for delete in candidate.deletes))


def _cut(slices: Sequence[Slice], count: int) -> list[list[Slice]]:
    """Split the slices, each a whole file, into ``count`` parts of equal bytes; fewer if a part would have no rows."""
    total = max(1, sum(cut.file_size for cut in slices))
    parts: list[tuple[int, Slice]] = []
    before = 0
    for cut in slices:
        rows, size = cut.file_rows, cut.file_size
        first = 0
        while first < rows:
            part = min(count - 1, (before + size * first // rows) * count // total)
            # The row at which the next part begins, in this file or after it.
            border = -(-total * (part + 1) // count) - before
            end = rows if part == count - 1 or border >= size else max(first + 1, -(-border * rows // size))
            parts.append((part, cut._replace(first=first, end=end)))
            first = end
        before += size
    return [[cut for _, cut in members] for _, members in groupby(parts, key=lambda entry: entry[0])]
