"""Question: the memory that a process takes at most to list, to prune and to ANALYZE a table of very many files.

Each thing is done in a process of its own, over the same metastore: once with 1,000 files in a segment, once with 100,
each file with a row group. No file is made, as in ``many_files``, but for ANALYZE after a file of every segment has
changed: these are copies of one of fifty rows and ten columns, and helper processes are not counted. What is listed
goes to the command line's own JSON, and from there nowhere. The imports alone take a part of the memory, which is
measured too.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.many_files import ROWS, TABLE, fill, settings_at
from benchmarks.measuring import OURS, Series, Verdict
from metastore.cli.app import app
from metastore.components.metastore import Metastore
from metastore.session import Session

QUESTION: Final = "memory"
FILES: Final = 20_000
"""By default: a quarter of a minute. The long form is 1,000,000."""

FILES_OF_A_SEGMENT: Final = (1_000, 100)
"""Two layouts of the same files."""

_LAKE: Final = "lake"
_BYTES_AT_MOST: Final = 1_000_000_000


def run(
    folder: str, files: int, say: Callable[[str], None], layouts: Sequence[int] = FILES_OF_A_SEGMENT
) -> tuple[list[Series], list[Verdict]]:
    """Measure over ``files``, a multiple of each of ``layouts``; what is built is in ``folder`` and stays there."""
    series: list[Series] = []
    verdicts: list[Verdict] = []
    for each in layouts:
        place = os.path.join(folder, str(each))
        say(f"building units of {files:,} files, {each:,} in a segment")
        fill(settings_at(place), files, each, row_groups=True)
        say(f"building {files:,} files, {each:,} in a directory")
        _build_lake(place, files, each)
        for name in CASES:
            say(f"{name}, {each:,} files in a segment")
            command = [sys.executable, "-m", "benchmarks.memory", place, str(files), name]
            ran = subprocess.run(command, stdout=subprocess.PIPE, check=True)  # noqa: S603 - this module
            found = json.loads(ran.stdout)
            case = f"{name}, {each:,} files in a segment"
            series.append(Series(QUESTION, case, files, OURS, [found["seconds"]], [found["cpu"]], files))
            verdicts.append(
                Verdict(
                    QUESTION,
                    f"{case}: {files:,} files in ≤ 1 GB ({found['peak'] // 1_000_000:,} MB)",
                    found["peak"] / _BYTES_AT_MOST,
                    found["peak"] <= _BYTES_AT_MOST,
                )
            )
    return series, verdicts


def _build_lake(folder: str, files: int, each: int) -> None:
    """Files that the metastore knows, the first of each directory as it was before."""
    lake = os.path.join(folder, _LAKE)
    buffer = pa.BufferOutputStream()
    rows = pa.table({f"c{number}": [number * row for row in range(50)] for number in range(10)})
    pq.write_table(rows, buffer)
    content = buffer.getvalue().to_pybytes()
    directories = [os.path.join(lake, f"d={number}") for number in range(files // each)]
    for directory in directories:
        os.makedirs(directory)
        for number in range(each):
            with open(os.path.join(directory, f"{number}.parquet"), "wb") as file:
                file.write(content)
    _analyze(folder, 0)
    for directory in directories:
        os.utime(os.path.join(directory, "0.parquet"))


def _analyze(folder: str, _: int) -> object:
    with Session(Metastore.open(settings_at(folder))) as session:
        return session.analyze(os.path.join(folder, _LAKE))


def _prune(where: Callable[[int], str]) -> Callable[[str, int], object]:
    def prune(folder: str, rows: int) -> object:
        with Session(Metastore.open(settings_at(folder))) as session:
            return session.prune(str(TABLE), where(rows), list_files=False)

    return prune


def _command(*arguments: str) -> Callable[[str, int], object]:
    def run_command(folder: str, _: int) -> object:
        conf = os.path.join(folder, "one.conf")
        with open(conf, "w", encoding="utf-8") as file:
            file.write(f'drill.metastore.iceberg.location {{ base_path = "{folder}", relative_path = "ours" }}\n')
        with open(os.devnull, "w", encoding="utf-8") as nowhere, redirect_stdout(nowhere):
            return app(["--conf", conf, "--json", *arguments], standalone_mode=False)

    return run_command


CASES: Final[dict[str, Callable[[str, int], object]]] = {
    "nothing": lambda _, __: None,
    "prune, one segment left": _prune(lambda rows: f"id >= {rows // 2} and id < {rows // 2 + ROWS}"),
    "prune, every file left": _prune(lambda rows: f"id >= 0 and id < {rows}"),
    "list of files": _command("files", str(TABLE)),
    "list of segments": _command("segments", str(TABLE)),
    "list of tables": _command("tables"),
    "ANALYZE, a file of every segment changed": _analyze,
}


def peak() -> int:
    """The most memory that this process has had, in bytes."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            # Other than what the system accounts for, this leaves out the process that started this one.
            return next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
    except OSError:
        unit = 1 if sys.platform == "darwin" else 1 << 10
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def main(arguments: Sequence[str]) -> None:
    """Do one thing in this process, and say what it took."""
    folder, files, name = arguments
    wall, cpu = time.perf_counter(), time.process_time()
    kept = CASES[name](folder, int(files) * ROWS)
    taken = {"seconds": time.perf_counter() - wall, "cpu": time.process_time() - cpu, "peak": peak()}
    del kept
    print(json.dumps(taken))


if __name__ == "__main__":
    main(sys.argv[1:])
