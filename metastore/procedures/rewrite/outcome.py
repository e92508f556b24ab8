"""The state of one call: its arguments and decisions, the groups that are done or failed, and the result row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from metastore.errors import ConflictError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.rows.live_files import LiveFiles
from metastore.lake.stores.files import discard
from metastore.lake.writes.job import AlongCurve, SortKey
from metastore.lake.writes.limits import RewriteOptions
from metastore.lake.writes.pieces import Choice, Group, output_files
from metastore.procedures.framework.file_filter import FileFilter
from metastore.procedures.framework.model import CallContext
from metastore.procedures.rewrite.commit import CommitResult
from metastore.procedures.rewrite.conflicts import Rewritten
from metastore.procedures.rewrite.task import outcomes

_COUNT: Final[pa.DataType] = pa.int32()

RESULT: Final = pa.schema(
    {
        "rewritten_data_files_count": _COUNT,
        "added_data_files_count": _COUNT,
        "rewritten_bytes_count": pa.int64(),
        "failed_data_files_count": _COUNT,
        "removed_delete_files_count": _COUNT,
        "message": pa.string(),
    }
)


@dataclass
class RewriteCall:
    """One call: its arguments and table, the decisions, and the committed files."""

    call: CallContext
    target: TargetTable
    table: Table
    branch: str
    snapshot: Snapshot | None
    filter: FileFilter
    order: tuple[SortKey | AlongCurve, ...]
    sort_order_id: int | None
    options: RewriteOptions
    dry_run: bool
    files: LiveFiles = field(default_factory=lambda: LiveFiles((), (), ()))
    choice: Choice = field(default_factory=lambda: Choice(()))
    pieces: dict[int, int] = field(default_factory=dict)
    kept: set[str] = field(default_factory=set)
    """Paths of new files that are committed, or may be. They are never removed."""

    @property
    def output_spec_id(self) -> int:
        """The spec of the new files."""
        wanted = self.options.output_spec_id
        return self.table.metadata.default_spec_id if wanted is None else wanted


class GroupTally:
    """Counts the results of the groups so far. Removes the new files of failed groups at once."""

    def __init__(self, context: RewriteCall) -> None:
        self._context = context
        self._groups = {group.number: group for group in context.choice.groups}
        self.open_groups = set(self._groups)
        self._done: list[Group] = []
        self._failed: dict[int, str] = {}
        self._added = 0
        self._removed_deletes = 0

    def add(self, groups: Iterable[Rewritten], committed: CommitResult) -> None:
        """Add the result of one commit."""
        by_number = {group.group: group for group in groups}
        for number in committed.groups:
            self._done.append(self._groups[number])
            self._added += len(by_number[number].added)
        self._removed_deletes += committed.removed_deletes
        lost = [file.file_path for number in committed.failed for file in by_number[number].added]
        self._context.kept.difference_update(lost)
        discard(self._context.table.io, lost)
        self.fail(committed.failed)

    def fail(self, groups: Mapping[int, str]) -> None:
        """Add groups that could not be rewritten, each with the reason."""
        self._failed |= groups

    def row(self) -> Mapping[str, Any]:
        """Returns the result. Raises ConflictError if all groups failed."""
        reasons = sorted(set(self._failed.values()))
        if self._failed and not self._done:
            raise ConflictError(f"no file group of {self._context.target} could be rewritten: {'; '.join(reasons[:3])}")
        context = self._context
        message = None
        if reasons:
            message = f"{len(self._failed)} of {len(self._groups)} file groups failed: {'; '.join(reasons[:3])}"
        elif not self._done:
            message = describe_plan(context)
        return row_of(
            context,
            rewritten=[candidate for group in self._done for candidate in group.candidates],
            added=self._added,
            failed=sum(len(self._groups[number].candidates) for number in self._failed),
            removed_deletes=self._removed_deletes,
            message=message,
        )


def done_groups(
    context: RewriteCall, fragments: Iterable[pa.RecordBatch], tally: GroupTally | None = None
) -> Iterator[Rewritten]:
    """Yields each group when all its pieces are done. Groups with a failed piece are added to ``tally``."""
    groups = {group.number: group for group in context.choice.groups}
    waiting = dict(context.pieces)
    files: dict[int, dict[int, tuple[DataFile, ...]]] = {number: {} for number in groups}
    errors: dict[int, str] = {}
    for batch in fragments:
        for outcome in outcomes(batch):
            number = outcome.group
            files[number][outcome.piece] = outcome.files
            if outcome.error is not None:
                errors[number] = outcome.error
            waiting[number] -= 1
            if waiting[number]:
                continue
            if tally is not None:
                tally.open_groups.discard(number)
            in_order = [file for _, part in sorted(files.pop(number).items()) for file in part]
            if number in errors and tally is not None:
                discard(context.table.io, [file.file_path for file in in_order])
                tally.fail({number: errors[number]})
                continue
            yield Rewritten(number, groups[number].candidates, tuple(in_order))


def describe_plan(context: RewriteCall) -> str:
    """Returns a description of the planned work, or the reason why there is none."""
    if context.snapshot is None:
        return "nothing to rewrite: the table is empty"
    choice = context.choice
    left = "; ".join(f"{count} {reason}" for reason, count in choice.left.items())
    if not choice.groups:
        if not left:
            return "nothing to rewrite: no data file can hold a row that matches the filter"
        return f"nothing to rewrite: {left} (option rewrite-all takes them nevertheless)"
    count = sum(len(group.candidates) for group in choice.groups)
    size = sum(group.size for group in choice.groups)
    what = f"rewrites {count} files of {size} bytes in {len(choice.groups)} groups"
    return f"{what}; left as they are: {left}" if left else what


def row_of(
    context: RewriteCall,
    *,
    rewritten: Iterable[Any] = (),
    added: int = 0,
    failed: int = 0,
    removed_deletes: int = 0,
    message: str | None = None,
    planned: bool = False,
) -> Mapping[str, Any]:
    """Returns the result row of the call. If ``planned``, it counts what a run would do."""
    if planned:
        rewritten = [candidate for group in context.choice.groups for candidate in group.candidates]
        added = sum(output_files(max(1, group.size), context.options) for group in context.choice.groups)
    files = list(rewritten)
    return {
        "rewritten_data_files_count": len(files),
        "added_data_files_count": added,
        "rewritten_bytes_count": sum(candidate.size for candidate in files),
        "failed_data_files_count": failed,
        "removed_delete_files_count": removed_deletes,
        "message": f"dry run: {message}" if planned else message,
    }
