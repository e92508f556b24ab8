"""Question: the time to read one table's metadata, among so many others.

Once its general information, which is what a planner asks first, and once all units of the table, as rows in Arrow.
Cold means a metastore just opened, and a peer whose manifest cache was cleared; what the operating system caches stays
warm for both. Warm means asked of the same open metastore or loaded table, each time another table. At last the same
table is asked for a hundred times in a row, as planners do; of that the time of each is told. The peer keeps nothing of
an answer, so that it is asked once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import And, BooleanExpression, EqualTo
from pyiceberg.table import Table

from benchmarks.content import table_info
from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, beside, measure
from benchmarks.stores import IN_ORDER, ON_OURS, PLAIN, QUICK_AT_MOST, Stores, of_table
from metastore.components.metastore import Metastore
from metastore.model.identity import TableInfo
from metastore.model.vocabulary import GENERAL_INFO, MetadataType

QUESTION: Final = "one table's metadata"
GENERAL_COLD: Final = "general information, cold"
GENERAL_WARM: Final = "general information, another table, warm"
GENERAL_AGAIN: Final = "general information, the same table again, each of 100"
ALL_COLD: Final = "all units, cold"
ALL_WARM: Final = "all units, another table, warm"
_ASKS: Final = 100


def run(stores: Stores, pace: Pace) -> list[Series]:
    """Measure at the size of ``stores``."""
    return [
        *_cold(GENERAL_COLD, stores, pace, _our_general, _their_general),
        *_warm(GENERAL_WARM, stores, pace, _our_general, _their_general),
        *_again(stores, pace),
        *_cold(ALL_COLD, stores, pace, _our_units, _their_units),
        *_warm(ALL_WARM, stores, pace, _our_units, _their_units),
    ]


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was promised: 20 times the peer's speed at 10,000 partitions, cold; and again 20 times our own cold."""
    return [
        *(
            beside(series, QUESTION, 10_000, (case, OURS), (case, peer), 20)
            for case in (GENERAL_COLD, ALL_COLD)
            for peer in (PLAIN, IN_ORDER)
        ),
        *(
            beside(series, QUESTION, size, (GENERAL_AGAIN, OURS), (GENERAL_COLD, OURS), 20)
            for size in (1_000, 10_000, 100_000)
        ),
    ]


def _our_general(metastore: Metastore, table: TableInfo) -> object:
    unit = metastore.tables.requests.table_metadata(table)
    assert unit is not None
    return unit.last_modified_time, unit.schema, dict(unit.columns_statistics or {})


def _their_general(table: Table, info: TableInfo) -> object:
    rows = _scan(table, And(of_table(info), EqualTo("metadataKey", GENERAL_INFO))).to_pylist()
    assert len(rows) == 1
    return rows[0]["lastModifiedTime"], rows[0]["schema"], dict(rows[0]["columnsStatistics"])


def _our_units(metastore: Metastore, table: TableInfo) -> pa.Table:
    return metastore.tables.read().metadata_types(MetadataType.ALL).filter(of_table(table)).to_arrow()


def _their_units(table: Table, info: TableInfo) -> pa.Table:
    return _scan(table, of_table(info))


def _scan(table: Table, filter_: BooleanExpression) -> pa.Table:
    return table.scan(row_filter=filter_).to_arrow()


def _content(found: Any) -> object:
    """Rows as comparable values, in an order of their own; what is no table is compared as it is."""
    return sorted(map(repr, found.to_pylist())) if isinstance(found, pa.Table) else found


def _cold(
    case: str,
    stores: Stores,
    pace: Pace,
    ask_ours: Callable[[Metastore, TableInfo], Any],
    ask_theirs: Callable[[Table, TableInfo], Any],
) -> list[Series]:
    info = table_info(stores.tables // 2)
    contenders = [
        Contender(OURS, lambda metastore: ask_ours(metastore, info), stores.ours, _content),
        Contender(ON_OURS, lambda load: ask_theirs(load(), info), stores.on_ours, _content),
    ]
    if pace.affords(stores.size, QUICK_AT_MOST):
        contenders += [
            Contender(PLAIN, lambda load: ask_theirs(load(), info), stores.plain, _content),
            Contender(IN_ORDER, lambda load: ask_theirs(load(), info), stores.in_order, _content),
        ]
    return measure(QUESTION, case, stores.size, contenders, pace)


def _warm(
    case: str,
    stores: Stores,
    pace: Pace,
    ask_ours: Callable[[Metastore, TableInfo], Any],
    ask_theirs: Callable[[Table, TableInfo], Any],
) -> list[Series]:
    metastore = stores.ours()
    ask_ours(metastore, table_info(0))
    # Tables nobody asked for yet, 7 apart: their data files are not in our cache, their manifests mostly are.
    ours, theirs = count(1, 7), count(1, 7)
    contenders = [
        Contender(OURS, lambda _: ask_ours(metastore, table_info(next(ours) % stores.tables)), answer=_content),
    ]
    if pace.affords(stores.size, QUICK_AT_MOST):
        table = stores.plain()()
        contenders.append(
            Contender(PLAIN, lambda _: ask_theirs(table, table_info(next(theirs) % stores.tables)), answer=_content)
        )
    return measure(QUESTION, case, stores.size, contenders, pace)


def _again(stores: Stores, pace: Pace) -> list[Series]:
    metastore, info = stores.ours(), table_info(stores.tables // 2)
    contenders = [Contender(OURS, lambda _: [_our_general(metastore, info) for _ in range(_ASKS)])]
    if pace.affords(stores.size, QUICK_AT_MOST):
        table = stores.plain()()
        contenders.append(Contender(PLAIN, lambda _: [_their_general(table, info)]))
    asks = {OURS: _ASKS, PLAIN: 1}
    return [
        replace(
            one,
            seconds=[each / asks[one.contender] for each in one.seconds],
            cpu=[each / asks[one.contender] for each in one.cpu],
        )
        for one in measure(QUESTION, GENERAL_AGAIN, stores.size, contenders, pace)
    ]
