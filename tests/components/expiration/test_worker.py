"""The expiration thread: called after each modification, it never fails or delays the write that called it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from metastore.components.expiration.handler import ExpirationResult
from metastore.components.expiration.worker import ExpirationWorker
from metastore.components.metastore import Metastore
from metastore.model.table_unit import TableMetadataUnit

MakeUnit = Callable[..., TableMetadataUnit]
OpenMetastore = Callable[..., Metastore]
PATIENCE_S = 30


class Handler:
    """A handler whose runs begin and end when the test says so."""

    def __init__(self) -> None:
        self.table = SimpleNamespace(name="some.table")
        self.due = True
        self.error: BaseException | None = None
        self.begun = threading.Semaphore(0)
        self.end = threading.Semaphore(0)
        self.threads: list[threading.Thread] = []

    def is_due(self) -> bool:
        """As the test set it."""
        return self.due

    def expire(self) -> ExpirationResult:
        """Wait for the test, then fail as it asked for."""
        self.threads.append(threading.current_thread())
        self.begun.release()
        assert self.end.acquire(timeout=PATIENCE_S)
        if self.error:
            raise self.error
        return ExpirationResult(versions=(7,))


@pytest.fixture
def handler() -> Iterator[Handler]:
    """A handler; whatever it still holds is let go at the end."""
    made = Handler()
    yield made
    made.end.release(100)


@pytest.fixture
def worker(handler: Handler) -> ExpirationWorker:
    """A worker over it."""
    return ExpirationWorker(handler)  # type: ignore[arg-type]


def test_a_run_is_in_a_daemon_thread_named_after_the_table(worker: ExpirationWorker, handler: Handler) -> None:
    """So it keeps no process alive, and is known in a dump of threads."""
    worker.after_commit(1)
    assert handler.begun.acquire(timeout=PATIENCE_S)
    [thread] = handler.threads
    assert thread.daemon
    assert thread is not threading.current_thread()
    assert "some.table" in thread.name
    handler.end.release()
    worker.join(PATIENCE_S)
    assert (worker.runs, worker.failures, worker.last) == (1, 0, ExpirationResult(versions=(7,)))


def test_nothing_runs_when_nothing_is_due(worker: ExpirationWorker, handler: Handler) -> None:
    """No thread is started."""
    handler.due = False
    worker.after_commit(1)
    worker.join(PATIENCE_S)
    assert handler.threads == []


def test_one_run_at_a_time(worker: ExpirationWorker, handler: Handler) -> None:
    """Commits while a run is under way start no second one, from however many threads; one run follows for all."""
    worker.after_commit(1)
    assert handler.begun.acquire(timeout=PATIENCE_S)
    callers = [threading.Thread(target=worker.after_commit, args=(n,)) for n in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE_S)
    assert len(handler.threads) == 1
    handler.end.release(2)
    worker.join(PATIENCE_S)
    assert (len(handler.threads), worker.runs) == (2, 2)
    worker.after_commit(9)
    handler.end.release()
    worker.join(PATIENCE_S)
    assert (len(handler.threads), worker.runs) == (3, 3)


def test_a_run_that_follows_looks_whether_it_is_due(worker: ExpirationWorker, handler: Handler) -> None:
    """By time it is not: the run that was under way has just been."""
    worker.after_commit(1)
    assert handler.begun.acquire(timeout=PATIENCE_S)
    worker.after_commit(2)
    handler.due = False
    handler.end.release()
    worker.join(PATIENCE_S)
    assert worker.runs == 1


@pytest.mark.parametrize("error", [OSError("disk"), ValueError("bug"), RuntimeError("bug")], ids=repr)
def test_a_failing_run_is_counted_and_logged(
    worker: ExpirationWorker, handler: Handler, error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """The next commit tries again."""
    handler.error = error
    worker.after_commit(1)
    handler.end.release()
    worker.join(PATIENCE_S)
    assert (worker.runs, worker.failures) == (0, 1)
    assert "some.table" in caplog.text
    handler.error = None
    worker.after_commit(2)
    handler.end.release()
    worker.join(PATIENCE_S)
    assert (worker.runs, worker.failures) == (1, 1)


def test_a_failing_look_does_not_reach_the_writer(worker: ExpirationWorker, handler: Handler) -> None:
    """Whether something is due could not be told: the write has landed all the same."""

    def fail() -> bool:
        raise OSError("the store is away")

    handler.is_due = fail  # type: ignore[method-assign]
    worker.after_commit(1)
    assert worker.failures == 1


def test_close_starts_nothing_and_waits_for_nothing(worker: ExpirationWorker, handler: Handler) -> None:
    """A run that is under way goes on."""
    worker.after_commit(1)
    assert handler.begun.acquire(timeout=PATIENCE_S)
    worker.close()
    assert handler.threads[0].is_alive()
    handler.end.release()
    worker.join(PATIENCE_S)
    assert worker.runs == 1
    worker.after_commit(2)
    assert len(handler.threads) == 1


class TestWithinAMetastore:
    def test_a_modification_expires_when_the_period_has_passed(
        self, open_metastore: OpenMetastore, unit: MakeUnit, now: SimpleNamespace
    ) -> None:
        """Not before; and the next period starts with the run."""
        metastore = open_metastore(expiration={"period": {"seconds": 10}})
        counts = []
        for step in (0, 4_000, 5_999, 1, 9_999, 1):
            now.ms += step
            metastore.tables.modify().overwrite([unit(owner=str(now.ms))]).execute()
            metastore.tables.expiration_worker.join(PATIENCE_S)
            counts.append(len(metastore.tables.metadata.history()))
        assert counts == [1, 2, 3, 1, 2, 1]
        assert metastore.tables.expiration_worker.runs == 2

    def test_the_period_is_shared_by_all_processes(
        self, open_metastore: OpenMetastore, unit: MakeUnit, now: SimpleNamespace
    ) -> None:
        """One that opens later knows when another expired last."""
        first = open_metastore(expiration={"period": {"seconds": 10}})
        first.tables.modify().overwrite([unit(owner="0")]).execute()
        now.ms += 10_000
        first.tables.modify().overwrite([unit(owner="1")]).execute()
        first.tables.expiration_worker.join(PATIENCE_S)
        now.ms += 9_000
        second = open_metastore(expiration={"period": {"seconds": 10}})
        second.tables.modify().overwrite([unit(owner="2")]).execute()
        second.tables.expiration_worker.join(PATIENCE_S)
        assert second.tables.expiration_worker.runs == 0

    @pytest.mark.parametrize("period", [{}, {"seconds": 0}, {"seconds": -1}])
    def test_without_a_period_nothing_expires(
        self, open_metastore: OpenMetastore, unit: MakeUnit, now: SimpleNamespace, period: dict[str, int]
    ) -> None:
        """Absent, zero or negative."""
        metastore = open_metastore(expiration={"period": period})
        for n in range(3):
            now.ms += 10**9
            metastore.tables.modify().overwrite([unit(owner=str(n))]).execute()
        metastore.tables.expiration_worker.join(PATIENCE_S)
        assert metastore.tables.expiration_worker.runs == 0
        assert len(metastore.tables.metadata.history()) == 3

    def test_a_failing_expiration_fails_no_write(
        self,
        open_metastore: OpenMetastore,
        unit: MakeUnit,
        now: SimpleNamespace,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """The handler raises: the write lands, and so does the next."""
        metastore = open_metastore(expiration={"period": {"seconds": 1}})

        def fail(*_: Any) -> ExpirationResult:
            raise RuntimeError("a bug in expiration")

        monkeypatch.setattr(metastore.tables.expiration, "expire", fail)
        for n in range(3):
            now.ms += 1_000
            metastore.tables.modify().overwrite([unit(owner=str(n))]).execute()
            metastore.tables.expiration_worker.join(PATIENCE_S)
        assert len(metastore.tables.metadata.history()) == 3
        assert metastore.tables.expiration_worker.failures == 2

    def test_a_slow_expiration_delays_no_write(
        self,
        open_metastore: OpenMetastore,
        unit: MakeUnit,
        now: SimpleNamespace,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        """Writes land, and the metastore closes, while a run is still under way."""
        metastore = open_metastore(expiration={"period": {"seconds": 1}})
        begun, end = threading.Event(), threading.Event()

        def wait(*_: Any) -> ExpirationResult:
            begun.set()
            assert end.wait(PATIENCE_S)
            return ExpirationResult()

        monkeypatch.setattr(metastore.tables.expiration, "expire", wait)
        for n in range(3):
            now.ms += 1_000
            metastore.tables.modify().overwrite([unit(owner=str(n))]).execute()
        assert begun.wait(PATIENCE_S)
        assert len(metastore.tables.metadata.history()) == 3
        metastore.close()
        assert not end.is_set()
        end.set()
