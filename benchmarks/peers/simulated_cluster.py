"""An engine whose tasks answer as those of a large table would, without one: what the driver does is real.

The first level of the table's directory is real: empty directories. Tasks invent the files in them. A task that makes a
segment stores a file of a few bytes, which the driver's commit names. All segments have the bounds of one real segment.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from metastore.analyze.states import segment_state, stored_state
from metastore.analyze.tasks.directories import DirectoryChunk
from metastore.analyze.tasks.survey import SURVEYED, SurveyChunk
from metastore.components.storage.partition_encoder import ENCODED, EncodedPartition, encoded_or_stored
from metastore.engines.engine import Capabilities, Chunk
from metastore.lake.formats.source_file import SourceFile
from metastore.model.identity import TableInfo

_CONTENT: Final = pa.py_buffer(b"PAR1 of nobody PAR1")
_BYTES: Final = 128 << 20
"""Size of an invented file."""


class SimulatedCluster:
    """Answers for directories of ``files`` files each, like the one segment in ``model``.

    ``model`` is a row that a real task has made. Directories whose number ``is_changed`` accepts have other files than
    before. Counts the bytes that the driver sends and gets, and the requests that the tasks would send to stores.
    """

    name = "simulated"
    parallelism = 1_000
    capabilities = Capabilities()

    def __init__(
        self,
        table: TableInfo,
        files: int,
        model: Mapping[str, Any],
        is_changed: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._table = table
        self._files = files
        self._model = model
        self._is_changed = is_changed
        self.sent = 0
        self.received = 0
        self.requests = 0

    def run(
        self, chunks: Sequence[Chunk], task: Callable[[Chunk], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yield one batch for each chunk; ``task`` is not run."""
        for chunk in chunks:
            self.sent += len(pickle.dumps(chunk))
            if isinstance(chunk, SurveyChunk):
                rows = [self._surveyed(name) for name in chunk.listing.names]
                batch = pa.RecordBatch.from_pylist(rows, SURVEYED)
            else:
                assert isinstance(chunk, DirectoryChunk)
                batch = pa.RecordBatch.from_pylist([self._made(chunk, name) for name in chunk.listing.names], schema)
            self.received += batch.nbytes
            yield batch

    def close(self) -> None:
        """Nothing to close."""

    def _surveyed(self, name: str) -> dict[str, Any]:
        self.requests += 1 + self._files // 1_000
        changed = self._is_changed(_number(name))
        return {
            "key": name,
            "state": self._state(name, changed),
            "files": self._files,
            "bytes": self._files * _BYTES,
            "later": self._files if changed else 0,
            "directories": [[name]],
            "samples": [f"{name}/part-00000.parquet"],
            "reaches": True,
        }

    def _state(self, name: str, changed: object) -> str:
        return segment_state([SourceFile((name,), "part-00000.parquet", name, self._files, int(bool(changed)))])

    def _made(self, chunk: DirectoryChunk, name: str) -> dict[str, Any]:
        changed = self._is_changed(_number(name))
        # A listing, a footer of each file, the stored units, the proof of the store, the new file.
        self.requests += 1 + self._files // 1_000 + self._files + 3
        stored: Any = pa.array([self._model["partition"]], ENCODED)[0]
        partition = encoded_or_stored(stored)
        key = (*partition.key[:-1], name)
        assert chunk.segments.sender is not None
        sent = chunk.segments.sender.put(EncodedPartition(key, self._files * 2, _CONTENT, partition.bounds))
        assert sent is not None
        before = self._top(chunk, name, changed=False) if name in chunk.stored else None
        return {
            "partition": sent.to_arrow(),
            "top": self._top(chunk, name, changed),
            "before": before,
            "state": self._state(name, changed),
            "directories": [[name]],
            "new": 0 if before else self._files,
            "changed": 1 if before else 0,
            "removed": 0,
            "read": 1 if before else self._files,
        }

    def _top(self, chunk: DirectoryChunk, name: str, changed: object) -> dict[str, Any]:
        place = f"{chunk.listing.location}/{name}"
        return {
            **self._model["top"],
            "metadataKey": name,
            "metadataIdentifier": name,
            "location": place,
            "partitionValues": [name],
            "locations": [f"{place}/part-00000.parquet"],
            "additionalMetadata": stored_state(self._table, name, self._state(name, changed)),
        }


def _number(name: str) -> int:
    return int(name.partition("=")[2])
