"""Question: whether 8 processes that each commit 200 times to one component, with expiration on, all come to their end.

Each commit replaces a table of the process's own, adds another, and replaces one that all share. There must be no
error, no lost commit, and nobody may be kept waiting while the others go on. A process may have to wait for seven
others at each commit; the longest wait says how fair that is.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.measuring import OURS, Series, Verdict
from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.errors import MetastoreError
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import GENERAL_INFO, MetadataType

QUESTION: Final = "many processes"
PROCESSES: Final = 8
COMMITS: Final = 200
CASE: Final = "one commit, with the wait for the others"
_PERIOD: Final = {"seconds": 2}


@dataclass(frozen=True)
class _Written:
    """What one process did: seconds and time on cores of each commit, errors, and when it began and ended."""

    seconds: Sequence[float]
    cpu: Sequence[float]
    errors: Sequence[str]
    began: float
    ended: float


def run(
    folder: str, say: Callable[[str], None], *, processes: int = PROCESSES, commits: int = COMMITS
) -> tuple[list[Series], list[Verdict]]:
    """Measure; what is built is in ``folder`` and stays there."""
    say(f"{processes} processes of {commits} commits each")
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(processes) as pool:
        found = pool.starmap(_write, [(folder, writer, commits) for writer in range(processes)], chunksize=1)
    series = [
        Series(QUESTION, CASE, commits, f"{OURS}, process {number}", one.seconds, one.cpu, 1)
        for number, one in enumerate(found)
    ]
    errors = [error for one in found for error in one.errors]
    for error in errors:
        say(error)
    made = processes * commits
    versions, lost = _kept(folder, processes, commits)
    spans = [one.ended - one.began for one in found]
    rate = made / (max(one.ended for one in found) - min(one.began for one in found))
    return series, [
        Verdict(QUESTION, f"no error in {made:,} commits ({rate:.1f} a second)", float(len(errors)), not errors),
        Verdict(QUESTION, "no commit is lost, each is one version", float(lost), not lost and versions == made),
        Verdict(QUESTION, "the last is done ≤ 1.5× the time of the first", max(spans) / min(spans), _fair(spans)),
        Verdict(QUESTION, "the longest wait, in seconds", max(max(one.seconds) for one in found), None),
    ]


def _fair(spans: Sequence[float]) -> bool:
    return max(spans) <= 1.5 * min(spans)


def _write(folder: str, writer: int, commits: int) -> _Written:
    seconds, cpu, errors = [], [], []
    began = time.time()
    with Metastore.open(_settings(folder)) as metastore:
        for number in range(commits):
            names = [f"own{writer}", f"t{writer}-{number}", "shared"]
            wall, core = time.perf_counter(), time.process_time()
            try:
                metastore.tables.modify().overwrite([_unit(name, f"{writer}-{number}") for name in names]).execute()
            except MetastoreError as error:
                errors.append(f"process {writer}: {error}")
            seconds.append(time.perf_counter() - wall)
            cpu.append(time.process_time() - core)
        ended = time.time()
        metastore.tables.expiration_worker.join()
        if failures := metastore.tables.expiration_worker.failures:
            errors.append(f"process {writer}: {failures} expirations failed")
    return _Written(seconds, cpu, errors, began, ended)


def _kept(folder: str, processes: int, commits: int) -> tuple[int, int]:
    """How many commits the table has had, and how many tables are not as they were written."""
    with Metastore.open(_settings(folder)) as metastore:
        found = {
            unit.table_name: unit.owner for unit in metastore.tables.read().metadata_types(MetadataType.ALL).execute()
        }
        state = metastore.tables.table.state()
    last = commits - 1
    expected = {f"t{writer}-{n}": f"{writer}-{n}" for writer in range(processes) for n in range(commits)}
    expected |= {f"own{writer}": f"{writer}-{last}" for writer in range(processes)}
    lost = sum(found.get(name) != owner for name, owner in expected.items())
    lost += found.get("shared") not in {f"{writer}-{last}" for writer in range(processes)}
    return state.metadata.next_sequence_number() - 1 if state else 0, lost


def _settings(folder: str) -> Settings:
    location = {"base_path": folder, "relative_path": "ours"}
    return Settings.from_mapping({"drill.metastore.iceberg": {"location": location, "expiration": {"period": _PERIOD}}})


def _unit(table: str, owner: str) -> TableMetadataUnit:
    return TableMetadataUnit(
        storage_plugin="dfs",
        workspace="tmp",
        table_name=table,
        owner=owner,
        metadata_type=MetadataType.TABLE.value,
        metadata_key=GENERAL_INFO,
        metadata_identifier=GENERAL_INFO,
    )
