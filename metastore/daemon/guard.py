"""Checks before every commit and every deletion of the daemon: lease, budget, and whether the process stops.

Place in the flow: the daemon calls procedures on :class:`GuardedCatalogs` and a :class:`GuardedEngine`. The guard is
asked right before a table's commit is published, and before each chunk of files is deleted or rewritten. For time and
stopping, it is asked after each result of a task. Procedures do not know the guard: to them, a commit was refused. If a
procedure is stopped early, its next run completes the work.

A leader that is paused between check and act does no harm. A commit succeeds only if the table is still as planned on.
A deleted file was unreachable when the lease was proven, and its name is never used again.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from time import monotonic
from typing import Any, Final, Literal, TypeVar

import pyarrow as pa
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import TableRequirement, TableUpdate

from metastore.components.catalogs import Catalogs, Pointers
from metastore.components.storage.table import ComponentTable
from metastore.daemon.inquiry import Inquiries
from metastore.daemon.policy import Budget
from metastore.engines.engine import Capabilities, Engine
from metastore.errors import MetastoreError, StorageError
from metastore.lake.iceberg.catalogs.catalog_entry import CatalogEntry
from metastore.lake.iceberg.catalogs.metadata_document import MetadataDocument
from metastore.lake.iceberg.catalogs.pointers import Pointer
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.stores.deletion import DeletionChunk, delete_files
from metastore.lake.writes.pieces import Piece

Chunk = TypeVar("Chunk")
T = TypeVar("T")
Why = Literal["stopped", "bounded"]

_LONG_S: Final = 1.0


@dataclass
class Guard:
    """The guard of one run. ``lease`` raises if the lease is not held; ``seconds`` returns the duration so far.

    ``sizes`` are the sizes of files that may be deleted, if the budget counts bytes. Afterwards, :attr:`why` is the
    reason for stopping early, if any, and :attr:`said` is that reason as a sentence.
    """

    lease: Callable[[], None]
    stopping: Callable[[], bool]
    seconds: Callable[[], float]
    budget: Budget = field(default_factory=Budget)
    sizes: Mapping[str, int] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    why: Why | None = None
    message: str | None = None

    def before_change(self) -> None:
        """Check right before a commit or a deletion. Raises StorageError if it is refused; then nothing was changed."""
        self.between()
        try:
            self.lease()
        except MetastoreError as error:
            raise self._refusal("stopped", str(error)) from error

    def between(self) -> None:
        """Check time and stopping, without a request to the store. Raises StorageError."""
        if self.stopping():
            raise self._refusal("stopped", "the daemon is stopping")
        if self.budget.seconds is not None and self.seconds() >= self.budget.seconds:
            raise self._refusal("bounded", f"the run reached its budget of {self.budget.seconds} s")

    def admit(self, chunk: DeletionChunk) -> DeletionChunk:
        """Returns the part of ``chunk`` that the budget allows, and counts it as deleted."""
        taken: list[str] = []
        for location in chunk.locations:
            size = self.sizes.get(location, 0)
            if self._is_full(1, size):
                break
            self._count(1, size)
            taken.append(location)
        return replace(chunk, locations=taken)

    def within(self, files: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
        """Returns the ``files`` (location and size) that the budget of one run allows; for a dry run."""
        taken: list[tuple[str, int]] = []
        for location, size in files:
            if self._is_full(1, size):
                self.budget_error()
                break
            self._count(1, size)
            taken.append((location, size))
        return taken

    def leave(self, files: int) -> None:
        """Record that a limit of the procedure left files for later runs."""
        if files > 0:
            self.why = "bounded"
            self.message = f"{files} files are left for later runs: the budget of one run is {self.budget.files} files"

    def admit_pieces(self, pieces: Sequence[Piece]) -> None:
        """Count a wave of rewriting. Refuses the wave that exceeds the budget, unless it is the first."""
        size = sum(piece.size for piece in pieces)
        if self._is_full(0, size):
            raise self.budget_error()
        self._count(0, size)

    def budget_error(self) -> StorageError:
        """Returns the error for a budget of files or bytes that is used up."""
        return self._refusal("bounded", f"the budget of one run is used up: {self.files} files, {self.bytes} bytes")

    def _is_full(self, files: int, size: int) -> bool:
        """Returns whether that much more exceeds the budget. The first is always allowed, or large files never run."""
        budget = self.budget
        over = budget.files is not None and self.files + files > budget.files
        over = over or (budget.bytes is not None and self.bytes + size > budget.bytes)
        return over and bool(self.files or self.bytes)

    def _count(self, files: int, size: int) -> None:
        self.files += files
        self.bytes += size

    def _refusal(self, why: Why, text: str) -> StorageError:
        self.why, self.message = why, f"{text}; nothing further was changed"
        return StorageError(self.message)


@dataclass(frozen=True)
class GuardedTable(TargetTable):
    """A table whose commits ask the guard first. ``inquiries`` limit the wait for its answers."""

    guard: Guard | None = None
    inquiries: Inquiries | None = None

    def load(self) -> Table:
        """Like :meth:`TargetTable.load`; also raises StorageError if the answer takes too long."""
        return self._ask(super().load)

    def newest_version(self, earlier: Pointer | None = None) -> Pointer | None:
        """Like :meth:`TargetTable.newest_version`; also raises StorageError if the answer takes too long."""
        return self._asked_with_others(partial(super().newest_version, earlier))

    def newest_document(self, pointer: Pointer | None = None) -> MetadataDocument | None:
        """Like :meth:`TargetTable.newest_document`; also raises StorageError if the answer takes too long."""
        return self._asked_with_others(partial(super().newest_document, pointer))

    def commit(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        """Like :meth:`TargetTable.commit`; also raises StorageError if the guard refuses."""
        assert self.guard is not None
        self.guard.before_change()
        return super().commit(table, requirements, updates)

    def _ask(self, question: Callable[[], T]) -> T:
        if self.inquiries is None:
            return question()
        [answer] = self.inquiries.ask(f"table {self}", lambda: [question()])
        return answer

    def _asked_with_others(self, question: Callable[[], T]) -> T:
        """Returns the answer. When many tables are asked in turn, a hanging catalog costs one wait, not one a table."""
        hanging = None if self.inquiries is None else self.inquiries.hanging_of(self.catalog_name)
        if hanging is not None:
            raise StorageError(f"it is not queried while {hanging} does not answer")
        return self._ask(question)


class Looks:
    """Where the tables of catalogs point, for one pass. A listing of over a second is used for as long again.

    The first answers of a listing are that old anyway when its last one comes. Where tables are asked one by one, each
    deletion would otherwise cost a request for every table. ``monotonic`` counts seconds.
    """

    def __init__(self, monotonic: Callable[[], float] = monotonic) -> None:
        self._monotonic = monotonic
        self._kept: dict[str, tuple[Pointers, float]] = {}

    def of(self, catalog: str, look: Callable[[], Pointers]) -> Pointers:
        """Returns the pointers of ``catalog``, from the kept listing or from ``look``. Raises what ``look`` raises."""
        began = self._monotonic()
        pointers, until = self._kept.get(catalog, ({}, 0.0))
        if began < until:
            return pointers
        found = look()
        took = self._monotonic() - began
        if took > _LONG_S:
            self._kept[catalog] = found, began + 2 * took
        return found


class GuardedCatalogs(Catalogs):
    """The catalogs of a session, over the same connections, with tables that ask the guard.

    ``inquiries`` limit the wait for each catalog, when it is listed and when one of its tables is loaded. This matters
    because a procedure on one table may read all catalogs. ``looks`` are those of the pass.
    """

    def __init__(
        self,
        catalogs: Catalogs,
        guard: Guard,
        inquiries: Inquiries | None = None,
        looks: Looks | None = None,
    ) -> None:
        self.__dict__.update(vars(catalogs))
        self._guard = guard
        self._inquiries = inquiries
        self._looks = looks or Looks()

    def schemas(self, catalog: str) -> list[str]:
        """Like :meth:`Catalogs.schemas`; also raises StorageError if the answer takes too long."""
        return self._ask(catalog, partial(super().schemas, catalog))

    def tables(self, catalog: str, schema: str) -> list[str]:
        """Like :meth:`Catalogs.tables`; also raises StorageError if the answer takes too long."""
        return self._ask(catalog, partial(super().tables, catalog, schema))

    def pointers(self, catalog: str) -> Pointers:
        """Like :meth:`Catalogs.pointers`, by the :class:`Looks` of the pass."""
        return self._looks.of(catalog, partial(super().pointers, catalog))

    def listed_pointers(self, catalog: str) -> dict[tuple[str, str], str] | None:
        """Like :meth:`Catalogs.listed_pointers`; also raises StorageError if the answer takes too long."""
        question = super().listed_pointers
        [found] = self._ask(catalog, lambda: [question(catalog)])
        return found

    def _ask(self, catalog: str, question: Callable[[], list[T]]) -> list[T]:
        return question() if self._inquiries is None else list(self._inquiries.ask(f"catalog {catalog}", question))

    def target(self, catalog: str, schema: str, name: str) -> GuardedTable:
        """Like :meth:`Catalogs.target`."""
        found = super().target(catalog, schema, name)
        return GuardedTable(**vars(found), guard=self._guard, inquiries=self._inquiries)


class GuardedEngine:
    """An engine that asks the guard before each chunk that deletes or rewrites, and after every batch."""

    def __init__(self, engine: Engine, guard: Guard) -> None:
        self._engine = engine
        self._guard = guard
        self.name: Final = engine.name
        self.capabilities: Final = Capabilities()
        self.parallelism: Final = engine.parallelism

    def run(
        self, chunks: Sequence[Chunk], task: Callable[[Chunk], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Like :meth:`Engine.run`; also raises StorageError if the guard refuses. Earlier chunks are done by then."""
        self._guard.between()
        if task is delete_files:
            yield from self._delete(chunks, schema)
            return
        pieces = [chunk for chunk in chunks if isinstance(chunk, Piece)]
        if pieces:
            self._guard.admit_pieces(pieces)
            self._guard.before_change()
        for batch in self._engine.run(chunks, task, schema):
            yield batch
            self._guard.between()

    def close(self) -> None:
        """Do nothing: the engine belongs to the session."""

    def _delete(self, chunks: Sequence[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        wave = max(1, self.parallelism)
        for first in range(0, len(chunks), wave):
            wanted = chunks[first : first + wave]
            self._guard.before_change()
            admitted = [self._guard.admit(chunk) for chunk in wanted]
            yield from self._engine.run([chunk for chunk in admitted if chunk.locations], delete_files, schema)
            if any(len(a.locations) < len(w.locations) for a, w in zip(admitted, wanted, strict=True)):
                raise self._guard.budget_error()


@dataclass(frozen=True)
class _GuardedEntry(CatalogEntry):
    """The entry of a component's table. Its commits ask the guard first."""

    guard: Guard | None = None

    def commit(
        self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]
    ) -> CommitTableResponse:
        assert self.guard is not None
        self.guard.before_change()
        return super().commit(table, requirements, updates)


def guard_table(table: ComponentTable, guard: Guard) -> ComponentTable:
    """Returns the component's table with commits that ask ``guard``."""
    made = copy.copy(table)
    made.entry = _GuardedEntry(table.entry.source, table.entry.identifier, table.entry.location, guard)
    return made
