"""``rewrite_position_delete_files``: merges small position delete files, in format version 3 into deletion vectors.

Delete files qualify by size and number, as data files do for ``rewrite_data_files``. Those that apply to no data file
are dropped. In format version 3 every position delete file is removed, and each of its data files gets one vector.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.table.metadata import TableMetadata

from metastore.errors import ConflictError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.rows.delete_index import DeleteFile, Deletes, unpartitioned_specs
from metastore.lake.iceberg.rows.live_files import EntryKey, LiveFile, LiveFiles, live_files, partition_test
from metastore.lake.iceberg.rows.row_lineage import VERSION_OF_LINEAGE
from metastore.lake.iceberg.rows.row_mode_values import BY_FILE, GRANULARITY
from metastore.lake.writes.limits import RewriteOptions
from metastore.lake.writes.pieces import Candidate, Slice, choose, output_files
from metastore.procedures.deletes.conversion import Conversion, ConversionPlan, convert, is_vector, result_row
from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.file_filter import files_by
from metastore.procedures.framework.model import CallContext, columns
from metastore.procedures.rewrite.options import parse_position_options

_RESULT: Final = columns(
    rewritten_delete_files_count=pa.int32(),
    added_delete_files_count=pa.int32(),
    rewritten_bytes_count=pa.int64(),
    added_bytes_count=pa.int64(),
    message=pa.string(),
)


@procedure(result=_RESULT)
def rewrite_position_delete_files(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    options: dict[str, str] | None = None,
    dry_run: bool = False,
    filter: str = "TRUE",
) -> Mapping[str, Any]:
    """Merges position delete files, in version 3 into vectors; drops those that apply to no data file."""
    target = context.table(schema, table_name)
    table = target.load()
    wanted = parse_position_options(options or {}, table.metadata.properties)
    chooser = _Chooser(wanted, files_by(filter, table.schema()))
    if wanted.partial_progress and not dry_run:
        return result_row(_in_parts(context, target, chooser), {})
    return result_row(convert(context, target, chooser.plan, dry_run=dry_run), {})


@dataclass(frozen=True)
class _Group:
    """Position delete files that are merged with each other."""

    deletes: tuple[LiveFile, ...]

    @property
    def size(self) -> int:
        return sum(live.file.file_size_in_bytes for live in self.deletes)


@dataclass(frozen=True)
class _Chooser:
    """Decides which position delete files are merged. ``only`` limits a plan to some of them."""

    options: RewriteOptions
    expression: BooleanExpression
    only: Collection[EntryKey] | None = None

    def plan(self, files: LiveFiles, metadata: TableMetadata) -> ConversionPlan:
        """Plan one commit: new deletes of about the target size, in the order of the groups."""
        near = self._near(files, metadata)
        groups, unused = self._groups(files, metadata, near)
        vectors = metadata.format_version >= VERSION_OF_LINEAGE
        by_file = not vectors and metadata.properties.get(GRANULARITY, "").lower() == BY_FILE
        group_of = {live.place: number for number, group in enumerate(groups) for live in group.deletes}
        cuts: list[list[Slice]] = [[] for _ in groups]
        for data, deletes in near.items():
            touched = sorted({group_of[live.place] for live in deletes if live.place in group_of})
            # A vector replaces all position deletes of its data file.
            for number in touched[:1] if vectors else touched:
                merged = deletes if vectors else [live for live in deletes if group_of.get(live.place) == number]
                cuts[number].append(Slice.whole(data, sorted({DeleteFile.of(live.file) for live in merged})))
        planned: list[tuple[Slice, ...]] = []
        for group, mine in zip(groups, cuts, strict=True):
            planned += _cut(mine, len(mine) if by_file else output_files(group.size, self.options))
        gone = (*unused, *(live for group in groups for live in group.deletes))
        return ConversionPlan(
            tuple(planned),
            gone,
            "" if gone else self._nothing_to_change(),
            self.options.max_concurrent_groups if self.options.partial_progress else None,
        )

    def parts(self, files: LiveFiles, metadata: TableMetadata) -> Iterator[frozenset[EntryKey]]:
        """Yields the delete files of each commit with partial progress."""
        groups, unused = self._groups(files, metadata, self._near(files, metadata))
        most = max(1, -(-len(groups) // self.options.max_commits))
        for first in range(0, len(groups), most):
            some = [live for group in groups[first : first + most] for live in group.deletes]
            yield frozenset(live.entry for live in (*some, *([] if first else unused)))
        if unused and not groups:
            yield frozenset(live.entry for live in unused)

    def _near(self, files: LiveFiles, metadata: TableMetadata) -> dict[LiveFile, list[LiveFile]]:
        index = Deletes(files.position_deletes, unpartitioned_specs(metadata))
        return {data: index.of(data) for data in files.data}

    def _groups(
        self, files: LiveFiles, metadata: TableMetadata, near: Mapping[LiveFile, Sequence[LiveFile]]
    ) -> tuple[list[_Group], list[LiveFile]]:
        """Returns the groups, and the delete files that apply to nothing."""
        tests = {spec.spec_id: partition_test(metadata, spec, self.expression) for spec in metadata.partition_specs}
        found = [
            live
            for live in files.position_deletes
            if (self.only is None or live.entry in self.only) and tests[live.file.spec_id](live.file.partition)
        ]
        used = {delete.place for deletes in near.values() for delete in deletes}
        unused = [live for live in found if live.place not in used]
        options = self.options
        candidates = [Candidate(live) for live in found if live.place in used]
        if metadata.format_version >= VERSION_OF_LINEAGE:
            # A vector must take over all position deletes of its data file, so their sizes do not matter.
            candidates = [each for each in candidates if not is_vector(each.live)]
            options = replace(options, rewrite_all=True)
        if self.only is not None:
            options = replace(options, rewrite_all=True)
        chosen = choose(candidates, None, options).groups
        return [_Group(tuple(each.live for each in group.candidates)) for group in chosen], unused

    def _nothing_to_change(self) -> str:
        least = max(2, self.options.min_input_files)
        return f"nothing to change: no partition has {least} small position delete files; rewrite-all takes all"


def _in_parts(context: CallContext, target: TargetTable, chooser: _Chooser) -> Conversion:
    """Commit some groups at a time. Raises ConflictError if more commits fail than the options allow."""
    table = target.load()
    snapshot = table.metadata.current_snapshot()
    parts: Iterable[frozenset[EntryKey]] = ()
    if snapshot is not None:
        parts = chooser.parts(live_files(table.metadata, table.io, snapshot), table.metadata)
    done: list[Conversion] = []
    failures: list[ConflictError] = []
    for part in parts:
        made = _try_convert(context, target, replace(chooser, only=part))
        if isinstance(made, Conversion):
            done.append(made)
            continue
        failures.append(made)
        if len(failures) > chooser.options.max_failed_commits:
            raise made
    if not done and not failures:
        return convert(context, target, chooser.plan, dry_run=False)
    return Conversion(
        [file for each in done for file in each.gone],
        [file for each in done for file in each.added],
        sum(each.rows for each in done),
        f"{len(failures)} of {len(done) + len(failures)} commits failed: {failures[0]}" if failures else "",
    )


def _try_convert(context: CallContext, target: TargetTable, chooser: _Chooser) -> Conversion | ConflictError:
    try:
        return convert(context, target, chooser.plan, dry_run=False)
    except ConflictError as error:
        return error


def _cut(cuts: Sequence[Slice], count: int) -> Iterator[tuple[Slice, ...]]:
    """Split data files into ``count`` parts of the same number; their positions are not known before they are read."""
    size = max(1, -(-len(cuts) // count)) if count else 1
    for first in range(0, len(cuts), size):
        yield tuple(cuts[first : first + size])
