"""``python -m benchmarks``: choose questions and sizes, build what they need, measure, print, keep the raw times."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console

from benchmarks import (
    analyze,
    compare,
    console,
    deletes,
    endurance,
    expire_files,
    increments,
    maintenance,
    many_files,
    many_processes,
    memory,
    migrate,
    object_store,
    other_metastores,
    overwrite,
    publish,
    rewrite_files,
    scale,
    scan,
    small_commits,
    statistics,
    table_list,
    table_metadata,
    transaction,
    wide_tables,
)
from benchmarks.content import PARTITIONS_OF_A_TABLE, Content
from benchmarks.measuring import Pace, Series, Verdict
from benchmarks.plots import plot
from benchmarks.results import Results, machine_facts, show, write_readme
from benchmarks.stores import Stores
from demos.s3.process import s3_server

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
    "small_commits": Question(small_commits.run, small_commits.verdicts),
}


@dataclass(frozen=True)
class Run:
    """What is to be measured, at which sizes, and how; ``folder`` takes everything that is built."""

    names: Sequence[str]
    sizes: Sequence[int]
    files: int
    rows: int
    pruned_files: int
    listed_files: int
    scanned_files: int
    commits: int
    others: int
    snapshots: int
    tables: int
    migrated_files: Sequence[int]
    published_files: int
    console_tables: int
    console_files: int
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
        for name, measure in ALONE.items():
            if name in self.names:
                folder = os.path.join(self.folder, name)
                os.makedirs(folder)
                times, found = measure(self, folder)
                series += times
                verdicts += found
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


Measured = tuple[list[Series], list[Verdict]]


def _judged(series: list[Series], verdicts: Callable[[Sequence[Series]], list[Verdict]]) -> Measured:
    return series, verdicts(series)


def _other_metastores(run: Run, folder: str) -> Measured:
    series = other_metastores.run(folder, run.others, run.seed, run.pace, run.say)
    return _judged(series, other_metastores.verdicts)


def _object_store(run: Run, folder: str) -> Measured:
    return _judged(object_store.run(folder, run.seed, run.pace, run.say), object_store.verdicts)


def _analyze(run: Run, folder: str) -> Measured:
    return _judged(analyze.run(folder, run.files, run.seed, run.pace, run.say), analyze.verdicts)


def _increments(run: Run, folder: str) -> Measured:
    series = increments.run(folder, run.files, increments.LAYOUTS, run.seed, run.pace, run.say)
    return _judged(series, increments.verdicts)


def _statistics(run: Run, folder: str) -> Measured:
    return _judged(statistics.run(folder, run.rows, run.seed, run.pace, run.say), statistics.verdicts)


def _scan(run: Run, folder: str) -> Measured:
    series = scan.run(folder, run.scanned_files, run.rows, run.seed, run.pace, run.say)
    return _judged(series, scan.verdicts)


def _rewrite(run: Run, folder: str) -> Measured:
    return _judged(rewrite_files.run(folder, run.files, run.seed, run.pace, run.say), rewrite_files.verdicts)


def _deletes(run: Run, folder: str) -> Measured:
    series = deletes.run(folder, run.files, deletes.ROWS, run.seed, run.pace, run.say)
    return _judged(series, deletes.verdicts)


def _expire(run: Run, folder: str) -> Measured:
    return _judged(expire_files.run(folder, run.snapshots, run.pace, run.say), expire_files.verdicts)


def _maintenance(run: Run, folder: str) -> Measured:
    return _judged(maintenance.run(folder, run.tables, run.say), maintenance.verdicts)


def _maintenance_on_s3(run: Run, folder: str) -> Measured:
    with s3_server() as server:
        return _judged(maintenance.run(folder, run.tables, run.say, server), maintenance.verdicts)


def _migrate(run: Run, folder: str) -> Measured:
    return _judged(migrate.run(folder, run.migrated_files, run.pace, run.say), migrate.verdicts)


def _publish(run: Run, folder: str) -> Measured:
    return _judged(publish.run(folder, run.published_files, run.pace, run.say), publish.verdicts)


def _console(run: Run, folder: str) -> Measured:
    series = console.run(folder, run.console_tables, run.console_files, run.seed, run.pace, run.say)
    return _judged(series, console.verdicts)


def _wide(run: Run, folder: str) -> Measured:
    series = wide_tables.run(folder, wide_tables.COLUMNS, wide_tables.ROWS, run.seed, run.pace, run.say)
    return _judged(series, wide_tables.verdicts)


ALONE: Final[Mapping[str, Callable[[Run, str], Measured]]] = {
    "many_files": lambda run, folder: (many_files.run(folder, run.pruned_files, run.pace, run.say), []),
    "memory": lambda run, folder: memory.run(folder, run.listed_files, run.say),
    "scale": lambda run, folder: scale.run(folder, *scale.sizes(thorough=run.pace.thorough), run.say),
    "many_processes": lambda run, folder: many_processes.run(folder, run.say),
    "endurance": lambda run, folder: endurance.run(folder, run.commits, run.seed, run.say),
    "other_metastores": _other_metastores,
    "object_store": _object_store,
    "analyze": _analyze,
    "increments": _increments,
    "statistics": _statistics,
    "scan": _scan,
    "rewrite_files": _rewrite,
    "deletes": _deletes,
    "expire_files": _expire,
    "maintenance": _maintenance,
    "maintenance_on_s3": _maintenance_on_s3,
    "migrate": _migrate,
    "publish": _publish,
    "console": _console,
    "wide_tables": _wide,
}
"""Benchmarks that build their own data in the folder that they are given."""

NAMES: Final = (*STORAGE, *ALONE)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; 0 also when an expectation is missed, since a time is no test."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["compare"]:
        return compare.main(given[1:])
    options = _parser().parse_args(given)
    screen = Console(width=None if sys.stdout.isatty() else 120)
    runs = [_read(file) for file in options.join] if options.join else [_measure(options, screen)]
    for results in runs:
        show(results, screen)
        if options.plots:
            plot(results, options.plots)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            file.write(runs[0].to_json())
    if options.write_readme:
        write_readme(runs, _README)
    return 0


def _read(path: str) -> Results:
    with open(path, encoding="utf-8") as file:
        return Results.from_json(file.read())


def _measure(options: argparse.Namespace, screen: Console) -> Results:
    with tempfile.TemporaryDirectory(prefix="benchmarks-", dir=options.folder) as folder:
        rounds = options.rounds or (2 if options.quick else 5)
        sizes = options.sizes or (QUICK_SIZES if options.quick else SIZES)
        pace = Pace(rounds, thorough=options.thorough)
        with screen.status("") as status:
            chosen = Run(
                options.names or NAMES,
                sizes,
                options.files,
                options.rows,
                options.pruned_files,
                options.listed_files,
                options.scanned_files,
                options.commits,
                options.others,
                options.snapshots,
                options.tables,
                [options.migrated_files] if options.migrated_files else migrate.FILES,
                options.published_files,
                options.console_tables,
                options.console_files,
                pace,
                options.seed,
                folder,
                status.update,
            )
            return chosen.results()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__.partition(":")[2] if __doc__ else "")
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], metavar="name", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--sizes", type=_sizes, help="numbers of partitions, for instance 1000,10000")
    parser.add_argument("--files", type=int, default=analyze.FILES, help="Parquet to ANALYZE and to rewrite (2000)")
    parser.add_argument(
        "--rows", type=int, default=statistics.ROWS, help="rows of a table to describe, to scan (20000000)"
    )
    parser.add_argument("--pruned-files", type=int, default=many_files.FILES, help="files to choose from (100000)")
    parser.add_argument("--listed-files", type=int, default=memory.FILES, help="files to list in memory (20000)")
    parser.add_argument("--scanned-files", type=int, default=scan.FILES, help="files of a scanned table (10000)")
    parser.add_argument("--commits", type=int, default=endurance.COMMITS, help="commits to endure (2000)")
    parser.add_argument(
        "--others", type=int, default=other_metastores.PARTITIONS, help="partitions in other metastores (1000)"
    )
    parser.add_argument("--snapshots", type=int, default=expire_files.SNAPSHOTS, help="snapshots to expire (1000)")
    parser.add_argument("--tables", type=int, default=maintenance.TABLES, help="tables of a pass (1000)")
    parser.add_argument("--migrated-files", type=int, help="files of Hive tables (2000, then 20000)")
    parser.add_argument("--published-files", type=int, default=publish.FILES, help="files to publish (10000)")
    parser.add_argument("--console-tables", type=int, default=console.TABLES, help="tables behind pages (10000)")
    parser.add_argument("--console-files", type=int, default=console.FILES, help="files behind pages (1000000)")
    parser.add_argument("--rounds", type=int, help="rounds of each contender after its warm-up (5)")
    parser.add_argument("--quick", action="store_true", help="1,000 partitions, 2 rounds")
    parser.add_argument("--thorough", action="store_true", help="also the peers and sizes that take many minutes")
    parser.add_argument("--json", metavar="FILE", help="write raw times, expectations and machine facts to FILE")
    parser.add_argument(
        "--join", nargs="+", metavar="FILE", help="measure nothing, show what earlier runs wrote with --json"
    )
    parser.add_argument("--write-readme", action="store_true", help="put the results into benchmarks/README.md")
    parser.add_argument("--plots", metavar="FOLDER", help="draw a picture for each question into FOLDER")
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
