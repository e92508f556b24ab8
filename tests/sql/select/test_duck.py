"""One query's database: what columns are called outside of it, and how a query ends that is cut short."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pyarrow as pa
import pytest

from metastore.sql.duck import Duck, Failure

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


def test_an_interrupt_is_one_wherever_it_comes() -> None:
    """In DuckDB's own work, or in the reading of a table: it is no error of the query."""

    def interrupted() -> Iterator[pa.RecordBatch]:
        signal.raise_signal(signal.SIGINT)
        for _ in range(100_000):
            yield from rows()

    def cut_short() -> Iterator[pa.RecordBatch]:
        yield from rows()
        raise KeyboardInterrupt

    for batches in (interrupted, cut_short):
        with Duck() as duck:
            place = duck.add("t", SCHEMA, batches)
            with pytest.raises(KeyboardInterrupt):
                duck.run(f"SELECT max(a.id + b.id) FROM {place} a, {place} b")
