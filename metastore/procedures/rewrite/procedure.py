"""rewrite_data_files as a distributed procedure: arguments to a plan, fragments to commits, commits to a row.

``begin`` pins the current snapshot of the branch. All later steps, including the validation of the commit, refer to it.
With partial progress, groups are committed as they are done, one wave at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue
from pyiceberg.manifest import DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.transforms import VoidTransform

from metastore.errors import ConflictError, InvalidRequestError, NotFoundError, OutcomeUnknownError, ProcedureError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.columns.carried_columns import carried_schema
from metastore.lake.iceberg.manifests.data_file import READABLE
from metastore.lake.iceberg.rows.delete_index import Deletes, only_path, unpartitioned_specs
from metastore.lake.iceberg.rows.live_files import LiveFiles, live_files
from metastore.lake.iceberg.rows.row_lineage import VERSION_OF_LINEAGE
from metastore.lake.iceberg.snapshots.valid_updates import require_known_transforms
from metastore.lake.stores.files import discard
from metastore.lake.writes.job import AlongCurve, RewriteJob, SortKey, warn_of_other_format
from metastore.lake.writes.pieces import Candidate, Piece, choose, pieces
from metastore.lake.writes.sorting import rewriting_order, strategy_of
from metastore.procedures.files.guards import require_written_version
from metastore.procedures.framework.arguments import Argument
from metastore.procedures.framework.file_filter import FileFilter
from metastore.procedures.framework.model import CallContext, Plan, TableDataRewriteDistributedProcedure
from metastore.procedures.rewrite.commit import CommitResult, ReplaceCommit, RewriteBasis
from metastore.procedures.rewrite.conflicts import Rewritten
from metastore.procedures.rewrite.options import parse_options
from metastore.procedures.rewrite.outcome import RESULT, GroupTally, RewriteCall, describe_plan, done_groups, row_of
from metastore.procedures.rewrite.task import FRAGMENTS, outcomes, rewrite_piece


class RewriteDataFiles(TableDataRewriteDistributedProcedure[RewriteCall]):
    """Replaces data files of one table with new files that hold the same rows."""

    def create_context(self, call: CallContext, arguments: Mapping[str, Any]) -> RewriteCall:
        """Load the table, pin its snapshot, and parse the arguments.

        Raises InvalidRequestError if arguments do not fit the table, ProcedureError if the table is not supported.
        """
        target = call.table(arguments["schema"], arguments["table_name"])
        if target.is_component:
            raise ProcedureError(
                f"{target} is one of the metastore's own: it has one file for each of its partitions, kept so by every "
                "commit, and nothing to rewrite"
            )
        table = target.load()
        require_written_version(table, target)
        carried_schema(str(target), table.schema())  # refuses what cannot be carried into new files
        sorted_by = self.sorted_by_of(arguments)
        strategy = strategy_of(arguments["strategy"], sorted_by)
        options = parse_options(arguments["options"] or {}, table.metadata.properties, strategy)
        if options.output_spec_id is not None:
            _require_usable_spec(target, table, options.output_spec_id)
        order: tuple[SortKey | AlongCurve, ...] = ()
        if strategy == "sort":
            order = rewriting_order(str(target), table.schema(), table.sort_order(), sorted_by)
        branch = MAIN_BRANCH if arguments["branch"] is None else arguments["branch"]
        return RewriteCall(
            call=call,
            target=target,
            table=table,
            branch=branch,
            snapshot=_snapshot(target, table, branch),
            filter=FileFilter.of(self.filter_of(arguments), table.schema()),
            order=order,
            sort_order_id=table.sort_order().order_id if order and not sorted_by else None,
            options=options,
            dry_run=bool(arguments["dry_run"]),
        )

    def begin(self, context: RewriteCall) -> Plan:
        """Choose files of the pinned snapshot, and split the work. Raises ProcedureError if a file is not supported."""
        options, target = context.options, context.target
        chunks: list[Piece] = []
        expression = context.filter.expression
        if context.snapshot is not None and not isinstance(expression, AlwaysFalse):
            metadata = context.table.metadata
            limit = None if isinstance(expression, AlwaysTrue) else expression
            found_files = live_files(metadata, context.table.io, context.snapshot, limit)
            context.files = replace(found_files, data=context.filter.choose(found_files.data, metadata))
            found = candidates(context.files, unpartitioned_specs(metadata))
            context.choice = choose(found, context.output_spec_id, options)
            chosen = [candidate for group in context.choice.groups for candidate in group.candidates]
            refuse_what_is_not_read(str(target), chosen)
            specs = {context.output_spec_id, *(each.live.file.spec_id for each in chosen)}
            require_known_transforms(str(target), metadata, specs)
            for group in context.choice.groups:
                cut = pieces(group, options, whole=bool(context.order))
                context.pieces[group.number] = len(cut)
                chunks += cut
        if context.dry_run:
            chunks = []
        return Plan(
            chunks=chunks,
            task=partial(rewrite_piece, _job(context)),
            fragment_schema=FRAGMENTS,
            pinned=context.snapshot.snapshot_id if context.snapshot else None,
            describe=describe_plan(context),
            files=sum(len(group.candidates) for group in context.choice.groups),
            wave=_wave(context, chunks) if options.partial_progress else None,
        )

    def finish(self, context: RewriteCall, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> Mapping[str, Any]:
        """Commit the groups: all at once, or as they arrive with partial progress.

        Raises ConflictError if a group's files were changed meanwhile (with partial progress: if all groups or too many
        commits failed), and what :meth:`ReplaceCommit.commit` raises.
        """
        if context.dry_run or context.snapshot is None:
            return row_of(context, message=plan.describe, planned=context.dry_run)
        tally = GroupTally(context)
        if context.options.partial_progress:
            self._commit_as_they_come(context, fragments, tally)
        else:
            done = list(done_groups(context, fragments))
            if done or context.options.remove_dangling_deletes:
                tally.add(done, _commit(context, done, keep_going=False))
        return tally.row()

    def abort(self, context: RewriteCall, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> None:
        """Remove the new files in ``fragments`` that are not committed."""
        paths = {file.file_path for batch in fragments for outcome in outcomes(batch) for file in outcome.files}
        discard(context.table.io, paths - context.kept)

    @staticmethod
    def _commit_as_they_come(context: RewriteCall, fragments: Iterable[pa.RecordBatch], tally: GroupTally) -> None:
        """Commit groups in at most ``max_commits`` parts; those of a part that conflicts count as failed."""
        options = context.options
        size = -(-len(context.choice.groups) // options.max_commits)
        waiting: list[Rewritten] = []
        failed_commits = 0
        for group in done_groups(context, fragments, tally):
            waiting.append(group)
            if len(waiting) < size and tally.open_groups:
                continue
            try:
                tally.add(waiting, _commit(context, waiting, keep_going=True))
            except ConflictError as error:
                failed_commits += 1
                tally.fail({group.group: str(error) for group in waiting})
                if failed_commits > options.max_failed_commits:
                    raise
            waiting = []
        if waiting:
            tally.add(waiting, _commit(context, waiting, keep_going=True))


def _commit(context: RewriteCall, groups: list[Rewritten], *, keep_going: bool) -> CommitResult:
    """Make one commit. Its new files count as kept until its outcome is known."""
    snapshot = context.snapshot
    assert snapshot is not None
    table = context.table
    files = context.files
    commit = ReplaceCommit(
        target=context.target,
        pinned=RewriteBasis(
            context.branch,
            snapshot,
            table.metadata.table_uuid,
            files.manifests,
            frozenset(live.path for live in files.deletes),
        ),
        output_spec_id=context.output_spec_id,
        keep_sequence=context.options.use_starting_sequence_number,
        all_deletes=context.options.remove_dangling_deletes,
        timeout=context.call.settings.iceberg.commit.timeout,
    )
    paths = {file.file_path for group in groups for file in group.added}
    context.kept |= paths
    try:
        return commit.commit(groups, keep_going=keep_going)
    except OutcomeUnknownError:
        raise
    except Exception:
        context.kept -= paths
        raise


def _snapshot(target: TargetTable, table: Table, branch: str) -> Snapshot | None:
    ref = table.metadata.refs.get(branch)
    if ref is None:
        if branch == MAIN_BRANCH:
            return None
        raise NotFoundError(f"{target} has no branch {branch!r}")
    if ref.snapshot_ref_type != SnapshotRefType.BRANCH:
        raise InvalidRequestError(f"Ref {branch} is a tag not a branch")
    return table.metadata.snapshot_by_id(ref.snapshot_id)


def _require_usable_spec(target: TargetTable, table: Table, spec_id: int) -> None:
    """Raise InvalidRequestError if the table's rows cannot be partitioned by the spec."""
    spec = table.metadata.specs().get(spec_id)
    if spec is None:
        raise InvalidRequestError(f"output-spec-id: {target} has no partition spec {spec_id}")
    known = table.schema().field_ids
    gone = [f.name for f in spec.fields if f.source_id not in known and not isinstance(f.transform, VoidTransform)]
    if gone:
        raise InvalidRequestError(
            f"output-spec-id: partition spec {spec_id} of {target} divides by columns that were dropped, for "
            f"{', '.join(gone)}"
        )


