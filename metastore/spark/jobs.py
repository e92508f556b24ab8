"""Jobs of a size that Spark can carry: the chunks of some work, pickled and dealt to the partitions of each job."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from metastore.engines.engine import Chunk
from metastore.errors import InvalidRequestError
from metastore.spark import worker

JOB_BYTES: Final = 8 << 20
"""The largest number of bytes of pickled chunks in one job, and so the size limit of a chunk."""


def jobs(chunks: Sequence[Chunk], partitions: int, limit: int = JOB_BYTES) -> Iterator[list[list[bytes]]]:
    """Divide pickled chunks into jobs of at most ``limit`` bytes; deal each job to its ``partitions`` in turn."""
    job: list[bytes] = []
    size = 0
    for chunk in chunks:
        pickled = pickle.dumps(chunk, pickle.HIGHEST_PROTOCOL)
        if len(pickled) > limit:
            raise InvalidRequestError(
                f"a chunk of {len(pickled):,} bytes cannot be sent to executors, the limit is {limit:,}; "
                "cut the work into smaller chunks"
            )
        if size + len(pickled) > limit:
            yield dealt(job, partitions)
            job, size = [], 0
        job.append(pickled)
        size += len(pickled)
    yield dealt(job, partitions)


def dealt(chunks: list[bytes], partitions: int) -> list[list[bytes]]:
    """Returns chunks dealt to at most ``partitions``, none of which is empty."""
    return [chunks[first::partitions] for first in range(min(partitions, len(chunks)))]


def left_chunks(answers: Mapping[str, Sequence[bytes]], parts: Sequence[Sequence[bytes]]) -> list[bytes]:
    """Returns the chunks that tasks have left, since their answers were large."""
    pairs = (pickle.loads(pickled) for pickled in answers.get(worker.LEFT, ()))  # noqa: S301 - our own executors wrote it
    return [chunk for number, answered in pairs for chunk in parts[number][answered:]]
