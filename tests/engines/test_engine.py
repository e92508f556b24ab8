"""The local engine: every chunk once, errors that keep their type, helpers that help and go away."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest
from support.forked import in_child

import metastore
from metastore.engines.engine import LocalEngine
from metastore.errors import EngineError, FormatError, InvalidRequestError

SCHEMA = pa.schema([("chunk", pa.int64()), ("process", pa.int64())])

TASKS = """
import os, signal, socket, threading, time
import pyarrow as pa
from metastore.errors import FormatError

SCHEMA = pa.schema([("chunk", pa.int64()), ("process", pa.int64())])

def echo(chunk):
    print("a task may print")
    yield pa.record_batch([[chunk], [os.getpid()]], schema=SCHEMA)
    yield pa.record_batch([[-chunk], [os.getpid()]], schema=SCHEMA)

def compute(chunk):
    end = time.monotonic() + 0.03
    while time.monotonic() < end:
        pass
    yield from echo(chunk)

def meet(place, chunk):
    with socket.socket(socket.AF_UNIX) as others:
        others.connect(place)
        others.recv(1)
    yield from echo(chunk)

def in_helper(parent, action, chunk):
    if os.getpid() != parent:
        action(chunk)
    yield from echo(chunk)

def broken_file(chunk):
    raise FormatError(f"file {chunk} is broken")

class Unreadable(FormatError):
    def __reduce__(self):
        return int, ("no number",)

def unreadable(chunk):
    raise Unreadable("it can be sent, and not be read")

def divide(chunk):
    chunk / 0

def announce(pipe, chunk):
    with open(pipe, "w") as stream:
        stream.write(f"{chunk}\\n")
    yield from echo(chunk)

def interrupt(caller, chunk):
    if chunk == 1:
        os.kill(caller, signal.SIGINT)
    threading.Event().wait(60)
    yield from echo(chunk)

def die(chunk):
    os.kill(os.getpid(), signal.SIGKILL)

def wrong_columns(chunk):
    yield pa.record_batch({"other": [chunk]})
"""


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of tasks that only this test's search path leads to."""
    (tmp_path / "engine_tasks.py").write_text(TASKS)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "engine_tasks", raising=False)
    return import_module("engine_tasks")


@pytest.fixture
def meet(tasks: ModuleType, tmp_path: Path) -> Callable[..., pa.Table]:
    """Have a chunk done by each helper and one by the caller, none of whom ends before all have begun; their rows.

    Or by as many as are ``expected``.
    """
    place = str(tmp_path / "meeting")

    def meet(engine: LocalEngine, expected: int | None = None) -> pa.Table:
        everybody = engine.parallelism + 1 if expected is None else expected
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(place)
            listening.listen()

            def introduce() -> None:
                came = [listening.accept()[0] for _ in range(everybody)]
                for one in came:
                    one.close()

            thread = threading.Thread(target=introduce)
            thread.start()
            rows = gathered(engine, list(range(1, everybody + 1)), partial(tasks.meet, place))
            thread.join()
        Path(place).unlink()
        return rows

    return meet


@pytest.fixture
def partial_in_helper(tasks: ModuleType) -> Callable[[Any], Callable[[Any], Iterator[pa.RecordBatch]]]:
    """Make a task that does something in helpers only."""
    return lambda action: partial(tasks.in_helper, os.getpid(), action)


def gathered(engine: LocalEngine, chunks: list[int], task: Any) -> pa.Table:
    """All batches of a run."""
    return pa.Table.from_batches(engine.run(chunks, task, SCHEMA), SCHEMA)


@pytest.mark.parametrize("processes", [1, 2, 4])
@pytest.mark.parametrize("count", [0, 1, 2, 50])
def test_every_batch_of_every_chunk_arrives_once(
    tasks: ModuleType, meet: Callable[[LocalEngine], object], processes: int, count: int
) -> None:
    """However many processes there are, the batches are those of all chunks, once each; when helpers come and after."""
    chunks = list(range(1, count + 1))
    with LocalEngine(processes, helpers_pay_from=0) as engine:
        for is_warm in (False, True):
            if is_warm and processes > 1:
                meet(engine)
            found: list[Any] = gathered(engine, chunks, tasks.echo)["chunk"].to_pylist()
            assert sorted(found) == sorted([*chunks, *(-chunk for chunk in chunks)])


def test_small_work_starts_no_process(tasks: ModuleType) -> None:
    """Work that is over before helpers pay runs in this process alone."""
    with LocalEngine(4) as engine:
        assert set(gathered(engine, [1, 2, 3], tasks.echo)["process"].to_pylist()) == {os.getpid()}


