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
from metastore.sql.target import Dealt

ANSWERS: Final = pa.schema({"answer": pa.binary()})
"""One pickled answer in each row."""

_PARTS_A_CORE: Final = 2
"""Tasks for each core, so that tasks of unequal cost end together."""


class StatementEngine(Engine, Protocol):
    """An engine that runs statements, as its capabilities say."""

    @property
    def repeats_tasks(self) -> bool:
        """Whether a task of the last run may have had several attempts, whose files no answer names."""

    def shuffle(
        self,
        chunks: Sequence[Chunk],
        deal: Callable[[Chunk], Iterable[Dealt]],
        gather: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
        groups: int,
        schema: pa.Schema,
    ) -> Iterator[pa.RecordBatch]:
        """Run ``deal`` on every chunk, then ``gather`` once on all rows of each of ``groups``; yields its batches.

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


def task_count(engine: Engine) -> int:
    """Returns the number of tasks that a small table is cut into at least."""
    return engine.parallelism * _PARTS_A_CORE
