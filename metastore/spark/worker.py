"""The code that runs on executors. Only this code travels by value, since an executor may lack this package.

Place in the flow: the engine sends the inner function of :func:`mapper`. It checks whether the executor has exactly the
driver's code, runs the task on the chunks of its partition, and answers with pairs of a kind and bytes.

Promises: errors of the task are answers, not failures of Spark. So they arrive with their own type and are not retried.
A process that dies gives no answer, and Spark runs its partition again. Everything of this package is imported inside
functions, because this module must load where the package is missing.
"""

from __future__ import annotations

import gc
import hashlib
import importlib
import pickle
import sys
import traceback
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, Final

import pyarrow as pa

ANSWER: Final = "kind string, payload binary"
"""The columns of answers in a DataFrame. Spark's mapping of Arrow types never affects the results of a task."""

CHUNK: Final = "chunk binary"
"""The column of chunks in a DataFrame, each a compressed pickle."""

BATCHES: Final = "batches"  # an Arrow IPC stream
ERROR: Final = "error"  # a pickled MetastoreError and the text of its traceback
OTHER_CODE: Final = "other code"  # a text that says which code this executor has instead of the driver's
TRAFFIC: Final = "traffic"  # a pickled Traffic: the requests to object stores that the task has sent
LEFT: Final = "left"  # a pickled pair: the part's number, and how many of its chunks were answered
REPEATED: Final = "repeated"  # nothing; another attempt of this task may have run before

DEALT: Final = "kind string, part int, payload binary"
"""The columns of rows between the two stages of a shuffle."""

_PACKAGE: Final = "metastore"
_PAYLOAD_BYTES: Final = 8 << 20
_DEALT_BYTES: Final = 64 << 20
"""Bytes of rows that a dealing task holds before it passes them on."""


