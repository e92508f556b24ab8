"""Modify: operations are staged in order, then committed as one transaction with one snapshot, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

import pyarrow as pa
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.table.snapshots import Snapshot

from metastore.components.operations.changes import Delete, Operation, Overwrite, outcome_of
from metastore.components.storage.background_writer import Ahead, BackgroundWriter
from metastore.components.storage.clustering import Change
from metastore.components.storage.group_commit import GroupCommitter
from metastore.components.storage.key_range import split
from metastore.components.storage.partition_encoder import EncodedPartition, PartitionEncoder, StoredPartition
from metastore.components.storage.partition_sender import PartitionSender, StoreProof
from metastore.components.storage.partition_writer import PartitionWriter
from metastore.components.storage.paths import partition_folder
from metastore.components.storage.planning import partition_test
from metastore.components.storage.planning import plan as plan_files
from metastore.components.storage.table import ComponentTable, TableState
from metastore.errors import ConflictError, InvalidRequestError
from metastore.lake.stores.files import discard
from metastore.lake.stores.locations import is_local
from metastore.model.fields import Unit
from metastore.model.mapping.filters import require_partition_columns
from metastore.model.mapping.rows import PartitionKey, PartitionRows, by_partition, rows_of
from metastore.model.mapping.schema import iceberg_schema, partition_spec
from metastore.model.vocabulary import MetadataType
from metastore.predicates.given_filter import Filter, expression_of

U = TypeVar("U", bound=Unit)

PartitionsOf = Callable[[frozenset[MetadataType]], BooleanExpression]
"""Returns a filter over partition columns: the partitions that can hold units of the given types."""


class Modify(Generic[U]):
    """A transaction under construction; nothing is written before :meth:`execute` or :meth:`purge`."""

    def __init__(
        self,
        unit_type: type[U],
        table: ComponentTable,
        committer: GroupCommitter,
        partitions_of: PartitionsOf,
        whole_types: frozenset[MetadataType],
        after_commit: Callable[[int], None],
    ) -> None:
        self._unit_type = unit_type
        self._table = table
        self._partitions_of = partitions_of
        self._whole_types = whole_types
        self._committer = committer
        self._after_commit = after_commit
        self._operations: list[Operation] = []
        self._ahead: BackgroundWriter | None = None
        self._failed: BaseException | None = None

    def overwrite(self, units: Iterable[U] | pa.Table) -> Modify[U]:
        """Replace or add the partitions of ``units``: afterwards each partition holds exactly these units.

        Takes units, or an Arrow table in on-disk columns. Units of one partition may appear anywhere in the call.
        Raises InvalidRequestError for null partition keys, keys that cannot name a folder, unknown columns, and values
        that do not fit.
        """
        if partitions := self._partitions(units):
            self._operations.append(Overwrite(partitions))
        return self

    def overwrite_ahead(self, units: Iterable[U] | pa.Table) -> Modify[U]:
        """As :meth:`overwrite`, but files are written from now on, while the caller creates more units.

        So the rows need not all be in memory at once. Creates the component's table if it does not exist. Afterwards,
        call :meth:`execute`, which removes the files if it fails, or :meth:`abandon`. Raises the errors of
        :meth:`overwrite`, and those of writing.
        """
        if partitions := self._partitions(units):
            writer = self._writer_ahead()
            self._operations.append(Overwrite([writer.add(partition) for partition in partitions]))
        return self

    def encoder(self) -> PartitionEncoder:
        """The encoder of partitions for :meth:`overwrite_encoded`; it can be sent to an engine's tasks.

        Otherwise as :meth:`overwrite_ahead`.
        """
        return self._writer_ahead().encoder

    def reach(self) -> StoreProof:
        """The proof that a process has the component's store. Otherwise as :meth:`encoder`."""
        return self._writer_ahead().reach

    def sender(self, folder_key: PartitionKey) -> PartitionSender:
        """What stores encoded partitions in an engine's tasks, in the folder of ``folder_key``.

        If this transaction fails or is abandoned, the files of all attempts of these tasks are removed, and if it
        succeeds, those of attempts that did not count. Otherwise as :meth:`encoder`.
        """
        return self._writer_ahead().sender(folder_key)

    def overwrite_encoded(self, partitions: Sequence[EncodedPartition | StoredPartition]) -> Modify[U]:
        """As :meth:`overwrite_ahead`, for partitions that :meth:`encoder` has encoded, or :meth:`sender` stored."""
        for partition in partitions:
            partition_folder(self._unit_type, partition.key)
        writer = self._writer_ahead()
        self._operations.append(
            Overwrite(
                [
                    writer.adopt(partition) if isinstance(partition, StoredPartition) else writer.add(partition)
                    for partition in partitions
                ]
            )
        )
        return self

    def abandon(self) -> None:
        """Discard all operations, and remove the files written ahead for them."""
        self._operations = []
        if self._ahead is not None:
            self._ahead.abandon()
            self._ahead = None

    def delete(self, filter_: Filter, *metadata_types: MetadataType) -> Modify[U]:
        """Remove whole partitions. The filter may use only partition columns; the type is ALL or has own partitions.

        For tables that type is TABLE, the partition of general information. Other units share the partition of their
        segment, and partitions are removed whole, so one kind of them cannot be deleted alone. Raises
        InvalidRequestError.
        """
        expression = self._partition_filter(filter_)
        types = frozenset(metadata_types)
        if others := sorted(str(kind) for kind in types - self._whole_types - {MetadataType.ALL}):
            raise InvalidRequestError(
                f"metadata of type {', '.join(others)} cannot be deleted alone: a partition goes whole. "
                "Delete ALL of a metadata key, or overwrite the segment without these units"
            )
        if types and MetadataType.ALL not in types:
            expression = And(expression, self._partitions_of(types))
        self._operations.append(Delete(expression))
        return self

    def execute(self, if_version: int | None = None, *, within: Filter | None = None) -> int:
        """Commit all operations, in their order, as one snapshot; returns the version that is current afterwards.

        With ``if_version`` the commit fails unless that version is current (compare-and-set). ``within``, a filter over
        partition columns, limits this check: only the partitions that it matches must be unchanged since that version.
        If no operation changes anything, there is no new snapshot.

        Raises ConflictError, OutcomeUnknownError, StorageError; InvalidRequestError if ``within`` does not fit. After
        any other error the transaction is over and nothing is staged any more: read and stage again before another try,
        otherwise the call is refused.
        """
        if within is not None and if_version is None:
            raise InvalidRequestError(
                "within narrows if_version: say which version the partitions must be unchanged since"
            )
        watched = None if within is None else self._partition_filter(within)
        if self._failed is not None and not self._operations:
            raise InvalidRequestError(
                "the transaction is over since its execution failed, and nothing was staged again"
            ) from self._failed
        operations, self._operations = self._operations, []
        try:
            version = self._run(operations, if_version, watched)
        except BaseException as error:
            self._failed = error
            self.abandon()
            raise
        self._failed = None
        return version

    def execute_unless_changed(self, version: int, within: BooleanExpression) -> int | ConflictError:
        """As :meth:`execute` upon ``version``; returns the conflict if others have since changed units ``within``."""
        try:
            return self.execute(if_version=version, within=within)
        except ConflictError as error:
            return error

    def purge(self) -> int:
        """Remove all rows, as one snapshot; table, history and files remain until they expire.

        No other operation may be staged: then it raises InvalidRequestError.
        """
        if self._operations:
            raise InvalidRequestError(
                "purge cannot be combined with other operations: execute the staged operations first"
            )
        return self._run([Delete(AlwaysTrue())])

    def _writer_ahead(self) -> BackgroundWriter:
        if self._ahead is None:
            table = self._table.writable_as_seen()
            state = self._table.state_of(table)
            self._ahead = BackgroundWriter(PartitionWriter(table.io, self._unit_type, state))
        return self._ahead

    def _partitions(self, units: Iterable[U] | pa.Table) -> list[PartitionRows]:
        partitions = by_partition(self._unit_type, rows_of(self._unit_type, units))
        for partition in partitions:
            partition_folder(self._unit_type, partition.key)
        return partitions

    def _partition_filter(self, filter_: Filter) -> BooleanExpression:
        expression = expression_of(filter_, iceberg_schema(self._unit_type))
        require_partition_columns(iceberg_schema(self._unit_type), partition_spec(self._unit_type), expression)
        return expression

    def _run(
        self, operations: list[Operation], if_version: int | None = None, watched: BooleanExpression | None = None
    ) -> int:
        """Commit ``operations`` as one snapshot and return its version; the present one if nothing is to be changed."""
        if not operations and if_version is None:
            state = self._table.state()
            return state.version if state else 0
        table = self._table.writable_as_seen()
        state = self._table.state_of(table)
        outcome = outcome_of(operations, state.schema, state.spec)
        ahead = [partition for partition in outcome.partitions if isinstance(partition, Ahead)]
        rows = [partition for partition in outcome.partitions if isinstance(partition, PartitionRows)]
        if self._ahead is not None and rows and not is_local(state.metadata.location):
            self._ahead.proceed()
        writer = PartitionWriter(table.io, self._unit_type, state)
        files, newest_table = writer.write(rows, self._committer.looked_up_beside)
        written_for = {state.metadata.table_uuid} if files else set()
        if self._ahead is not None:
            try:
                files |= self._ahead.finish(ahead)
            except BaseException:
                discard(table.io, [file.file_path for file in files.values()])
                raise
            written_for |= {self._ahead.table_uuid}
            self._ahead = None

        def plan(fresh: TableState) -> Change:
            if written_for - {fresh.metadata.table_uuid}:
                raise ConflictError(
                    f"{self._table.name} was created again while its files were being written; nothing was changed"
                )
            if watched is not None and if_version is not None and fresh.version != if_version:
                self._require_unchanged(table.io, fresh, if_version, watched)
            if isinstance(outcome.removed, AlwaysFalse):
                return Change(outcome.replaced, files)
            test = partition_test(fresh.schema, fresh.spec, split(outcome.removed, fresh.spec))
            return Change(outcome.replaced, files, test.may_match, test.matches)

        version = self._committer.commit(
            plan,
            list(files.values()),
            table.io,
            if_version if watched is None else None,
            conditional=watched is not None or not isinstance(outcome.removed, AlwaysFalse),
            looked=newest_table(),
        )
        if version != state.version:
            self._after_commit(version)
        return version

    def _require_unchanged(self, io: FileIO, fresh: TableState, since: int, watched: BooleanExpression) -> None:
        """Raise ConflictError if partitions that ``watched`` matches have other files now than at version ``since``."""
        manifests = self._table.manifests(io)
        base = fresh.metadata.snapshot_by_id(since)
        wanted = split(watched, fresh.spec)

        def files_at(snapshot: Snapshot | None) -> set[str]:
            planned = plan_files(manifests, manifests.of(snapshot), fresh.schema, fresh.spec, wanted)
            return {entry.data_file.file_path for _, entry in planned}

        now = files_at(fresh.snapshot)
        try:
            then = files_at(base)
        except FileNotFoundError as error:
            # The version has expired, so its content can no longer be proven.
            raise ConflictError(f"version {since} of {self._table.name} expired; nothing was changed") from error
        if now != then or (base is None and since != 0):
            raise ConflictError(
                f"the watched partitions of {self._table.name} changed since version {since}; nothing was changed"
            )
