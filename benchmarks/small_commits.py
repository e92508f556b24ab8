"""Question: how many small updates a second, one after the other and from many threads at once.

An update replaces one partition, in a transaction of its own, as incremental runs and their users make them. Threads of
one process that commit at the same time share a commit. The peer replaces one partition by PyIceberg's ``overwrite``,
one update after the other: its commits from several threads mostly make each other fail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Final

import pyarrow as pa
from pyiceberg.expressions import And, EqualTo

from benchmarks.content import SEGMENTS, segment_name, table_info
from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, measure
from benchmarks.stores import ON_OURS, QUICK_AT_MOST, Stores, of_table

QUESTION: Final = "small updates"
CASE: Final = "one partition each"
THREADS: Final = 16
ALONE: Final = f"{OURS}, one thread"
TOGETHER: Final = f"{OURS}, {THREADS} threads"

_UPDATES: Final = 128
_UPDATES_OF_THE_PEER: Final = 4
_PER_SECOND: Final = {ALONE: 30, TOGETHER: 100}


def run(stores: Stores, pace: Pace) -> list[Series]:
    """Measure at the size of ``stores``: so many updates of different partitions, evenly spread."""
    editions = count(1)
    metastore = stores.ours()
    at_once = min(_UPDATES, stores.size)

    def rows(updates: int) -> list[pa.Table]:
        edition = next(editions)
        numbers = (n * stores.tables // updates for n in range(updates))
        return [stores.content.segment(number, n % SEGMENTS, edition) for n, number in enumerate(numbers)]

    def update(new: pa.Table) -> None:
        metastore.tables.modify().overwrite(new).execute()

    def alone(updates: Sequence[pa.Table]) -> None:
        for new in updates:
            update(new)

    def together(updates: Sequence[pa.Table]) -> None:
        with ThreadPoolExecutor(THREADS) as threads:
            list(threads.map(update, updates))

    def ours() -> list[pa.Table]:
        return rows(at_once)

    contenders = [Contender(ALONE, alone, ours), Contender(TOGETHER, together, ours)]
    series = measure(QUESTION, CASE, stores.size, contenders, pace, items=at_once)
    if pace.affords(stores.size, QUICK_AT_MOST):
        peer = [Contender(ON_OURS, _overwrite(stores), lambda: rows(_UPDATES_OF_THE_PEER))]
        series += measure(QUESTION, CASE, stores.size, peer, pace, items=_UPDATES_OF_THE_PEER)
    return series


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was promised, in updates a second at the smallest size."""
    own = [one for one in series if one.question == QUESTION]
    size = min((one.size for one in own), default=0)
    found = []
    for name, expected in _PER_SECOND.items():
        rates = [one.items / one.median for one in own if (one.size, one.contender) == (size, name) and one.items]
        says = f"{name}, {size:,} partitions ≥ {expected} a second"
        rate = rates[0] / expected if rates else None
        found.append(Verdict(QUESTION, says, rate, None if rate is None else rate >= 1))
    return found


def _overwrite(stores: Stores) -> Callable[[Sequence[pa.Table]], None]:
    table = stores.on_ours()()

    def overwrite(updates: Sequence[pa.Table]) -> None:
        for n, new in enumerate(updates):
            number = n * stores.tables // _UPDATES_OF_THE_PEER
            key = EqualTo("metadataKey", segment_name(n % SEGMENTS))
            table.overwrite(new, And(of_table(table_info(number)), key))

    return overwrite
