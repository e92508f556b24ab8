"""One operation of a migration goes wrong: Hive's table as it was or Iceberg's whole, nothing lost, nothing left.

Every operation on files and every call of the real Hive Metastore is numbered. It fails; or it is done and its answer
is lost; or it hangs while others insert, or migrate the table, too; or the process dies there, by SIGKILL. What the
caller is told holds: no error means that the table is Iceberg's, one other than OutcomeUnknownError that it is not.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.context import ForkServerContext
from pathlib import Path

import pytest
from safety.faults import Fault, Steps
from safety.hive_world import OTHERS, ROWS, HiveTable, HiveWorld
from safety.sizes import SIZE

from metastore.errors import MetastoreError, OutcomeUnknownError
from metastore.sources.hive.client import HiveClient

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(3600)]

GUIDE = Path(__file__).parents[2] / "docs/guide/safety.md"
CASES: dict[str, tuple[Fault, Callable[[HiveWorld], None]]] = {
    "fails": (Fault.FAILS, HiveWorld.insert),
    "lies": (Fault.LIES, HiveWorld.insert),
    "hangs while others insert": (Fault.HANGS, HiveWorld.insert),
    "hangs while others migrate": (Fault.HANGS, HiveWorld.migrate_and_insert),
    "dies": (Fault.DIES, HiveWorld.insert),
}


@pytest.fixture
def world(hive_metastore: str, tmp_path: Path) -> Iterator[HiveWorld]:
    """A database of the test's own."""
    with HiveClient(hive_metastore) as client:
        yield HiveWorld(client, tmp_path)


@pytest.fixture(scope="module")
def forks() -> ForkServerContext:
    """Processes forked from one that has imported this module and started no thread."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def die(table: HiveTable, at: int) -> None:
    """In a process of its own: migrate, and be killed on the way."""
    table.attempt(Steps(str(table.folder), at, Fault.DIES))
    os._exit(0)


def check(world: HiveWorld, fault: Fault, error: Exception | None) -> str:
    """What holds whatever happened; the outcome in a word."""
    is_iceberg, rows = world.is_iceberg(), world.rows()
    by_others = rows == [*ROWS, OTHERS]
    assert by_others or rows == ROWS
    if is_iceberg:
        assert world.reachable() <= world.files()
    elif not by_others:
        assert world.seen() == world.before
    assert error is None or isinstance(error, MetastoreError), repr(error)
    if fault is not Fault.DIES:
        if error is None:
            assert is_iceberg
        elif not isinstance(error, OutcomeUnknownError):
            assert not is_iceberg or by_others, f"it says that nothing was changed: {error!r}"
    with world.session() as session:
        assert world.migrate(session)["status"] == ("already migrated" if is_iceberg else "migrated")
    assert world.rows() == rows
    assert world.files() == world.reachable()
    formats = {each.sd.inputFormat.rpartition(".")[2] for each in world.hive.client.partitions(*world.full_name)}
    assert formats == {"FileInputFormat"}
    assert world.locks() == []
    if error is not None:
        return type(error).__name__
    return ("died, done" if is_iceberg else "died, not done") if fault is Fault.DIES else "done"


@pytest.fixture(scope="module")
def seen(hive_metastore: str, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Every operation of a migration that nothing disturbs, in its order."""
    with HiveClient(hive_metastore) as client:
        world = HiveWorld(client, tmp_path_factory.mktemp("undisturbed"))
        world.put_back()
        steps = Steps(str(world.folder))
        assert world.attempt(steps) is None
        assert check(world, Fault.FAILS, None) == "done"
        return list(steps.seen)


def chosen(seen: list[str], turn: int) -> Sequence[int]:
    """Numbers of operations: all in the long form, else two that do not follow one of their kind, others each turn."""
    if not SIZE.faults:
        return range(1, len(seen) + 1)
    firsts = [at for at, name in enumerate(seen, 1) if [name] != seen[at - 2 : at - 1]]
    return [firsts[(turn + half * len(CASES)) * len(firsts) // (2 * len(CASES))] for half in (0, 1)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", CASES)
def test_one_operation_of_a_migration_goes_wrong(
    world: HiveWorld, seen: list[str], forks: ForkServerContext, case: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hive's or Iceberg's, with all rows; a later run ends it, and leaves no file, no lock, and no way to old rows."""
    fault, others = CASES[case]
    tried = chosen(seen, list(CASES).index(case))
    outcomes: Counter[str] = Counter()
    for at in tried:
        world.put_back()
        error = None
        if fault is Fault.DIES:
            child = forks.Process(target=die, args=(world.table, at))
            child.start()
            child.join(60)
            assert child.exitcode == -signal.SIGKILL
        else:
            error = world.attempt(Steps(str(world.folder), at, fault, lambda: others(world)))
        try:
            outcomes[check(world, fault, error)] += 1
        except Exception as failure:
            text = f"migrate, operation {at} of {len(seen)} ({seen[at - 1]}) {case}, with {error!r}"
            raise AssertionError(text) from failure
    with capsys.disabled():
        told = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
        sys.stdout.write(f"\nmigrate: {len(tried)} of {len(seen)} operations, one {case}: {told}\n")


def test_the_guide_counts_them(seen: list[str]) -> None:
    """Calls of the service and operations on files; each goes wrong in so many ways."""
    calls = sum(each == "connect" or each.startswith("call ") for each in seen)
    assert {"call lock", "call alter_table_with_environment_context", "open_output_stream", "write"} <= set(seen)
    [row] = re.findall(r"^\| `migrate`.*", GUIDE.read_text(), flags=re.MULTILINE)
    assert [int(number) for number in re.findall(r"\d+", row)] == [calls, len(seen), len(CASES) * len(seen)]