def test_the_caller_works_until_helpers_are_ready(meet: Callable[[LocalEngine], pa.Table]) -> None:
    """Starting a helper takes longer than many a chunk: the caller does not wait for it, and does one meanwhile."""
    with LocalEngine(2, helpers_pay_from=0) as engine:
        workers = meet(engine)["process"].to_pylist()
        assert set(workers) == {os.getpid(), *engine.helpers}


def test_the_caller_works_where_helpers_are_missing(meet: Callable[..., pa.Table]) -> None:
    """A helper that is gone, or that was not needed when the others were started, leaves no core idle."""
    with LocalEngine(2, helpers_pay_from=0) as engine:
        meet(engine)
        gone, left = engine.helpers
        with open(os.pidfd_open(gone), "rb") as ending:
            os.kill(gone, signal.SIGKILL)
            select.select([ending], [], [])  # readable once the process has ended
        assert set(meet(engine, 2)["process"].to_pylist()) == {os.getpid(), left}


def test_helpers_share_the_work_and_stay(tasks: ModuleType, meet: Callable[[LocalEngine], object]) -> None:
    """Helpers do the work, and the next run finds the same ones again."""
    with LocalEngine(2, helpers_pay_from=0) as engine:
        meet(engine)
        helpers = engine.helpers
        seen: set[int | None] = set()
        while len(seen) < 2:  # until each was quick enough to take a chunk
            seen |= set(gathered(engine, list(range(200)), tasks.echo)["process"].to_pylist())
        assert seen == helpers
        assert engine.helpers == helpers


def test_the_errors_of_tasks_arrive_as_they_are(
    tasks: ModuleType,
    meet: Callable[[LocalEngine], object],
    partial_in_helper: Callable[[Any], Callable[[Any], Iterator[pa.RecordBatch]]],
) -> None:
    """An error of ours keeps its type and text, from this process and from helpers; the engine can be used again."""
    with LocalEngine(2, helpers_pay_from=0) as engine:
        for task in (tasks.broken_file, partial_in_helper(tasks.broken_file)):
            meet(engine)
            with pytest.raises(FormatError, match=r"file \d+ is broken"):
                gathered(engine, [1, 2], task)
        assert gathered(engine, [1], tasks.echo).num_rows == 2


def test_foreign_errors_become_engine_errors(tasks: ModuleType) -> None:
    """Any other error is an EngineError that names the task and says what happened."""
    with LocalEngine(1) as engine, pytest.raises(EngineError, match="divide failed: ZeroDivisionError"):
        gathered(engine, [1], tasks.divide)


def test_a_killed_helper_is_an_error(
    tasks: ModuleType,
    meet: Callable[[LocalEngine], object],
    partial_in_helper: Callable[[Any], Callable[[Any], Iterator[pa.RecordBatch]]],
) -> None:
    """A helper that dies takes its chunk with it, which must not go unnoticed."""
    with LocalEngine(2, helpers_pay_from=0) as engine:
        meet(engine)
        with pytest.raises(EngineError, match="helper process ended"):
            gathered(engine, [1, 2], partial_in_helper(tasks.die))


def test_an_answer_that_cannot_be_read_ends_the_run(
    tasks: ModuleType,
    meet: Callable[[LocalEngine], object],
    partial_in_helper: Callable[[Any], Callable[[Any], Iterator[pa.RecordBatch]]],
) -> None:
    """Whatever goes wrong while it is taken apart, nobody waits for it for ever."""
    with LocalEngine(2, helpers_pay_from=0) as engine:
        meet(engine)
        with pytest.raises(EngineError, match="cannot be read: ValueError"):
            gathered(engine, [1, 2], partial_in_helper(tasks.unreadable))


def test_wrong_columns_are_refused(tasks: ModuleType) -> None:
    """A batch of another schema than promised fails the run instead of confusing its caller."""
    with LocalEngine(1) as engine, pytest.raises(EngineError, match="declares batches of"):
        gathered(engine, [1], tasks.wrong_columns)


def test_a_task_that_cannot_be_sent_is_refused(meet: Callable[[LocalEngine], object]) -> None:
    """A task that does not pickle is told apart from one that fails."""

    def local(chunk: int) -> Any:
        yield pa.record_batch({"chunk": [chunk], "process": [os.getpid()]}, schema=SCHEMA)

    with LocalEngine(2, helpers_pay_from=0) as engine:
        meet(engine)
        with pytest.raises(EngineError, match="cannot be sent"):
            gathered(engine, [1, 2], local)


