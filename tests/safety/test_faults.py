"""One operation of a commit or of maintenance goes wrong: readable at before or after, nothing lost, nothing left.

Every operation on files that a task does is numbered. It fails; or it is done and reports failure; or it hangs while
others write, expire and are waited for by nobody, or only expire; or the process dies there, by SIGKILL. What the
caller is told holds: no error means that it is done, an error other than OutcomeUnknownError that nothing was changed.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest
from safety.faults import Fault, Steps
from safety.sizes import SIZE
from safety.worlds import OTHERS, ComponentWorld, LakeWorld, PublishedWorld, UnpublishedWorld, World, unit

from metastore.errors import MetastoreError, OutcomeUnknownError
from metastore.session import Session

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(3600)]

GUIDE = (Path(__file__).parents[2] / "docs/guide/safety.md").read_text()
ROWS = re.findall(r"^\| [^|]+ \| (\d+) \| (\d+) \|$", GUIDE, re.MULTILINE)
COUNTS = [int(count) for count, _ in ROWS]
"""The operations of each task, in the order of ``TASKS``, and of all together, as the guide has them."""

Task = Callable[[Any, Session], object]


def commit(_: World, session: Session) -> None:
    """An overwrite that replaces and adds, and a delete."""
    units = [unit("a", "new"), unit("c", "new")]
    session.tables.modify().overwrite(units).delete("tableName = 'b'").execute()


def expire(world: World, session: Session) -> None:
    """Three versions go."""
    world.expire(session)


def remove_orphan_files(world: World, session: Session) -> None:
    """An old file that nobody knows goes."""
    world.call(session, "remove_orphan_files")


def rewrite_manifests(world: World, session: Session) -> None:
    """Four become one."""
    world.call(session, "rewrite_manifests")


def rewrite_data_files(world: World, session: Session) -> None:
    """Three files become one."""
    world.call(session, "rewrite_data_files", options={"min-input-files": "2"})


def publish_table(world: Any, session: Session) -> None:
    """A file goes, one comes, and a column is wider; or the first publication."""
    world.publish(session)


TASKS: dict[str, tuple[type[World], Task]] = {
    "commit": (ComponentWorld, commit),
    "expire": (ComponentWorld, expire),
    "remove_orphan_files of a component": (ComponentWorld, remove_orphan_files),
    "expire_snapshots": (LakeWorld, expire),
    "remove_orphan_files": (LakeWorld, remove_orphan_files),
    "rewrite_manifests": (LakeWorld, rewrite_manifests),
    "rewrite_data_files": (LakeWorld, rewrite_data_files),
    "publish_table for the first time": (UnpublishedWorld, publish_table),
    "publish_table again": (PublishedWorld, publish_table),
}


def attempt(world: World, task: Task, steps: Steps) -> Exception | None:
    """Do ``task`` under ``steps``; what it raised."""
    with world.session() as session:
        session.tables.initialize()
        with steps.installed():
            try:
                task(world, session)
            except Exception as error:  # noqa: BLE001 - it is judged by the test
                return error
    return None


def die(world: World, name: str, at: int) -> None:
    """In a process of its own: do the task, and be killed on the way."""
    attempt(world, TASKS[name][1], Steps(str(world.folder), at, Fault.DIES))
    os._exit(0)


@pytest.fixture(scope="module")
def forks() -> ForkServerContext:
    """Processes forked from one that has imported this module and started no thread."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    return context


def check(world: World, fault: Fault, error: Exception | None, after: list[str]) -> str:
    """What holds whatever happened; the outcome in a word."""
    changed = world.pointer() != world.before
    rows = world.rows()
    ours = [row for row in rows if not row.startswith(OTHERS)]
    assert ours in (world.rows_before, after)
    assert world.reachable() <= world.files()
    if fault is Fault.HANGS:
        assert len(rows) == len(ours) + 1, "what others wrote meanwhile is lost"
    assert error is None or isinstance(error, MetastoreError), repr(error)
    if fault is not Fault.DIES:
        if error is None:
            assert ours == after
        elif not isinstance(error, OutcomeUnknownError):
            assert ours == world.rows_before
            assert fault in (Fault.HANGS, Fault.EXPIRES) or not changed, f"it says that nothing was changed: {error!r}"
    world.clean()
    assert world.files() == world.reachable()
    assert len(world.rows()) == len(rows or after) + 1
    if error is not None:
        return type(error).__name__
    return "died, done" if fault is Fault.DIES and changed else "died, not done" if fault is Fault.DIES else "done"


@pytest.mark.parametrize("fault", Fault, ids=lambda fault: fault.name.lower())
@pytest.mark.parametrize("name", TASKS)
def test_one_operation_goes_wrong(
    tmp_path: Path, forks: ForkServerContext, name: str, fault: Fault, capsys: pytest.CaptureFixture[str]
) -> None:
    """Readable at before or after; nothing that is reachable missing; a later run leaves no file too many."""
    make, task = TASKS[name]
    world = make(tmp_path)
    counting = Steps(str(world.folder))
    assert attempt(world, task, counting) is None
    after = world.rows()
    count = len(counting.seen)
    assert abs(count - dict(zip(TASKS, COUNTS, strict=False))[name]) <= 10, "the guide's table is out of date"
    tried = SIZE.spread(count, list(Fault).index(fault))
    outcomes: Counter[str] = Counter()
    for at in tried:
        world.put_back()
        steps = Steps(str(world.folder), at, fault, world.others if fault is Fault.HANGS else world.others_expire)
        error = None
        if fault is Fault.DIES:
            child = forks.Process(target=die, args=(world, name, at))
            child.start()
            child.join(60)
            assert child.exitcode == -signal.SIGKILL
        else:
            error = attempt(world, task, steps)
        try:
            outcomes[check(world, fault, error, after)] += 1
        except Exception as failure:
            text = f"{name}, operation {at} of {count} ({counting.seen[at - 1]}) {fault.value}, with {error!r}"
            raise AssertionError(text) from failure
    with capsys.disabled():
        told = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
        sys.stdout.write(f"\n{name}: {len(tried)} of {count} operations, one {fault.value}: {told}\n")


def test_the_guide_adds_them_up() -> None:
    """Its rows are these tasks, each operation goes wrong in all of these ways, and the last row is the sum."""
    assert [int(cases) for _, cases in ROWS] == [count * len(Fault) for count in COUNTS]
    assert len(COUNTS) == len(TASKS) + 1
    assert sum(COUNTS[:-1]) == COUNTS[-1]
    text = " ".join(GUIDE.split())
    assert [fault.value for fault in Fault if fault.value not in text] == []
