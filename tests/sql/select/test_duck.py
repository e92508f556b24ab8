"""One query's database: what columns are called outside of it, and how a query ends that is cut short."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from metastore.duck.queries import Duck, Failure

SCHEMA = pa.schema([("id", pa.int64()), ("_1.t", pa.int64())])


def rows() -> Iterator[pa.RecordBatch]:
    """One row."""
    yield pa.record_batch({"id": [1], "_1.t": [2]}, schema=SCHEMA)


def test_a_given_name_is_nobodys_to_change() -> None:
    """Neither an alias nor a column's own; only the text of an expression loses what nobody knows outside."""
    with Duck() as duck:
        place, odd = duck.add("t", SCHEMA, rows), duck.add("odd name", SCHEMA, rows)
        named = 'SELECT 3 AS "a._1.b", 4 AS "_2.5", 5 AS "_1.t.id"'
        query = f"{named}, {place}.id + 1, {odd}.id * 2, x.* FROM {place}, {odd}, {place} x"
        assert duck.run(query).column_names == [
            "a._1.b",
            "_2.5",
            "_1.t.id",
            "(t.id + 1)",
            '("odd name".id * 2)',
            "id",
            "_1.t",
        ]


def test_a_message_keeps_its_values() -> None:
    """What looks like one of the schemas in here may be a text of the query."""
    with Duck() as duck:
        place = duck.add("t", SCHEMA, rows)
        with pytest.raises(Failure, match="_1.5x") as failure:
            duck.run(f"SELECT CAST('_1.5x' AS INT) FROM {place}")
        assert failure.value.line == 1


@pytest.mark.usefixtures("restarted_calls")
@pytest.mark.parametrize("reading", [False, True])
def test_an_interrupt_ends_a_query_wherever_it_comes(reading: bool) -> None:
    """In DuckDB's own work, which would take hours, or in the reading of a table: it is no error of the query."""
    once = threading.Lock()
    ended = threading.Event()

    def interrupted() -> Iterator[pa.RecordBatch]:
        yield from rows()
        if once.acquire(blocking=False):
            os.kill(os.getpid(), signal.SIGINT)
        while reading and not ended.is_set():
            yield from rows()

    with Duck() as duck:
        place = duck.add("t", SCHEMA, interrupted)
        with pytest.raises(KeyboardInterrupt):
            duck.run(f"SELECT count(*) FROM {place}, range(100000000) a, range(100000) b WHERE a.range + b.range != 7")
        ended.set()


def test_an_interrupt_that_duckdb_forgets_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it does with one that comes between the plan of a query and its execution."""
    calls = []

    class Forgetful:
        def __init__(self, connection: Any) -> None:
            self._connection = connection

        def __getattr__(self, name: str) -> Any:
            return getattr(self._connection, name)

        def interrupt(self) -> None:
            calls.append(1)
            if len(calls) > 2:
                self._connection.interrupt()

    def interrupted() -> Iterator[pa.RecordBatch]:
        yield from rows()
        if not calls:
            os.kill(os.getpid(), signal.SIGINT)

    with Duck() as duck:
        monkeypatch.setattr(duck, "_connection", Forgetful(duck._connection))
        place = duck.add("t", SCHEMA, interrupted)
        with pytest.raises(KeyboardInterrupt):
            duck.run(f"SELECT count(*) FROM {place}, range(100000000) a, range(100000) b WHERE a.range + b.range != 7")
    assert len(calls) > 2


def test_an_interrupt_may_come_while_the_query_is_being_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread is on its way then, and would work for hours with nobody waiting."""
    start = threading.Thread.start
    reading = threading.Event()

    def interrupted(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "metastore-sql":
            reading.wait(60)
            raise KeyboardInterrupt

    def read() -> Iterator[pa.RecordBatch]:
        reading.set()
        yield from rows()

    monkeypatch.setattr(threading.Thread, "start", interrupted)
    with Duck() as duck:
        place = duck.add("t", SCHEMA, read)
        with pytest.raises(KeyboardInterrupt):
            duck.run(f"SELECT count(*) FROM {place}, range(100000000) a, range(100000) b WHERE a.range + b.range != 7")
    assert "metastore-sql" not in {thread.name for thread in threading.enumerate()}


def test_a_query_that_is_about_to_end_may_be_left() -> None:
    """As after a second Ctrl-C, while the first one is being seen to."""
    began, left = threading.Event(), threading.Event()

    def waiting() -> Iterator[pa.RecordBatch]:
        began.set()
        left.wait(60)
        yield from rows()

    with ThreadPoolExecutor(1) as thread:
        with Duck() as duck:
            query = thread.submit(duck.run, f"SELECT id FROM {duck.add('t', SCHEMA, waiting)}")
            assert began.wait(60)
        left.set()
        query.exception(60)
