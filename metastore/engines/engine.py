"""Engines: an engine runs a task on chunks of work, locally or on a cluster, and returns Arrow batches.

All distributed work in this package has one shape. The caller cuts its work into chunks of plain data. The engine runs
one importable function on every chunk and streams the Arrow batches back in any order. The caller finishes the job.
:class:`LocalEngine` runs chunks here and in helper processes; a cluster engine implements the same protocol.

Every engine guarantees: the batches of each chunk arrive exactly once, or the run fails. The first failing task ends
the run with its own error if that is one of :mod:`metastore.errors` (a FormatError still names its file), else with an
EngineError. A run that is abandoned, closed or interrupted stops its tasks.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from queue import SimpleQueue
from types import TracebackType
from typing import IO, Any, Final, Protocol, TypeVar, cast

import pyarrow as pa

from metastore.engines.expendable import mark_expendable
from metastore.engines.traffic import Traffic, counted_here, with_traffic
from metastore.errors import EngineError, InvalidRequestError, MetastoreError
from metastore.ground.interrupts import next_of

Chunk = TypeVar("Chunk")
_Outcome = tuple[list[pa.RecordBatch], Traffic] | MetastoreError
_Task = Callable[[Any], Iterable[pa.RecordBatch]]

_HELPERS_PAY_FROM: Final = 1.5
"""Seconds of work from which helpers are started. A helper needs 0.6 s of one core to start, most of it for imports."""

_PIPE_BYTES: Final = 1 << 20
"""Pipe buffer between two processes: batches are megabytes, and this is the most that the kernel grants everybody."""

_BOOTSTRAP: Final = (
    "import sys; from multiprocessing.connection import Connection; requests = Connection(0); "
    "sys.path[:] = requests.recv(); import metastore.engines.engine; metastore.engines.engine.serve(requests)"
)


@dataclass(frozen=True)
class Capabilities:
    """Abilities besides tasks: ``DatabaseEngine``, ``QueryRunner``, ``ViewEngine``, ``StatementEngine``."""

    reads_databases: bool = False
    runs_queries: bool = False
    makes_views: bool = False
    runs_statements: bool = False


class Engine(Protocol):
    """The interface that a job needs to run its tasks."""

    @property
    def capabilities(self) -> Capabilities:
        """Return the engine's abilities besides running tasks."""

    @property
    def name(self) -> str:
        """The engine's name in settings and messages."""

    @property
    def parallelism(self) -> int:
        """How many chunks run concurrently; cut the work into a few times as many."""

    def run(
        self, chunks: Sequence[Chunk], task: Callable[[Chunk], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Run ``task`` on every chunk and yield all batches, in any order, each of exactly ``schema``.

        ``task`` must be importable in the other process (a module's function, or a ``functools.partial`` of one) and
        pickle together with its chunk. Without chunks there are no batches. If the engine retries, a task may run more
        than once, but the batches of only one attempt are yielded. If workers are ready, tasks begin at once, so the
        caller can do other work before it asks for the first batch. Otherwise they begin when the caller asks for it.
        """

    def close(self) -> None:
        """Release the processes and sessions that the engine started; it starts new ones when needed."""


class ResultsTooLargeError(EngineError):
    """One chunk's result is larger than the engine can return at once: cut the work into smaller chunks."""


EngineFor = Callable[[int], Engine]
"""Returns the engine for a job, given its number of work items."""


class LocalEngine:
    """Runs tasks on this machine: in this process at once, and in helper processes if the work takes long enough.

    The calling thread works on chunks until ``processes`` helpers are ready. Then it only collects their results, so it
    is free to process them. The first run that is long enough to pay for helpers starts them, up to ``processes``; so
    does a run that follows enough short runs. Helpers keep running, and later runs use them at once.

    ``processes`` = 0 means one per usable core; 1 means no helpers. ``helpers_pay_from`` is the work in seconds from
    which helpers are started: the work that is left, or that earlier runs did alone. 0 starts helpers with the first
    chunk. Finished batches of helpers wait in memory until the caller takes them. Threads may share an engine. Close
    it, or use it as a context manager.
    """

    name: Final = "local"
    capabilities: Final = Capabilities()

    def __init__(self, processes: int = 0, *, helpers_pay_from: float = _HELPERS_PAY_FROM) -> None:
        if processes < 0:
            raise InvalidRequestError(f"an engine cannot have {processes} processes; 0 means one per core")
        self.parallelism: Final = processes or _usable_cores()
        self._helpers_pay_from = helpers_pay_from
        self._idle: list[_Helper] = []
        self._seconds_alone = 0.0
        self._finalizer = weakref.finalize(self, _stop_all, self._idle)

    def run(
        self, chunks: Sequence[Chunk], task: Callable[[Chunk], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`Engine.run`; idle helpers begin at once."""
        batches = self._run(chunks, task, schema)
        next(batches)
        return cast("Iterator[pa.RecordBatch]", batches)

    def _run(
        self, chunks: Sequence[Chunk], task: Callable[[Chunk], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch | None]:
        """Yield None once helpers have begun, then the batches. From the None on, closing the generator stops them."""
        todo = deque(chunks)
        finished: SimpleQueue[_Outcome] = SimpleQueue()
        lent: list[_Helper] = []
        outstanding = len(todo)
        began = time.monotonic()
        try:
            self._lend(lent, min(len(self._idle), len(todo)), todo, task, finished)
            yield None
            while outstanding:
                done = len(chunks) - outstanding
                if done == 1:
                    began = time.monotonic()  # The first chunk includes imports, so its time is not typical.
                left = len(todo) / max(1, done - 1)
                if len(lent) < self.parallelism and self._helpers_pay(time.monotonic() - began, left):
                    self._lend(lent, min(self.parallelism - len(lent), len(todo)), todo, task, finished)
                ready = sum(helper.is_ready_for(task) for helper in lent)
                chunk = _take(todo) if ready < self.parallelism and finished.empty() else None
                for batch in counted_here(next_of(finished)) if chunk is None else _run_task(task, chunk):
                    yield _check_batch(batch, schema)
                outstanding -= 1
            if not lent:
                self._seconds_alone += time.monotonic() - began
            self._idle.extend(lent)
            lent = []
        finally:
            # Only a failed or abandoned run still has helpers here, possibly in the middle of a chunk.
            todo.clear()
            _stop_all(lent)

    @property
    def helpers(self) -> frozenset[int]:
        """The process ids of the idle helpers."""
        return frozenset(helper.process for helper in self._idle)

    def ready_for(self, task: Callable[[Any], Iterable[pa.RecordBatch]]) -> int:
        """Return how many idle helpers have imported the module of ``task`` and can begin at once."""
        return sum(helper.is_ready_for(task) for helper in self._idle)

    def close(self) -> None:
        """Stop the helpers; a later run starts new ones if it needs them."""
        _stop_all(self._idle)

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _helpers_pay(self, elapsed: float, left: float) -> bool:
        """Whether helpers pay after ``elapsed`` seconds, if the remaining work is ``left`` times the work done."""
        if self.parallelism == 1 or elapsed <= self._helpers_pay_from / 5:  # too early to estimate the rest
            return False
        return elapsed * left + self._seconds_alone > self._helpers_pay_from

    def _lend(
        self,
        lent: list[_Helper],
        count: int,
        todo: deque[Chunk],
        task: Callable[[Chunk], Iterable[pa.RecordBatch]],
        finished: SimpleQueue[_Outcome],
    ) -> None:
        """Give work to ``count`` more helpers, and add them to ``lent``."""
        for _ in range(count):
            lent.append(self._alive_and_idle() or _Helper())
            lent[-1].work(todo, task, finished)

    def _alive_and_idle(self) -> _Helper | None:
        while self._idle:
            helper = self._idle.pop()
            if helper.alive():
                return helper
            helper.stop()
        return None


class _Helper:
    """One helper process; the protocol is pickles over its standard input and output.

    They are connections instead of streams because streams have locks: a child that is forked while another thread
    reads would wait for the lock forever.

    The helper is a plain Python interpreter instead of a ``multiprocessing`` child. Forking a process with threads
    (pyarrow's) can deadlock, and spawning would import the caller's main script again. The helper exits when its input
    ends, so it cannot outlive this process. It has its own session, so Ctrl-C reaches only the caller, which then stops
    the helper. One thread serves the helper for its whole life: starting a thread waits until the thread runs, which
    takes milliseconds if it begins by pickling. The calling thread sends the first chunk of a run itself: a thread that
    is woken may wait 5 ms for a caller that keeps computing (the interpreter's switch interval).
    """

    def __init__(self) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - this very interpreter, a constant program
            [sys.executable, "-c", _BOOTSTRAP],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            bufsize=0,
            pipesize=_PIPE_BYTES,
        )
        self._requests = _connection(self._process.stdin)
        self._answers = _connection(self._process.stdout)
        self._requests.send(sys.path)
        self._runs: SimpleQueue[tuple[int, deque[Any], _Task, SimpleQueue[_Outcome]] | None] = SimpleQueue()
        self._loaded: set[str] = set()
        self._thread = threading.Thread(target=self._speak, name="metastore-engine", daemon=True)
        self._thread.start()

    @property
    def process(self) -> int:
        """The helper's process id."""
        return self._process.pid

    def is_ready_for(self, task: _Task) -> bool:
        """Whether the helper has imported the module of ``task``; the import takes longer than many tasks."""
        return _module(task) in self._loaded

    def work(self, todo: deque[Any], task: _Task, finished: SimpleQueue[_Outcome]) -> None:
        """Process chunks until none is left; put each chunk's batches, or the error that ends the run, on ``finished``.

        The helper takes no chunk before it is ready.
        """
        chunk = _take(todo) if self.is_ready_for(task) else None
        chunks = () if chunk is None else (chunk,)
        if failed := self._send(task, *chunks):
            finished.put(failed)
        else:
            self._runs.put((len(chunks), todo, task, finished))

    def _speak(self) -> None:
        while (run := self._runs.get()) is not None:
            self._work(*run)

    def _work(self, asked: int, todo: deque[Any], task: _Task, finished: SimpleQueue[_Outcome]) -> None:
        """Process chunks, starting with the answer to ``asked`` chunks that were sent already: one, or none."""
        outcome = self._answer()
        self._loaded.add(_module(task))
        while not isinstance(outcome, MetastoreError) and (chunk := _take(todo)) is not None:
            failed = self._send(task, chunk)
            if asked:
                finished.put(outcome)
            asked += 1
            outcome = failed or self._answer()
        if asked or isinstance(outcome, MetastoreError):
            finished.put(outcome)

    def _send(self, task: _Task, *chunks: Any) -> MetastoreError | None:
        """Send chunks, or without chunks only load the task; returns the error if that fails."""
        try:
            self._requests.send_bytes(_pickle((task, *chunks)))
        except MetastoreError as error:  # raised by a chunk that fetches content when it is pickled
            return error
        except OSError as error:
            return self._exit_error(error)
        except Exception as error:  # noqa: BLE001 - pickling a foreign task or chunk may raise anything
            failed = EngineError(f"{_name(task)} cannot be sent to a helper process: {error}")
            failed.__cause__ = error
            return failed
        return None

    def _answer(self) -> _Outcome:
        try:
            return cast("_Outcome", self._answers.recv())
        except (EOFError, OSError) as error:
            return self._exit_error(error)
        except Exception as error:  # noqa: BLE001 - unpickling may raise anything, and the caller waits for an outcome
            unread = EngineError(f"the answer of a helper process cannot be read: {type(error).__name__}: {error}")
            unread.__cause__ = error
            return unread

    def _exit_error(self, error: Exception) -> EngineError:
        status = self._process.poll()
        ended = EngineError(f"a helper process ended while it worked (exit status {status}); out of memory?")
        ended.__cause__ = error
        return ended

    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process.poll() is None

    def stop(self) -> None:
        """Kill the process, whatever it is doing."""
        self._runs.put(None)
        self._process.kill()
        self._process.wait()
        self._thread.join()  # Its wait has ended; close its connections only after it has.
        self._answers.close()
        self._requests.close()


def serve(requests: Connection[Any, Any]) -> None:
    """Run in the helper: answer (task, chunk …) with all batches or the first error, until the input ends."""
    mark_expendable()
    replies: Connection[Any, Any] = Connection(os.dup(1))
    os.dup2(2, 1)  # a task that prints must not write into the protocol
    pa.set_cpu_count(1)
    while True:
        try:
            task, *chunks = requests.recv()
            answer: object = with_traffic(_run_task(task, *chunks))
        except EOFError:
            return
        except MetastoreError as error:
            answer = error
        except Exception as error:  # noqa: BLE001 - importing the task's module may raise anything
            answer = EngineError(f"a task cannot be loaded in a helper process: {type(error).__name__}: {error}")
        replies.send_bytes(_pickle(answer))


def _connection(stream: IO[bytes] | None) -> Connection[Any, Any]:
    """Return a connection to the file of ``stream``, and close ``stream``."""
    assert stream is not None
    with stream:
        return Connection(os.dup(stream.fileno()))


def _pickle(message: object) -> bytes:
    return pickle.dumps(message, pickle.HIGHEST_PROTOCOL)


def _run_task(task: Callable[[Chunk], Iterable[pa.RecordBatch]], *chunks: Chunk) -> Iterator[pa.RecordBatch]:
    try:
        for chunk in chunks:
            yield from task(chunk)
    except MetastoreError:
        raise
    except Exception as error:
        raise EngineError(f"{_name(task)} failed: {type(error).__name__}: {error}") from error


def _check_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if not batch.schema.equals(schema):
        raise EngineError(f"a task declares batches of\n{schema}\nand returned\n{batch.schema}")
    return batch


def _take(items: Any) -> Any:
    """Remove the last item in one atomic step and return it, or None when nothing is left."""
    try:
        return items.pop()
    except IndexError:
        return None


def _name(task: object) -> str:
    return str(getattr(inner := getattr(task, "func", task), "__qualname__", inner))


def _module(task: object) -> str:
    return str(getattr(getattr(task, "func", task), "__module__", ""))


def _stop_all(helpers: list[_Helper]) -> None:
    while (helper := _take(helpers)) is not None:
        helper.stop()


def _usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
