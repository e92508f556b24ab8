"""What stands before every commit and every deletion of the daemon: lease, budget, and whether it is to stop.

Place in the flow: the daemon calls procedures on :class:`GuardedCatalogs` and a :class:`GuardedEngine`, so that the
guard is asked right before a table's commit is published, before every chunk of files is deleted or rewritten, and, for
time and stopping, whenever a task has brought something. Procedures do not notice it: to them a commit was refused.
What they leave when they are cut short is theirs to complete in the next run.

Why a leader that is paused between the question and the act does no harm: a commit holds only if the table is as it was
planned on, whoever asks; and what is deleted was reached by nothing when the lease was proven, under names that nobody
gives again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final, Literal, TypeVar

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.update import TableRequirement, TableUpdate

from metastore.catalogs import Catalogs
from metastore.daemon.inquiry import Inquiries
from metastore.daemon.policy import Budget
from metastore.engine import Capabilities, Engine
from metastore.errors import MetastoreError, StorageError
from metastore.iceberg.metadata_document import MetadataDocument
from metastore.iceberg.target import TargetTable
from metastore.procedures.rewrite.groups import Piece
from metastore.stores.deletion import DeletionChunk, delete_files

Chunk = TypeVar("Chunk")
T = TypeVar("T")
Why = Literal["stopped", "bounded"]


@dataclass
class Guard:
    """The guard of one run. ``lease`` raises when the lease is not held; ``seconds`` is the time that the run took.

    ``sizes`` are those of files that may be deleted, where the budget counts bytes. :attr:`why` tells afterwards
    whether the run was cut short, and by what; :attr:`said` tells it to people.
    """

    lease: Callable[[], None]
    stopping: Callable[[], bool]
    seconds: Callable[[], float]
    budget: Budget = field(default_factory=Budget)
    sizes: Mapping[str, int] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    why: Why | None = None
    said: str | None = None

    def before_change(self) -> None:
        """Right before something is committed or deleted. Raises StorageError: refused, and nothing was changed."""
        self.between()
        try:
            self.lease()
        except MetastoreError as error:
            raise self._refused("stopped", str(error)) from error

    def between(self) -> None:
        """At any time; asks nothing of the store. Raises StorageError."""
        if self.stopping():
            raise self._refused("stopped", "the daemon is to stop")
        if self.budget.seconds is not None and self.seconds() >= self.budget.seconds:
            raise self._refused("bounded", f"the run took {self.budget.seconds} s, which is its budget")

    def admitted(self, chunk: DeletionChunk) -> DeletionChunk:
        """As much of ``chunk`` as the budget leaves room for, counted as deleted."""
        taken: list[str] = []
        for location in chunk.locations:
            size = self.sizes.get(location, 0)
            if self._is_full(1, size):
                break
            self._count(1, size)
            taken.append(location)
        return replace(chunk, locations=taken)

    def within(self, files: Sequence[tuple[str, int]]) -> Sequence[tuple[str, int]]:
        """Those of ``files``, locations and sizes, that the budget of one run leaves room for; for a dry run."""
        taken: list[tuple[str, int]] = []
        for location, size in files:
            if self._is_full(1, size):
                self.exhausted()
                break
            self._count(1, size)
            taken.append((location, size))
        return taken

    def leave(self, files: int) -> None:
        """Record that files were left for later runs, because of a bound that the procedure was given."""
        if files > 0:
            self.why = "bounded"
            self.said = f"{files} files are left for later runs: the budget of one run is {self.budget.files} files"

    def admit_pieces(self, pieces: Sequence[Piece]) -> None:
        """Count a wave of rewriting; refuse the one that goes beyond the budget, unless it is the first."""
        size = sum(piece.size for piece in pieces)
        if self._is_full(0, size):
            raise self.exhausted()
        self._count(0, size)

    def exhausted(self) -> StorageError:
        """The error for a budget of files or bytes that is used up."""
        return self._refused("bounded", f"the budget of one run is used up: {self.files} files, {self.bytes} bytes")

    def _is_full(self, files: int, size: int) -> bool:
        """Whether so much more would be too much. The first is let in, or what is large would never have its turn."""
        budget = self.budget
        over = budget.files is not None and self.files + files > budget.files
        over = over or (budget.bytes is not None and self.bytes + size > budget.bytes)
        return over and bool(self.files or self.bytes)

    def _count(self, files: int, size: int) -> None:
        self.files += files
        self.bytes += size

    def _refused(self, why: Why, text: str) -> StorageError:
        self.why, self.said = why, f"{text}; nothing further was changed"
        return StorageError(self.said)


@dataclass(frozen=True)
class GuardedTable(TargetTable):
    """A table whose commits ask the guard first. With ``inquiries`` it is waited for within their limit."""

    guard: Guard | None = None
    inquiries: Inquiries | None = None

    def load(self) -> Table:
        """As :meth:`TargetTable.load`; StorageError also when the answer does not come in time."""
        return self._asked(super().load)

    def newest_pointer(self) -> str | None:
        """As :meth:`TargetTable.newest_pointer`; StorageError also without an answer in time."""
        return self._asked_with_others(super().newest_pointer)

    def newest_document(self) -> MetadataDocument | None:
        """As :meth:`TargetTable.newest_document`; StorageError also without an answer in time."""
        return self._asked_with_others(super().newest_document)

    def commit(self, table: Table, requirements: Sequence[TableRequirement], updates: Sequence[TableUpdate]) -> Table:
        """As :meth:`TargetTable.commit`; StorageError when the guard refuses."""
        assert self.guard is not None
        self.guard.before_change()
        return super().commit(table, requirements, updates)

    def _asked(self, question: Callable[[], T]) -> T:
        if self.inquiries is None:
            return question()
        [answer] = self.inquiries.ask(f"table {self}", lambda: [question()])
        return answer

    def _asked_with_others(self, question: Callable[[], T]) -> T:
        """The answer, where many tables are asked in turn: a catalog that hangs is waited for once, not for each."""
        hanging = None if self.inquiries is None else self.inquiries.hanging_of(self.catalog_name)
        if hanging is not None:
            raise StorageError(f"it is not asked while {hanging} does not answer")
        return self._asked(question)


class GuardedCatalogs(Catalogs):
    """The catalogs of a session, over the same connections, with tables that ask the guard.

    With ``inquiries`` no catalog is waited for beyond their limit, neither when it is listed nor when a table of it is
    loaded: a procedure on one table may look at all catalogs.
    """

    def __init__(self, catalogs: Catalogs, guard: Guard, inquiries: Inquiries | None = None) -> None:
        self.__dict__.update(vars(catalogs))
        self._guard = guard
        self._inquiries = inquiries

    def schemas(self, catalog: str) -> list[str]:
        """As :meth:`Catalogs.schemas`; StorageError also when the answer does not come in time."""
        return self._asked(catalog, partial(super().schemas, catalog))

    def tables(self, catalog: str, schema: str) -> list[str]:
        """As :meth:`Catalogs.tables`; StorageError also when the answer does not come in time."""
        return self._asked(catalog, partial(super().tables, catalog, schema))

    def _asked(self, catalog: str, question: Callable[[], list[str]]) -> list[str]:
        return question() if self._inquiries is None else list(self._inquiries.ask(f"catalog {catalog}", question))

    def target(self, catalog: str, schema: str, name: str) -> GuardedTable:
        """As :meth:`Catalogs.target`."""
        found = super().target(catalog, schema, name)
        return GuardedTable(
            found.catalog_name,
            found.schema_name,
            found.name,
            found.source,
            found.identifier,
            found.load_component,
            self._guard,
            self._inquiries,
        )


class GuardedEngine:
    """An engine that asks the guard before chunks that delete or rewrite, and after every batch."""

    def __init__(self, engine: Engine, guard: Guard) -> None:
        self._engine = engine
        self._guard = guard
        self.name: Final = engine.name
        self.capabilities: Final = Capabilities()
        self.parallelism: Final = engine.parallelism

    def run(
        self, chunks: Sequence[Chunk], task: Callable[[Chunk], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`Engine.run`; StorageError when the guard refuses, by when earlier chunks are done."""
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
        """Nothing: the engine is the session's."""

    def _delete(self, chunks: Sequence[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        wave = max(1, self.parallelism)
        for first in range(0, len(chunks), wave):
            wanted = chunks[first : first + wave]
            self._guard.before_change()
            admitted = [self._guard.admitted(chunk) for chunk in wanted]
            yield from self._engine.run([chunk for chunk in admitted if chunk.locations], delete_files, schema)
            if any(len(a.locations) < len(w.locations) for a, w in zip(admitted, wanted, strict=True)):
                raise self._guard.exhausted()
