"""An engine that notes what it is asked to run, and whether one of its tasks is at work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from metastore.engines.engine import Capabilities, Chunk, Engine


class WatchedEngine:
    """Runs what ``engine`` runs, in steps, and calls ``on_run`` with chunks and task before it does.

    ``chunks`` are all that came, ``rows`` those that tasks returned.
    """

    name: str = "watched"

    def __init__(
        self, engine: Engine, on_run: Callable[[Sequence[Any], Callable[[Any], Any]], None] | None = None
    ) -> None:
        self._engine = engine
        self._on_run = on_run
        self.chunks: list[Any] = []
        self.rows = 0
        self.is_at_work = False

    @property
    def capabilities(self) -> Capabilities:
        """As the engine's."""
        return self._engine.capabilities

    @property
    def parallelism(self) -> int:
        """As the engine's."""
        return self._engine.parallelism

    def run(
        self, chunks: Sequence[Chunk], task: Callable[[Chunk], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """As the engine's; what comes is noted at once."""
        self.chunks += chunks
        if self._on_run is not None:
            self._on_run(chunks, task)
        return self._in_steps(self._engine.run(chunks, task, schema))

    def _in_steps(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        while True:
            self.is_at_work = True
            batch = next(batches, None)
            self.is_at_work = False
            if batch is None:
                return
            self.rows += batch.num_rows
            yield batch

    def close(self) -> None:
        """Nothing of its own to close."""
