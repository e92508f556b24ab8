"""Writers of one machine take turns, and nobody who stopped keeps the others from going on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

from support.forked import in_child

from metastore.components.storage import turns
from metastore.components.storage.turns import PATIENCE_S, turn


class Watch:
    """A clock that pauses move; it counts them."""

    def __init__(self) -> None:
        self.now = 0.0
        self.pauses = 0

    def pause(self, seconds: float) -> None:
        """Take no time, but show it."""
        self.now += seconds
        self.pauses += 1

    def monotonic(self) -> float:
        """Seconds that were paused."""
        return self.now


def test_nobody_waits_for_a_turn_that_is_free(tmp_path: Path) -> None:
    """One after the other, as often as they like; nor where there is no folder yet."""
    watch = Watch()
    for folder in (tmp_path, tmp_path, tmp_path / "absent"):
        with turn(str(folder), watch.monotonic, watch.pause):
            pass
    assert watch.pauses == 0


def test_a_turn_that_others_hold_is_waited_for_until_patience_ends(tmp_path: Path) -> None:
    """Then the work goes on without it, and so does the next."""
    watch = Watch()
    with turn(str(tmp_path), watch.monotonic, watch.pause):
        for waited in (PATIENCE_S, 2 * PATIENCE_S):
            with turn(str(tmp_path), watch.monotonic, watch.pause):
                assert waited <= watch.now < waited * 1.1
    before = watch.now
    with turn(str(tmp_path), watch.monotonic, watch.pause):
        assert watch.now == before


def test_a_turn_is_waited_for_as_long_as_commits_go_on(tmp_path: Path) -> None:
    """However long that takes, unless the time is over by which the writer must be done."""
    watch = Watch()

    def commits_go_on(seconds: float) -> None:
        watch.pause(seconds)
        if watch.now < 5 * PATIENCE_S:
            os.utime(tmp_path, (watch.now, watch.now))

    with turn(str(tmp_path), watch.monotonic, watch.pause):
        with turn(str(tmp_path), watch.monotonic, commits_go_on, 3 * PATIENCE_S):
            assert 3 * PATIENCE_S <= watch.now < 3.1 * PATIENCE_S
        with turn(str(tmp_path), watch.monotonic, commits_go_on):
            assert 5.9 * PATIENCE_S <= watch.now < 6.1 * PATIENCE_S


def test_two_threads_are_never_in_their_turns_at_once(tmp_path: Path) -> None:
    """With a real clock, as long as each turn is short."""
    inside = SimpleNamespace(now=0, most=0, turns=0)
    wait = threading.Event().wait

    def work() -> None:
        for _ in range(20):
            with turn(str(tmp_path), lambda: 0.0, wait):
                inside.now += 1
                inside.most = max(inside.most, inside.now)
                inside.turns += 1
                inside.now -= 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (inside.most, inside.turns) == (1, 80)


def test_who_had_a_turn_stands_behind_who_waits_for_one(tmp_path: Path) -> None:
    """However quick it is to ask again: it gets the next turn only after the one that waited already."""
    waits, order = threading.Event(), []
    wait = threading.Event().wait

    def pause(seconds: float) -> None:
        waits.set()
        wait(seconds)

    def come_later() -> None:
        with turn(str(tmp_path), lambda: 0.0, pause):
            order.append("the other")

    other = threading.Thread(target=come_later)
    with turn(str(tmp_path), lambda: 0.0, wait):
        other.start()
        assert waits.wait(60)
    with turn(str(tmp_path), lambda: 0.0, wait):
        order.append("again")
    other.join()
    assert order == ["the other", "again"]


def test_a_turn_ends_with_the_process_that_held_it(tmp_path: Path) -> None:
    """Killed in the middle of its turn, it keeps nobody."""
    program = (
        "import sys, time; from metastore.components.storage.turns import turn\n"
        f"with turn({str(tmp_path)!r}, time.monotonic, time.sleep): print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        watch = Watch()
        with turn(str(tmp_path), watch.monotonic, watch.pause):
            assert watch.pauses > 0
        holder.send_signal(signal.SIGKILL)
        holder.wait()
        watch = Watch()
        with turn(str(tmp_path), watch.monotonic, watch.pause):
            assert watch.pauses == 0


def test_a_forked_child_keeps_nothing_of_its_parents_turn(tmp_path: Path) -> None:
    """The parent's turn ends when the parent says so, however long the child lives."""
    told, tell = os.pipe()
    lives, live = os.pipe()

    def child() -> None:
        os.close(tell)
        os.write(live, b"!")
        os.read(told, 1)
        assert not turns._open_folders

    with turn(str(tmp_path), lambda: 0.0, lambda _: None):
        end = in_child(child)
        os.close(live)
        assert os.read(lives, 1) == b"!"
    watch = Watch()
    with turn(str(tmp_path), watch.monotonic, watch.pause):
        assert watch.pauses == 0
    for descriptor in (tell, told, lives):
        os.close(descriptor)
    assert end() == 0