def _job(context: RewriteCall) -> RewriteJob:
    """The job of every task; warns if the table asks for files of another format."""
    metadata = context.table.metadata
    warn_of_other_format(str(context.target), metadata.properties)
    return replace(
        RewriteJob.of(str(context.target), metadata, context.table.io),
        output_spec_id=context.output_spec_id,
        order=context.order,
        sort_order_id=context.sort_order_id,
        keep_going=context.options.partial_progress,
        keeps_lineage=metadata.format_version >= VERSION_OF_LINEAGE,
    )


def _wave(context: RewriteCall, chunks: list[Piece]) -> int:
    """Returns the number of pieces per wave (at least 1) that covers as many groups as the call allows concurrently."""
    groups = max(1, len(context.choice.groups))
    return max(1, -(-len(chunks) * min(groups, context.options.max_concurrent_groups) // groups))


rewrite_data_files: Final = RewriteDataFiles(
    "system",
    "rewrite_data_files",
    (
        Argument("schema"),
        Argument("table_name"),
        Argument("filter", required=False, default="TRUE"),
        Argument("strategy", required=False),
        Argument("sorted_by", "ARRAY(VARCHAR)", required=False),
        Argument("options", "MAP(VARCHAR, VARCHAR)", required=False),
        Argument("branch", required=False),
        Argument("dry_run", "BOOLEAN", required=False, default=False),
    ),
    result=RESULT,
    description="Writes small files together into larger ones, splits large ones, applies deletes, sorts rows.",
)
"""The procedure ``system.rewrite_data_files``."""


def candidates(files: LiveFiles, unpartitioned: frozenset[int]) -> list[Candidate]:
    """Returns the data files with their deletes."""
    deletes = Deletes(files.deletes, unpartitioned)
    found = []
    for live in files.data:
        near = deletes.of(live)
        own = tuple(delete for delete in near if only_path(delete.file) is not None)
        found.append(Candidate(live, tuple(near), own))
    return found


def refuse_what_is_not_read(name: str, chosen: Sequence[Candidate]) -> None:
    """Raise ProcedureError if a file to rewrite, or one of its delete files, is in a format that cannot be read."""
    for candidate in chosen:
        for file in (candidate.live.file, *(delete.file for delete in candidate.deletes)):
            is_vector = file.file_format is FileFormat.PUFFIN and file.content == DataFileContent.POSITION_DELETES
            if file.file_format not in READABLE and not is_vector:
                raise ProcedureError(
                    f"{file.file_path} of {name} is {file.file_format.value}, which is not read. Nothing was changed; "
                    "choose other files by filter"
                )
