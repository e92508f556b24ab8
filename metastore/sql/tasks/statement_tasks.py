"""Runs the tasks of a statement that writes rows, and keeps account of the files that they write.

Place in the flow: a divided query (:mod:`metastore.sql.tasks.division`) becomes one task for each part of its table. A
task answers with one row: a pickled answer, whose files a commit may name. Nothing else returns to this machine.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol, cast

import pyarrow as pa
from pyiceberg.manifest import DataFile

from metastore.engines.engine import Chunk, Engine
from metastore.lake.writes.task_files import TaskFiles

ANSWERS: Final = pa.schema({"answer": pa.binary()})
"""One pickled answer in each row."""

_PARTS_A_CORE: Final = 2
"""Tasks for each core, so that tasks of unequal cost end together."""

Dealt = tuple[int, pa.RecordBatch]
"""Rows, and the number of the group that they belong to."""

Deal = Callable[[Iterator[pa.RecordBatch]], Iterable[Dealt]]
"""A task on all rows of a group, which deals its own rows."""


class StatementEngine(Engine, Protocol):
    """An engine that runs statements, as its capabilities say."""

    @property
    def repeats_tasks(self) -> bool:
        """Whether a task of the last run may have had several attempts, whose files no answer names."""

    def shuffle(
        self,
        chunks: Sequence[Chunk],
        deal: Callable[[Chunk], Iterable[Dealt]],
        between: Sequence[Deal],
        gather: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
        groups: int,
        schema: pa.Schema,
    ) -> Iterator[pa.RecordBatch]:
        """Run ``deal`` on every chunk, then ``gather`` once on all rows of each of ``groups``; yields its batches.

        Each of ``between`` runs before it, in order, on all rows of each group, and deals its own rows to groups again.
        A group without rows may be left out. Rows of a group are not in memory at once. Batches keep the metadata of
        their schemas. Guarantees as :meth:`metastore.engines.engine.Engine.run`.
        """


def answers(
    engine: Engine, files: TaskFiles, run: Callable[[StatementEngine], Iterator[pa.RecordBatch]]
) -> Iterator[Any]:
    """Yields the answer of each task that ``run`` starts on ``engine``.

    The caller adds the files of each answer to ``files``. Raises the first error of a task, and EngineError.
    """
    able = cast("StatementEngine", engine)
    files.start()
    for batch in run(able):
        for row in batch.to_pylist():
            yield pickle.loads(row["answer"])  # noqa: S301 - our own task wrote it
    files.end(repeated=able.repeats_tasks)


def answer(content: tuple[Sequence[DataFile], Any]) -> pa.RecordBatch:
    """Returns the row of a task: the files that it wrote, and what else it found."""
    return pa.record_batch([pa.array([pickle.dumps(content)], pa.binary())], schema=ANSWERS)


def packed_part(number: int, part: object) -> pa.RecordBatch:
    """Returns a part of a table with its number as a row, which one task sends to another."""
    return pa.record_batch({"part": pa.array([pickle.dumps((number, part))], pa.binary())})


def unpacked_parts(rows: pa.RecordBatch) -> dict[int, Any]:
    """Returns the parts in ``rows``, of other tasks of the same statement, by their numbers."""
    return dict(pickle.loads(each.as_py()) for each in rows.column(0))  # noqa: S301 - our own task sent it


def task_count(engine: Engine) -> int:
    """Returns the number of tasks that a small table is cut into at least."""
    return engine.parallelism * _PARTS_A_CORE
