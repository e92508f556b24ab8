"""``python -m benchmarks compare REV``: the journeys that people have, in this checkout beside an earlier state.

The earlier state is checked out beside this one. Each group of journeys (:mod:`benchmarks.journeys`) runs in a process
of its own, this state and the earlier one in turns, so that what else the machine does falls on both alike. Of each
process the best round counts, since other work only adds to a time. A ratio is the median over the processes of this state by
that of the earlier one. CPU says what a journey costs also on a busy machine. A ratio of CPU above :data:`SLOWER` is
marked "slower".
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.table import Table

from benchmarks.journeys import GROUPS

SLOWER: Final = 1.1
_JOURNEYS: Final = os.path.join(os.path.dirname(__file__), "journeys.py")
_HERE: Final = os.path.dirname(os.path.dirname(__file__))
_RUN: Final = "import runpy, sys; sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
"""Python that runs a file with the working directory first in its path, not the folder of the file."""

Times = dict[str, list[tuple[float, float]]]
"""For each journey, seconds on the clock and of CPU of each process."""


@dataclass(frozen=True)
class Compared:
    """Medians of one journey in milliseconds, before and now."""

    journey: str
    clock: tuple[float, float]
    cpu: tuple[float, float]

    @property
    def ratio(self) -> float:
        """CPU now by CPU before."""
        before, now = self.cpu
        return now / before if before else 1.0

    @property
    def is_slower(self) -> bool:
        """Whether the journey costs clearly more than before."""
        return self.ratio > SLOWER


def compared(before: Times, now: Times) -> list[Compared]:
    """The journeys that both states have, in the order of ``now``."""
    found = []
    for journey, own in now.items():
        if journey in before:
            clock, cpu = (
                tuple(statistics.median(pair[side] for pair in pairs) * 1_000 for pairs in (before[journey], own))
                for side in (0, 1)
            )
            found.append(Compared(journey, (clock[0], clock[1]), (cpu[0], cpu[1])))
    return found


def main(arguments: Sequence[str]) -> int:
    """Run the comparison that the ``arguments`` ask for and print it; 0 also when a journey is slower."""
    options = _parser().parse_args(arguments)
    groups = options.groups or list(GROUPS)
    console = Console(width=None if sys.stdout.isatty() else 120)
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="compare-"))
        earlier = os.path.join(folder, "earlier")
        _git("worktree", "add", "--detach", earlier, options.rev)
        stack.callback(_git, "worktree", "remove", "--force", earlier)
        times: dict[str, Times] = {earlier: {}, _HERE: {}}
        with console.status("") as status:
            for turn in range(options.turns):
                for group in groups:
                    for state in (earlier, _HERE) if turn % 2 == 0 else (_HERE, earlier):
                        status.update(f"turn {turn + 1} of {options.turns}: {group}")
                        for journey, pairs in _measured(state, group, options.rounds).items():
                            times[state].setdefault(journey, []).append(_best(pairs))
    _show(compared(times[earlier], times[_HERE]), options.rev, console)
    return 0


def _measured(state: str, group: str, rounds: int) -> Mapping[str, list[tuple[float, float]]]:
    environment = {**os.environ, "PYTHONPATH": state}
    command = [sys.executable, "-c", _RUN, _JOURNEYS, group, str(rounds)]
    done = subprocess.run(command, cwd=state, env=environment, capture_output=True, text=True, check=False)  # noqa: S603 - our own file
    if done.returncode:
        raise SystemExit(f"the journeys {group!r} failed in {state}:\n{done.stderr[-2_000:]}")
    found: dict[str, list[tuple[float, float]]] = json.loads(done.stdout.splitlines()[-1])
    return found


def _best(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    clock, cpu = zip(*pairs, strict=True)
    return min(clock), min(cpu)


def _git(*arguments: str) -> None:
    command = ["git", "-C", _HERE, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a revision is its argument
    if done.returncode:
        raise SystemExit(f"git {arguments[0]} {arguments[1]} failed: {done.stderr.strip()}")


def _show(rows: Sequence[Compared], rev: str, console: Console) -> None:
    table = Table("journey", title=f"milliseconds at {rev} and now, medians")
    for name in ("clock before", "now", "CPU before", "now", "CPU ratio", ""):
        table.add_column(name, justify="right")
    for row in rows:
        numbers = (f"{number:,.1f}" for number in (*row.clock, *row.cpu))
        table.add_row(row.journey, *numbers, f"{row.ratio:.2f}", "slower" if row.is_slower else "")
    console.print(table)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks compare", description="Compare with an earlier state.")
    parser.add_argument("rev", help="a commit, branch or tag of this repository")
    parser.add_argument("--groups", nargs="+", choices=[*GROUPS], help="by default all")
    parser.add_argument("--turns", type=int, default=3, help="processes of each state and group (3)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of a journey in each process, after one more (3)")
    return parser
