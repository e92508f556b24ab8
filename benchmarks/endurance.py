"""Question: what many commits do to a metastore whose versions expire: to the time of a commit, and to its metadata.

Random partitions of 1,000 are replaced, one commit each, and versions expire in their thread whenever the period has
passed. Commits should cost at the end what they cost at first, ``metadata.json`` should stay below a megabyte, and
manifests should stay as few as they were.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.content import PARTITIONS_OF_A_TABLE, SEGMENTS, Content
from benchmarks.measuring import OURS, Series, Verdict
from metastore.components.metastore import Metastore
from metastore.config.settings import Settings

QUESTION: Final = "many commits, with expiration on"
COMMITS: Final = 2_000
"""By default: half a minute. The long form is 100,000."""

FIRST: Final = f"{OURS}, the first hundredth"
LAST: Final = f"{OURS}, the last hundredth"

_PARTITIONS: Final = 1_000
_PERIOD: Final = {"seconds": 2}
_BYTES_AT_MOST: Final = 1_000_000


def run(folder: str, commits: int, seed: int, say: Callable[[str], None]) -> tuple[list[Series], list[Verdict]]:
    """Measure so many commits; what is built is in ``folder`` and stays there."""
    content, chance = Content(seed), random.Random(seed)
    tables = _PARTITIONS // PARTITIONS_OF_A_TABLE
    keys = {"location": {"base_path": folder, "relative_path": "ours"}, "expiration": {"period": _PERIOD}}
    taken: list[tuple[float, float]] = []
    with Metastore.open(Settings.from_mapping({"drill.metastore.iceberg": keys})) as metastore:
        metastore.tables.modify().overwrite(content.tables(range(tables))).execute()
        location = metastore.tables.initialize()
        manifests = _manifests(metastore)
        for number in range(commits):
            rows = content.segment(chance.randrange(tables), chance.randrange(SEGMENTS), number + 1)
            wall, cpu = time.perf_counter(), time.process_time()
            metastore.tables.modify().overwrite(rows).execute()
            taken.append((time.perf_counter() - wall, time.process_time() - cpu))
            if number % 100 == 0:
                say(f"{number:,} of {commits:,} commits")
        metastore.tables.expiration_worker.join()
        failures = metastore.tables.expiration_worker.failures
        part = max(1, commits // 100)
        series = [
            Series(QUESTION, "one partition replaced", commits, name, [t[0] for t in times], [t[1] for t in times], 1)
            for name, times in ((FIRST, taken[:part]), (LAST, taken[-part:]))
        ]
        after = _manifests(metastore)
    largest = max(_sizes(location), default=0)
    return series, [
        _verdict(f"metadata.json ≤ 1 MB after {commits:,} commits", largest / 1e6, largest < _BYTES_AT_MOST),
        _verdict("manifests ≤ 2× those at first", after / manifests, after <= 2 * manifests),
        _verdict("no expiration fails", float(failures), failures == 0),
        _verdict(
            "a commit at the end ≤ 1.5× one at first",
            series[1].median / series[0].median,
            series[1].median <= 1.5 * series[0].median,
        ),
    ]


def _verdict(says: str, measured: float, holds: bool) -> Verdict:
    return Verdict(QUESTION, says, measured, holds)


def _manifests(metastore: Metastore) -> int:
    """How many manifests the current version has."""
    table = metastore.tables.table.load()
    snapshot = table.current_snapshot() if table else None
    return len(snapshot.manifests(table.io)) if table and snapshot else 0


def _sizes(location: str) -> Sequence[int]:
    folder = os.path.join(location, "metadata")
    return [entry.stat().st_size for entry in os.scandir(folder) if entry.name.endswith(".metadata.json")]
