"""Modify: operations staged in order, then carried out as one transaction with one snapshot, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

import pyarrow as pa
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, And, BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.table.snapshots import Snapshot

from metastore.errors import ConflictError, InvalidRequestError
from metastore.mapping.filters import require_partition_columns
from metastore.mapping.rows import PartitionRows, by_partition, rows_of
from metastore.mapping.schema import iceberg_schema, partition_spec
from metastore.model.fields import Unit
from metastore.model.vocabulary import MetadataType
from metastore.operations.changes import Delete, Operation, Overwrite, outcome_of
from metastore.predicates.given_filter import Filter, expression_of
from metastore.storage.background_writer import Ahead, BackgroundWriter
from metastore.storage.clustering import Change
from metastore.storage.group_commit import GroupCommitter
from metastore.storage.key_range import split
from metastore.storage.partition_encoder import EncodedPartition, PartitionEncoder
from metastore.storage.partition_writer import PartitionWriter, partition_folder
from metastore.storage.planning import partition_test
from metastore.storage.planning import plan as plan_files
from metastore.storage.table import ComponentTable, TableState
from metastore.stores.files import discard

U = TypeVar("U", bound=Unit)

PartitionsOf = Callable[[frozenset[MetadataType]], BooleanExpression]
"""Which partitions can hold units of given types, as a filter over partition columns."""


class Modify(Generic[U]):
    """A transaction being put together; nothing is written before :meth:`execute` or :meth:`purge`."""

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
        """Replace or add the partitions that ``units`` belong to: afterwards each holds exactly these units.

        Takes units, or an Arrow table in on-disk columns. Units of one partition may stand anywhere in the call.
        Raises InvalidRequestError for null partition keys, keys that cannot name a folder, unknown columns and values
        that do not fit.
        """
        if partitions := self._partitions(units):
            self._operations.append(Overwrite(partitions))
        return self

    def overwrite_ahead(self, units: Iterable[U] | pa.Table) -> Modify[U]:
        """As :meth:`overwrite`, but files are written from now on, while the caller makes further units.

        So rows need not be held until all are known. The component's table is made if there is none. Who calls this
        must call :meth:`execute`, which removes the files where it fails, or :meth:`abandon`. Raises as
        :meth:`overwrite`, and what writing raised.
        """
        if partitions := self._partitions(units):
            writer = self._writer_ahead()
            self._operations.append(Overwrite([writer.add(partition) for partition in partitions]))
        return self

    def encoder(self) -> PartitionEncoder:
        """What makes the content of partitions for :meth:`overwrite_encoded`; it can be sent to tasks of an engine.

        As :meth:`overwrite_ahead` otherwise.
        """
        return self._writer_ahead().encoder

    def overwrite_encoded(self, partitions: Sequence[EncodedPartition]) -> Modify[U]:
        """As :meth:`overwrite_ahead`, with what :meth:`encoder` made of each partition's rows."""
        for partition in partitions:
            partition_folder(self._unit_type, partition.key)
        writer = self._writer_ahead()
        self._operations.append(Overwrite([writer.add(partition) for partition in partitions]))
        return self

    def abandon(self) -> None:
        """Forget all operations, and remove what was written ahead for them."""
        self._operations = []
        if self._ahead is not None:
            self._ahead.abandon()
            self._ahead = None

    def delete(self, filter_: Filter, *metadata_types: MetadataType) -> Modify[U]:
        """Remove whole partitions. The filter may use partition columns only; the types, ALL or one that fills its own.

        For tables that is TABLE, the partition of general information; a single kind of unit inside a segment's
        partition cannot be deleted, since a partition goes whole. Raises InvalidRequestError.
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
        """Carry out all operations, in their order, as one snapshot; the version that is current then.

        With ``if_version`` nothing happens unless that version is current (compare-and-set). With ``within`` too, a
        filter over partition columns, other partitions may have changed since that version; those it matches must not.
        No operation, or none that changes anything, makes no snapshot.

        Raises ConflictError, OutcomeUnknownError, StorageError; InvalidRequestError for an unfit ``within``. After any
        other error the transaction is over, and nothing of it is staged any more: whoever tries again reads and stages
        again, and who does not is refused.
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

    def execute_unless_changed(self, version: int, within: BooleanExpression) -> int | None:
        """As :meth:`execute`, on top of ``version``; None where units ``within`` were changed since by others."""
        try:
            return self.execute(if_version=version, within=within)
        except ConflictError:
            return None

    def purge(self) -> int:
        """Remove all rows, as one snapshot; table, history and files stay until they expire. Stands alone.

        Raises InvalidRequestError when other operations are staged.
        """
        if self._operations:
            raise InvalidRequestError("purge stands alone: execute the staged operations first")
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
        if not operations and if_version is None:
            state = self._table.state()
            return state.version if state else 0
        table = self._table.writable_as_seen()
        state = self._table.state_of(table)
        outcome = outcome_of(operations, state.schema, state.spec)
        ahead = [partition for partition in outcome.partitions if isinstance(partition, Ahead)]
        files = PartitionWriter(table.io, self._unit_type, state).write(
            [partition for partition in outcome.partitions if isinstance(partition, PartitionRows)]
        )
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
        )
        if version != state.version:
            self._after_commit(version)
        return version

    def _require_unchanged(self, io: FileIO, fresh: TableState, since: int, watched: BooleanExpression) -> None:
        """Refuse when the partitions that ``watched`` matches have other files now than at version ``since``."""
        manifests = self._table.manifests(io)
        base = fresh.metadata.snapshot_by_id(since)
        wanted = split(watched, fresh.spec)

        def files_at(snapshot: Snapshot | None) -> set[str]:
            planned = plan_files(manifests, manifests.of(snapshot), fresh.schema, fresh.spec, wanted)
            return {file.file_path for file in planned}

        now = files_at(fresh.snapshot)
        try:
            then = files_at(base)
        except FileNotFoundError as error:
            # It expired meanwhile, and what it held can no longer be proven.
            raise ConflictError(f"version {since} of {self._table.name} expired; nothing was changed") from error
        if now != then or (base is None and since != 0):
            raise ConflictError(
                f"the watched partitions of {self._table.name} changed since version {since}; nothing was changed"
            )
