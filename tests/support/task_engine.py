"""An engine that runs statements by tasks in this process; everything is pickled on its way, as on a cluster."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from metastore.engines.engine import Capabilities, Chunk, LocalEngine
from metastore.sql.target import Dealt


class TaskEngine(LocalEngine):
    """Counts its tasks. ``lost_attempts``: each task runs this many times before, and the answer is lost."""

    capabilities = Capabilities(runs_statements=True)  # type: ignore[misc] # an engine of its own

    def __init__(self, parallelism: int = 2) -> None:
        super().__init__(parallelism, helpers_pay_from=1e9)  # no helper processes
        self.tasks = 0
        self.lost_attempts = 0
        self.repeats_tasks = False

    def run(
        self, chunks: Sequence[Chunk], task: Callable[[Chunk], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Run each chunk as a cluster does: once more for each lost attempt."""
        self.repeats_tasks = bool(self.lost_attempts)
        for chunk in chunks:
            self.tasks += 1
            for _ in range(self.lost_attempts):
                list(sent(task)(sent(chunk)))
            yield from super().run([sent(chunk)], sent(task), schema)

    def shuffle(
        self,
        chunks: Sequence[Chunk],
        deal: Callable[[Chunk], Iterable[Dealt]],
        gather: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]],
        groups: int,
        schema: pa.Schema,
    ) -> Iterator[pa.RecordBatch]:
        """Deal all rows in memory, then gather each group. Rows of a group arrive in another order than they left."""
        dealt: dict[int, list[pa.RecordBatch]] = {}
        for chunk in chunks:
            self.tasks += 1
            self._arrive(sent(deal)(sent(chunk)), dealt)
        yield from self.run(list(dealt.values()), _Gathering(gather), schema)

    @staticmethod
    def _arrive(rows: Iterable[Dealt], dealt: dict[int, list[pa.RecordBatch]]) -> None:
        for number, batch in rows:
            dealt.setdefault(number, []).insert(0, batch)


def sent(thing: Any) -> Any:
    """Returns what arrives in another process."""
    return pickle.loads(pickle.dumps(thing))  # noqa: S301 - our own


class _Gathering:
    def __init__(self, gather: Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]) -> None:
        self._gather = gather

    def __call__(self, batches: list[pa.RecordBatch]) -> Iterable[Any]:
        return self._gather(iter(batches))
