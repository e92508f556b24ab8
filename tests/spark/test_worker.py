"""The functions that executors run, called in this process: no Spark is started."""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator
from functools import partial

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from metastore.errors import EngineError, FormatError
from metastore.spark import worker

CODE = worker.fingerprint(tuple(worker.package_files()))
NUMBERS = pa.schema({"n": pa.int64()})


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """Arrow's threads, of which a task leaves itself one."""
    count = pa.cpu_count()
    yield
    pa.set_cpu_count(count)


def batch(*numbers: int) -> pa.RecordBatch:
    """Rows of :data:`NUMBERS`."""
    return pa.record_batch([pa.array(numbers, pa.int64())], schema=NUMBERS)


def by_parity(most: int, chunk: list[int]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Deals even and odd numbers; more than ``most`` numbers are an error."""
    if len(chunk) > most:
        raise FormatError(f"{len(chunk)} numbers")
    for part in (0, 1):
        yield part, batch(*(number for number in chunk if number % 2 == part))


def total(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Adds up all numbers."""
    yield batch(sum(int(number) for each in batches for number in each.column(0).to_numpy()))


def chunks(*given: list[int]) -> Iterator[pa.RecordBatch]:
    """Rows as Spark gives them to the first stage."""
    for chunk in given:
        yield pa.record_batch([pa.array([zlib.compress(pickle.dumps(chunk))], pa.binary())], ["chunk"])


def gathered(dealt: Iterable[pa.RecordBatch], part: int, code: str = CODE) -> list[tuple[str, bytes]]:
    """The answers of the task that gets the rows of one part, and errors, as Spark gives them to it."""
    rows = [each for each in dealt if each.column("part").to_pylist() == [part]]
    gather = worker.gatherer(cloudpickle.dumps(total), NUMBERS, code)  # type: ignore[no-untyped-call]
    answers = [each.to_pylist()[0] for each in gather(iter(rows))]
    return [(answer["kind"], answer["payload"]) for answer in answers]


def deal(most: int, code: str = CODE) -> worker.Stage:
    """The first stage."""
    return worker.dealer(cloudpickle.dumps(partial(by_parity, most)), code)  # type: ignore[no-untyped-call]


def test_rows_of_a_part_come_to_one_task() -> None:
    """Whichever chunk they are of; the answer is a stream of the second task's batches."""
    dealt = list(deal(9)(chunks([1, 2, 3], [4, 5])))
    sums = []
    for part in (0, 1):
        [(kind, payload)] = gathered(dealt, part)
        assert kind == worker.BATCHES
        sums += pa.ipc.open_stream(payload).read_all().column("n").to_pylist()
    assert sums == [6, 9]


def test_an_error_of_the_first_stage_passes_through_the_second() -> None:
    """With its own type: the second task ends, and answers with that error and no rows."""
    dealt = list(deal(2)(chunks([1, 2], [4, 5, 6])))
    [(kind, payload)] = gathered(dealt, 0)
    assert kind == worker.ERROR
    error, trace = pickle.loads(payload)  # noqa: S301 - of this process
    assert (type(error), str(error)) == (FormatError, "3 numbers")
    assert "by_parity" in trace


def test_an_error_that_is_not_of_the_package_becomes_one() -> None:
    """As on the local engine."""
    gather = worker.gatherer(cloudpickle.dumps(lambda _: 1 / 0), NUMBERS, CODE)  # type: ignore[no-untyped-call]
    [answer] = [row for each in gather(iter(())) for row in each.to_pylist()]
    assert answer["kind"] == worker.ERROR
    error, _ = pickle.loads(answer["payload"])  # noqa: S301 - of this process
    with pytest.raises(EngineError, match="a task failed: ZeroDivisionError"):
        raise error
