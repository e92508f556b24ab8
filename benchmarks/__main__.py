"""``python -m benchmarks``: choose questions and sizes, build what they need, measure, print, keep the raw times."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console

from benchmarks import analyze, overwrite, table_list, table_metadata, transaction
from benchmarks.content import PARTITIONS_OF_A_TABLE, Content
from benchmarks.measuring import Pace, Series, Verdict
from benchmarks.results import Results, machine_facts, show, write_readme
from benchmarks.stores import Stores

SIZES: Final = (1_000, 10_000, 100_000)
QUICK_SIZES: Final = (1_000,)
_README: Final = os.path.join(os.path.dirname(__file__), "README.md")


@dataclass(frozen=True)
class Question:
    """One benchmark over stored metadata: how it is measured at one size, and what was expected of it."""

    run: Callable[[Stores, Pace], list[Series]]
    verdicts: Callable[[Sequence[Series]], list[Verdict]]


STORAGE: Final = {
    # Readers before writers, since all share the tables of a size.
    "table_metadata": Question(table_metadata.run, table_metadata.verdicts),
    "table_list": Question(table_list.run, table_list.verdicts),
    "overwrite": Question(overwrite.run, overwrite.verdicts),
    "transaction": Question(transaction.run, transaction.verdicts),
}


ANALYZE: Final = "analyze"
NAMES: Final = (*STORAGE, ANALYZE)


@dataclass(frozen=True)
class Run:
    """What is to be measured, at which sizes, and how; ``folder`` takes everything that is built."""

    names: Sequence[str]
    sizes: Sequence[int]
    files: int
    pace: Pace
    seed: int
    folder: str
    say: Callable[[str], None]

    def results(self) -> Results:
        """Build and measure; what is built for one size is removed before the next."""
        facts: dict[str, Any] = {**machine_facts(), "seed": self.seed}
        start = time.monotonic()
        stored = [name for name in STORAGE if name in self.names]
        series = [one for size in self.sizes for one in self._storage(stored, size)] if stored else []
        verdicts = [verdict for name in stored for verdict in STORAGE[name].verdicts(series)]
        if ANALYZE in self.names:
            analyzed = analyze.run(os.path.join(self.folder, ANALYZE), self.files, self.seed, self.pace, self.say)
            series += analyzed
            verdicts += analyze.verdicts(analyzed)
        facts["minutes"] = round((time.monotonic() - start) / 60, 1)
        return Results(facts, series, verdicts)

    def _storage(self, names: Sequence[str], size: int) -> list[Series]:
        folder = os.path.join(self.folder, str(size))
        stores = Stores(folder, size, Content(self.seed), self.say)
        try:
            measured = []
            for name in names:
                self.say(f"{size:,} partitions: {name}")
                measured.extend(STORAGE[name].run(stores, self.pace))
            return [*stores.loads, *measured]
        finally:
            stores.close()
            shutil.rmtree(folder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; 0 also when an expectation is missed, since a time is no test."""
    options = _parser().parse_args(arguments)
    console = Console(width=None if sys.stdout.isatty() else 120)
    with tempfile.TemporaryDirectory(prefix="benchmarks-", dir=options.folder) as folder:
        rounds = options.rounds or (2 if options.quick else 5)
        sizes = options.sizes or (QUICK_SIZES if options.quick else SIZES)
        pace = Pace(rounds, thorough=options.thorough)
        with console.status("") as status:
            chosen = Run(options.names or NAMES, sizes, options.files, pace, options.seed, folder, status.update)
            results = chosen.results()
    show(results, console)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(results.to_json())
    if options.write_readme:
        write_readme(results, _README)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__.partition(":")[2] if __doc__ else "")
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], metavar="name", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--sizes", type=_sizes, help="numbers of partitions, for instance 1000,10000")
    parser.add_argument("--files", type=int, default=analyze.FILES, help="Parquet files to ANALYZE (2000)")
    parser.add_argument("--rounds", type=int, help="rounds of each contender after its warm-up (5)")
    parser.add_argument("--quick", action="store_true", help="1,000 partitions, 2 rounds")
    parser.add_argument("--thorough", action="store_true", help="also the peers and sizes that take many minutes")
    parser.add_argument("--json", metavar="FILE", help="write raw times, expectations and machine facts to FILE")
    parser.add_argument("--write-readme", action="store_true", help="put the results into benchmarks/README.md")
    parser.add_argument("--seed", type=int, default=7, help="seed of all made-up data (7)")
    parser.add_argument("--folder", help="where to build, instead of the system's folder for temporary files")
    return parser


def _sizes(text: str) -> list[int]:
    sizes = [int(part) for part in text.replace("_", "").split(",")]
    if any(size < PARTITIONS_OF_A_TABLE or size % PARTITIONS_OF_A_TABLE for size in sizes):
        raise argparse.ArgumentTypeError(f"a table has {PARTITIONS_OF_A_TABLE} partitions: give multiples of that")
    return sizes


if __name__ == "__main__":
    sys.exit(main())
