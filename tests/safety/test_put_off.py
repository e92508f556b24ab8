"""A process is killed at an operation of a pass whose deletions wait: nothing goes before its time, nothing is lost."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import signal
from pathlib import Path

import pytest
from safety.faults import Fault, Steps
from safety.sizes import SIZE
from safety.worlds import LakeWorld

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(3600)]

DELAY_DAYS = 20
PASSES = ("expire_snapshots", "remove_orphan_files")


class WaitingWorld(LakeWorld):
    """The same table, and deletion waits."""

    delay = f"{DELAY_DAYS} days"

    def carry_out(self, name: str, days: int, steps: Steps | None = None) -> None:
        """One pass of a procedure, ``days`` from now."""
        with self.session(days) as session, (steps or Steps("\0")).installed():
            if name == "expire_snapshots":
                self.expire(session)
            else:
                self.call(session, name)

    def put_back(self) -> None:
        """By hard links: files are the ones that were listed."""
        shutil.rmtree(self.folder)
        shutil.copytree(self.saved, self.folder, copy_function=os.link)

    def waiting(self, days: int = 0) -> set[str]:
        """The files on the list."""
        with self.session(days) as session:
            return {each.path for each in session.deletions.entries()}


def die(world: WaitingWorld, name: str, days: int, at: int) -> None:
    """In a process of its own: begin the pass, and be killed on the way."""
    world.carry_out(name, days, Steps(str(world.folder), at, Fault.DIES))
    os._exit(0)


@pytest.mark.parametrize("days", [0, DELAY_DAYS + 1], ids=["before", "due"])
@pytest.mark.parametrize("name", PASSES)
def test_killed_at_any_operation(tmp_path: Path, name: str, days: int) -> None:
    """A first pass deletes nothing, one at the time deletes what is due alone, and a later one ends the work."""
    world = WaitingWorld(tmp_path)
    if days:
        world.carry_out(name, 0)
        shutil.rmtree(world.saved)
        shutil.copytree(world.folder, world.saved, copy_function=os.link)
    before, due = world.files(), world.waiting() if days else set()
    steps = Steps(str(world.folder))
    world.carry_out(name, days, steps)
    assert bool(due) == bool(days)
    assert due.isdisjoint(world.files())
    context = multiprocessing.get_context("forkserver")
    for at in SIZE.spread(len(steps.seen), PASSES.index(name)):
        world.put_back()
        child = context.Process(target=die, args=(world, name, days, at))
        child.start()
        child.join(60)
        assert child.exitcode == -signal.SIGKILL
        lost = {each for each in before - world.files() if not each.endswith(".quarantine.parquet")}
        assert lost <= due, f"operation {at}, {steps.seen[at - 1]}: deleted before its time"
        assert world.rows() == world.rows_before
        assert world.reachable() <= world.files()
        later = days
        for _ in range(2):
            world.carry_out("expire_snapshots", later)
            world.carry_out("remove_orphan_files", later + 5)
            later += DELAY_DAYS + 6
        world.carry_out("expire_snapshots", later)
        assert world.files() == world.reachable()