Stage = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function for ``mapInArrow``."""

Part = tuple[int, Sequence[bytes]]
"""The pickled chunks that one task of a job receives, with their number in the job."""


def mapper(
    task: bytes, schema: pa.Schema, code: str, most_bytes: int
) -> Callable[[Iterable[Part]], Iterator[tuple[str, bytes]]]:
    """Returns the function for ``mapPartitions`` over the parts of a job.

    ``task`` and the chunks are pickles. The function opens them only after it has checked ``code``, the driver's
    :func:`fingerprint`. Once the answers of a part have ``most_bytes`` bytes, it leaves the part's other chunks.
    """

    def run_parts(parts: Iterable[Part]) -> Iterator[tuple[str, bytes]]:
        for number, chunks in parts:
            yield from _run_chunks(task, number, chunks, schema, code, most_bytes)

    return run_parts


def in_arrow(job: Callable[[Iterable[Part]], Iterator[tuple[str, bytes]]], parts: Sequence[Part]) -> Stage:
    """Wraps the result of :func:`mapper` for ``mapInArrow`` over ``range(len(parts))``.

    The rows have the columns :data:`ANSWER`.
    """
    names = ["kind", "payload"]

    def run_parts(ids: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in ids:
            for kind, payload in job(parts[int(number)] for number in batch.column(0)):
                yield pa.record_batch([pa.array([kind]), pa.array([payload])], names)

    return run_parts


def reader(task: bytes, code: str) -> Stage:
    """Returns a function for ``mapInArrow`` over rows of :data:`CHUNK`; its rows are the rows of the task itself.

    As :func:`mapper`, but nothing is packed and Spark reports the errors; chunks are compressed pickles.
    """

    def read_chunks(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for chunk in batch.column(0):
                if (difference := _load_code(code)) is not None:
                    raise RuntimeError(difference)
                pa.set_cpu_count(1)  # the other cores belong to other tasks
                run_task = pickle.loads(task)  # noqa: S301 - the driver's own
                yield from run_task(pickle.loads(zlib.decompress(chunk.as_py())))  # noqa: S301

    return read_chunks


def one_of(sent: Sequence[bytes]) -> Stage:
    """Returns a function for ``mapInArrow`` over ``range(len(sent))`` that makes rows of :data:`CHUNK`."""

    def chunk_rows(ids: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in ids:
            yield pa.record_batch([pa.array([sent[int(number)] for number in batch.column(0)], pa.binary())], ["chunk"])

    return chunk_rows


def dealer(task: bytes, code: str, *, of_rows: bool = False) -> Stage:
    """Returns a function for ``mapInArrow`` over rows of :data:`CHUNK`: the first stage of a shuffle.

    With ``of_rows``, the task gets the rows of any DataFrame. The task yields rows with the number of their part. Rows
    have the columns :data:`DEALT`; errors are rows of part 0.
    """

    def numbered_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        run_task = pickle.loads(task)  # noqa: S301 - the driver's own
        if of_rows:
            yield from run_task(batches)
            return
        for batch in batches:
            for chunk in batch.column(0):
                yield from run_task(pickle.loads(zlib.decompress(chunk.as_py())))  # noqa: S301

    def deal(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for kind, part, payload in _pack_parts(numbered_rows(batches), code):
            columns: list[Any] = [pa.array([kind]), pa.array([part], pa.int32()), pa.array([payload], pa.binary())]
            yield pa.record_batch(columns, ["kind", "part", "payload"])

    return deal


def gatherer(task: bytes, schema: pa.Schema, code: str, *, of_rows: bool = False) -> Stage:
    """Returns a function for ``mapInArrow`` over rows of :data:`DEALT`: the second stage of a shuffle.

    The task gets the rows of some parts; with ``of_rows``, the rows of any DataFrame. Rows have the columns
    :data:`ANSWER`. An error of the first stage passes through; it ends the task as an error of its input, so that the
    task takes back what it has done.
    """

    def gather(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for kind, payload in _gather(task, batches, schema, code, of_rows=of_rows):
            yield pa.record_batch([pa.array([kind]), pa.array([payload], pa.binary())], ["kind", "payload"])

    return gather


def package_files(package: str = _PACKAGE) -> Iterator[tuple[str, bytes]]:
    """Yields path and content of every file of a package, in order, in a directory or inside a zip."""

    def walk(folder: Any, prefix: str) -> Iterator[tuple[str, bytes]]:
        for entry in sorted(folder.iterdir(), key=lambda entry: str(entry.name)):
            path = f"{prefix}/{entry.name}"
            if entry.is_file():
                yield path, entry.read_bytes()
            elif entry.name != "__pycache__":
                yield from walk(entry, path)

    return walk(files(package), package)


def fingerprint(package: Iterable[tuple[str, bytes]]) -> str:
    """Returns a digest of a package's files.

    A checkout, an installed copy and a zip of equal contents have the same digest. A version number does not suffice:
    code under development changes while its version stays the same.
    """
    digest = hashlib.sha256()
    for path, content in package:
        digest.update(f"{path}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def zip_name(code: str) -> str:
    """Returns the file name of the zip with the code of that fingerprint; executors recognize the zip by it."""
    return f"{_PACKAGE}-{code[:16]}.zip"


def _run_chunks(
    task: bytes, number: int, chunks: Sequence[bytes], schema: pa.Schema, code: str, most_bytes: int
) -> Iterator[tuple[str, bytes]]:
    """Yields the answers of the part ``number`` of a job, as :func:`mapper` describes them."""
    if (difference := _other_code(code)) is not None:
        yield OTHER_CODE, difference.encode()
        return
    from metastore.engines.engine import LocalEngine  # noqa: PLC0415
    from metastore.engines.expendable import mark_expendable  # noqa: PLC0415
    from metastore.engines.traffic import traffic_so_far  # noqa: PLC0415
    from metastore.errors import EngineError, MetastoreError  # noqa: PLC0415

    mark_expendable()
    pa.set_cpu_count(1)  # the other cores belong to other tasks
    yield from _report_repetition()
    before = traffic_so_far()
    sent: list[int] = []
    answered: list[bytes] = []

    def batches() -> Iterator[pa.RecordBatch]:
        for chunk in chunks:
            if answered and sum(sent) >= most_bytes:
                return
            try:
                run_task, work = pickle.loads(task), pickle.loads(chunk)  # noqa: S301 - the driver's own
            except Exception as error:
                raise EngineError(f"a task cannot be loaded on an executor: {type(error).__name__}: {error}") from error
            # On an executor, this is a local engine of one process: the same checks, the same errors.
            yield from LocalEngine(1).run([work], run_task, schema)
            answered.append(chunk)

    try:
        _spare_the_collector()
        yield from _streams(batches(), schema, sent)
        if len(answered) < len(chunks):
            yield LEFT, pickle.dumps((number, len(answered)))
        if any(traffic := traffic_so_far().since(before)):
            yield TRAFFIC, pickle.dumps(traffic)
    except MetastoreError as error:
        yield ERROR, pickle.dumps((error, traceback.format_exc()))


def _streams(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema | None, sent: list[int]
) -> Iterator[tuple[str, bytes]]:
    """Pack batches into a few IPC streams of some megabytes each; these are small enough for Spark's rows.

    Without ``schema``, a stream has that of its first batch, and the others may differ from it in metadata.
    ``sent`` gets the bytes of each stream; its last number grows while the stream is filled.
    """
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    batch = next(batches, None)
    while batch is not None:
        sink = pa.BufferOutputStream()
        sent.append(0)
        with pa.ipc.new_stream(sink, schema or batch.schema, options=options) as stream:
            while batch is not None and sink.tell() < _PAYLOAD_BYTES:
                stream.write_batch(batch)
                sent[-1] = sink.tell()
                batch = next(batches, None)
        yield BATCHES, sink.getvalue().to_pybytes()


def _pack_parts(rows: Iterator[tuple[int, pa.RecordBatch]], code: str) -> Iterator[tuple[str, int, bytes]]:
    """Yields the answers of a dealing task: kind, number of the part, and payload. Errors are in part 0."""
    if (difference := _load_code(code)) is not None:
        yield OTHER_CODE, 0, difference.encode()
        return
    from metastore.errors import MetastoreError  # noqa: PLC0415

    pa.set_cpu_count(1)  # the other cores belong to other tasks
    held: dict[tuple[int, pa.Schema], list[pa.RecordBatch]] = {}
    size = 0
    try:
        with _own_errors():
            for part, batch in rows:
                held.setdefault((part, batch.schema.remove_metadata()), []).append(batch)
                size += batch.nbytes
                if size >= _DEALT_BYTES:
                    yield from _pack_rows(held)
                    held, size = {}, 0
        yield from _pack_rows(held)
    except MetastoreError as error:
        yield ERROR, 0, pickle.dumps((error, traceback.format_exc()))


def _pack_rows(held: dict[tuple[int, pa.Schema], list[pa.RecordBatch]]) -> Iterator[tuple[str, int, bytes]]:
    """Yields the rows of each part and schema as IPC streams. A stream has the metadata of its first batch."""
    for (part, _), rows in held.items():
        for kind, payload in _streams(iter(rows), None, []):
            yield kind, part, payload


def _receive_rows(batches: Iterator[pa.RecordBatch], failed: list[tuple[str, bytes]]) -> Iterator[pa.RecordBatch]:
    """Yields the rows of an earlier stage; an answer of it that has no rows goes to ``failed``, and ends this task."""
    from metastore.errors import EngineError  # noqa: PLC0415

    for batch in batches:
        for row in batch.to_pylist():
            if row["kind"] != BATCHES:
                failed.append((row["kind"], row["payload"]))
                raise EngineError("a task before this one failed")
            with pa.ipc.open_stream(row["payload"]) as stream:
                yield from stream


def _gather(
    task: bytes, batches: Iterator[pa.RecordBatch], schema: pa.Schema, code: str, *, of_rows: bool
) -> Iterator[tuple[str, bytes]]:
    """Yields the answers of a gathering task, as :func:`gatherer` describes them."""
    if (difference := _load_code(code)) is not None:
        yield OTHER_CODE, difference.encode()
        return
    from metastore.errors import MetastoreError  # noqa: PLC0415

    pa.set_cpu_count(1)  # the other cores belong to other tasks
    yield from _report_repetition()
    failed: list[tuple[str, bytes]] = []

    try:
        with _own_errors():
            run_task = pickle.loads(task)  # noqa: S301 - the driver's own
            rows = batches if of_rows else _receive_rows(batches, failed)
            yield from _streams(iter(run_task(rows)), schema, [])
    except MetastoreError as error:
        yield failed[0] if failed else (ERROR, pickle.dumps((error, traceback.format_exc())))


def _report_repetition() -> Iterator[tuple[str, bytes]]:
    """Yields an answer that says so if this is not the first attempt of its task."""
    from pyspark import TaskContext  # noqa: PLC0415

    context = TaskContext.get()
    if context is not None and context.attemptNumber():
        yield REPEATED, b""


@contextmanager
def _own_errors() -> Iterator[None]:
    """Within, an error that is not of this package becomes an EngineError, as on the local engine."""
    from metastore.errors import EngineError, MetastoreError  # noqa: PLC0415

    try:
        yield
    except MetastoreError:
        raise
    except Exception as error:
        raise EngineError(f"a task failed: {type(error).__name__}: {error}") from error


def _load_code(code: str) -> str | None:
    """Loads the driver's code if this process has other code; returns how it differs afterwards, or None."""
    # The first check forgets modules that were loaded before the driver's code arrived; the second loads that code.
    return _other_code(code) and _other_code(code)


def _other_code(code: str) -> str | None:
    """Returns None if this process has the driver's code.

    Else describes its code, and unloads it so that sent code can load.
    """
    # Spark puts the working directory before the files it sends, so a checkout that is being edited would be imported.
    sys.path.sort(key=lambda path: not path.endswith(zip_name(code)))
    try:
        package = importlib.import_module(_PACKAGE)
        # Looked up once per process: reading all files takes about as long as a small task.
        known = vars(package).get("_fingerprint") or fingerprint(package_files())
        if known == code:
            vars(package)["_fingerprint"] = known
            return None
        difference = f"other code of {_PACKAGE} in {package.__file__ or list(package.__path__)}"
    except (ImportError, TypeError) as error:  # TypeError: a module of that name that is not a package
        difference = f"{type(error).__name__}: {error}"
    for name in [name for name in sys.modules if name.partition(".")[0] == _PACKAGE]:
        del sys.modules[name]
    return difference


def _spare_the_collector() -> None:
    # Spark's worker collects garbage after every task: 20 ms with pandas and pyarrow loaded. Frozen objects are
    # skipped.
    if gc.get_freeze_count() == 0:
        gc.freeze()