def test_helpers_begin_before_anybody_asks_for_a_batch(
    tasks: ModuleType, meet: Callable[[LocalEngine], object], tmp_path: Path
) -> None:
    """Helpers that are there work while the caller of a run does something else."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with LocalEngine(2, helpers_pay_from=0) as engine, open(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)) as announced:
        meet(engine)
        run = engine.run([7], partial(tasks.announce, str(pipe)), SCHEMA)
        assert select.select([announced], [], [], 60)[0]
        assert announced.readline() == "7\n"
        assert [batch["chunk"].to_pylist() for batch in run] == [[7], [-7]]


@pytest.mark.parametrize("asked_for", [0, 1])
def test_an_abandoned_run_stops_its_helpers(
    tasks: ModuleType, meet: Callable[[LocalEngine], object], asked_for: int
) -> None:
    """Closing the iterator early leaves no helper at work, and none that a later run could mistake for idle."""
    with LocalEngine(2, helpers_pay_from=0) as engine:
        meet(engine)
        run = engine.run(list(range(1000)), tasks.echo, SCHEMA)
        for _ in range(asked_for):
            next(run)
        run.close()  # type: ignore[attr-defined]
        assert not engine.helpers
        assert gathered(engine, [1], tasks.echo).num_rows == 2


def test_many_runs_pay_for_helpers_as_a_long_one_does(tasks: ModuleType) -> None:
    """A session that lives long has helpers in the end, though none of its runs would start any."""
    seen = set()
    with LocalEngine(2, helpers_pay_from=0.1) as engine:
        while not engine.helpers:
            seen |= set(gathered(engine, [1, 2, 3], tasks.compute)["process"].to_pylist())
    assert seen == {os.getpid()}


def test_a_stopped_helper_leaves_no_thread(tasks: ModuleType) -> None:
    """As many threads speak to helpers as there are helpers, while they are idle and after they were stopped."""

    def speaking() -> int:
        return sum(thread.name == "metastore-engine" for thread in threading.enumerate())

    others = speaking()
    engine = LocalEngine(2, helpers_pay_from=0)
    for _ in range(3):
        gathered(engine, list(range(10)), tasks.echo)
        assert speaking() - others == len(engine.helpers) == 2
    engine.close()
    assert speaking() == others


def test_a_forked_child_has_helpers_of_its_own(tasks: ModuleType) -> None:
    """Those of its parent are not its own: both go on, each with the answers to its own questions."""
    with LocalEngine(2, helpers_pay_from=0) as engine:
        gathered(engine, [1, 2], tasks.echo)
        helpers = engine.helpers

        def child() -> None:
            found: list[Any] = gathered(engine, list(range(50)), tasks.echo)["chunk"].to_pylist()
            assert sorted(found) == sorted([*range(50), *range(0, -50, -1)])
            assert not engine.helpers & helpers
            engine.close()

        end = in_child(child)
        assert gathered(engine, [1, 2, 3], tasks.echo).num_rows == 6
        assert end() == 0
        assert engine.helpers == helpers


def test_negative_processes_are_refused() -> None:
    """An engine has one process per core, or as many as it is told."""
    with pytest.raises(InvalidRequestError, match="-1"):
        LocalEngine(-1)
    assert LocalEngine(0).parallelism >= 1


@pytest.mark.usefixtures("restarted_calls")
def test_an_interrupt_ends_a_run_while_helpers_work(tasks: ModuleType, meet: Callable[[LocalEngine], object]) -> None:
    """They would work for a minute yet, and are stopped."""
    with LocalEngine(2, helpers_pay_from=0) as engine:
        meet(engine)
        began = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            gathered(engine, [1, 2], partial(tasks.interrupt, os.getpid()))
        assert time.monotonic() - began < 60
        assert not engine.helpers


@pytest.mark.integration
@pytest.mark.parametrize("signal_", [signal.SIGINT, signal.SIGKILL])
def test_helpers_do_not_outlive_the_caller(tmp_path: Path, signal_: signal.Signals) -> None:
    """A script without a main guard may use the engine; interrupted or killed, it leaves no process behind."""
    (tmp_path / "engine_tasks.py").write_text(TASKS)
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent(
            """
            import engine_tasks, metastore.engines.engine
            engine = metastore.engines.engine.LocalEngine(2, helpers_pay_from=0)
            while not engine.helpers:
                list(engine.run(range(500), engine_tasks.echo, engine_tasks.SCHEMA))
            print("helper", *engine.helpers, flush=True)
            while True:
                list(engine.run(range(500), engine_tasks.echo, engine_tasks.SCHEMA))
            """
        )
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(metastore.__file__).parents[1])])}
    with subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True, env=environment,
                          stderr=subprocess.DEVNULL) as caller:  # fmt: skip
        assert caller.stdout is not None
        told = next(line for line in caller.stdout if line.startswith("helper"))
        helper = os.pidfd_open(int(told.split()[1]))
        caller.send_signal(signal_)
        assert caller.wait(60) != 0
    ended, _, _ = select.select([helper], [], [], 60)  # a process's descriptor is readable once it has ended
    os.close(helper)
    assert ended
