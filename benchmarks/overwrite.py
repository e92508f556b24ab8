"""Question: the time to replace one partition, among so many others.

It is what an incremental ANALYZE of one changed segment commits. Ours should not depend on how much there is. Warm:
the writer has written before, as a job that runs on does. Cold: a new process's first write. Random partitions: a
hundred writes in a row, each of another partition, with whatever the garbage collector does in between.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Final

import pyarrow as pa
from pyiceberg.expressions import And, EqualTo
from pyiceberg.table import Table

from benchmarks.content import SEGMENTS, segment_name, table_info
from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, growth_at_most, measure
from benchmarks.stores import IN_ORDER, ON_OURS, PLAIN, QUICK_AT_MOST, Stores, of_table
from metastore.components.metastore import Metastore
from metastore.model.vocabulary import MetadataType

QUESTION: Final = "one overwrite"
WARM: Final = "one partition, warm"
COLD: Final = "one partition, cold"
RANDOM: Final = "random partitions, warm"
_RANDOM: Final = 100
_ONE_IN: Final = 10
"""The peer makes one of ten of these writes, since its manifests grow with each."""
_P99: Final = "p99 / median"
_SEGMENT: Final = 4


def run(stores: Stores, pace: Pace) -> list[Series]:
    """Measure at the size of ``stores``."""
    editions = count(1)
    info, key = table_info(stores.tables // 2), segment_name(_SEGMENT)
    where = And(of_table(info), EqualTo("metadataKey", key))

    def rows() -> pa.Table:
        return stores.content.segment(stores.tables // 2, _SEGMENT, next(editions))

    def ours(metastore: Metastore, new: pa.Table) -> Callable[[], pa.Table]:
        metastore.tables.modify().overwrite(new).execute()
        return lambda: metastore.tables.read().metadata_types(MetadataType.ALL).filter(where).to_arrow()

    def theirs(table: Table, new: pa.Table) -> Callable[[], pa.Table]:
        table.overwrite(new, where)
        return lambda: table.scan(row_filter=where).to_arrow()

    metastore, on_ours = stores.ours(), stores.on_ours()()
    warm = [
        Contender(OURS, lambda new: ours(metastore, new), rows, _make),
        Contender(ON_OURS, lambda new: theirs(on_ours, new), rows, _make),
    ]
    cold = [Contender(OURS, lambda given: ours(*given), lambda: (stores.ours(), rows()), _make)]
    if pace.affords(stores.size, QUICK_AT_MOST):
        table, in_order = stores.plain()(), stores.in_order()()
        warm += [
            Contender(PLAIN, lambda new: theirs(table, new), rows, _make),
            Contender(IN_ORDER, lambda new: theirs(in_order, new), rows, _make),
        ]
        cold.append(
            Contender(PLAIN, lambda given: theirs(given[0](), given[1]), lambda: (stores.plain(), rows()), _make)
        )
    return [
        *measure(QUESTION, WARM, stores.size, warm, pace),
        *measure(QUESTION, COLD, stores.size, cold, pace),
        *_random_partitions(stores, metastore, on_ours),
    ]


def _random_partitions(stores: Stores, metastore: Metastore, peer: Table) -> list[Series]:
    """Each write of ours, and one in :data:`_ONE_IN` of the peer's, of the same rows."""
    chance = random.Random(stores.content.seed)
    times: dict[str, list[tuple[float, float]]] = {OURS: [], ON_OURS: []}
    for edition in range(_RANDOM):
        table, segment = chance.randrange(stores.tables), chance.randrange(SEGMENTS)
        new = stores.content.segment(table, segment, edition + 1)
        where = And(of_table(table_info(table)), EqualTo("metadataKey", segment_name(segment)))
        writes: dict[str, Callable[[], object]] = {OURS: metastore.tables.modify().overwrite(new).execute}
        if edition % _ONE_IN == 0:
            writes[ON_OURS] = partial(peer.overwrite, new, where)
        for name, write in writes.items():
            wall, cpu = time.perf_counter(), time.process_time()
            write()
            times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    found = []
    for name, taken in times.items():
        walls, cpus = zip(*taken, strict=True)
        p99 = sorted(walls)[math.ceil(0.99 * len(walls)) - 1] / sorted(walls)[len(walls) // 2]
        found.append(Series(QUESTION, RANDOM, stores.size, name, walls, cpus, figures={_P99: p99}))
    return found


def _make(read_back: Callable[[], pa.Table]) -> object:
    """How many rows the partition has now, and of how many editions."""
    found = read_back()
    return found.num_rows, len(found.column("lastModifiedTime").unique())


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was promised: at 100,000 partitions at most 1.5 times what it takes at 1,000, and no long pauses."""
    grown = [growth_at_most(series, QUESTION, case, 1_000, 100_000, 1.5) for case in (WARM, COLD, RANDOM)]
    p99 = [(one.size, one.figures[_P99]) for one in series if (one.case, one.contender) == (RANDOM, OURS)]
    return grown + [
        Verdict(QUESTION, f"{RANDOM}: p99 ≤ 4× the median at {size:,}", x, x <= 4) for size, x in p99 if size >= 100_000
    ]
