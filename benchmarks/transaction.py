"""Question: the time of one transaction over 1,000 partitions.

It replaces 100 whole tables, spread evenly over all there are, as a nightly ANALYZE of many tables does. PyIceberg has
several ways to do the same, and none is left out: ``dynamic_partition_overwrite`` takes the rows and finds out the
partitions, as ours does; ``overwrite`` takes a filter as well, which can be short because the tables are replaced
whole (one term a table, or one list of names if names are unique); ``append`` replaces nothing and is here to tell
what writing alone takes its writer. Who comes to know one partition after the other calls ``overwrite`` once for each,
all within one transaction of PyIceberg's, as one does with ours: there each call writes its own manifests and two
snapshots, and takes the longer the more were before it, so that this is measured with 50 partitions (of 1,000 not one
round had ended after nine minutes).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from itertools import count
from typing import Final

import pyarrow as pa
from pyiceberg.expressions import And, BooleanExpression, EqualTo, In, Or
from pyiceberg.table import Table

from benchmarks.content import PARTITIONS_OF_A_TABLE, table_info
from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, beside, measure
from benchmarks.stores import PLAIN, Stores, of_table
from metastore.model.identity import TableInfo
from metastore.model.mapping.rows import by_partition, from_arrow
from metastore.model.table_unit import TableMetadataUnit

QUESTION: Final = "one transaction"
CASE: Final = "replace 1,000 partitions of 100 tables"
FROM_UNITS: Final = f"{OURS}, from units"
ONE_BY_ONE: Final = "replace 50 partitions, an operation for each"
DYNAMIC: Final = f"{PLAIN} dynamic_partition_overwrite"
BY_TABLE: Final = f"{PLAIN} overwrite, one term a table"
BY_NAME: Final = f"{PLAIN} overwrite, one list of names"
BY_PARTITION: Final = f"{PLAIN} overwrite, within one transaction"
APPEND: Final = f"{PLAIN} append, replaces nothing"

_TABLES: Final = 100
_FEW_TABLES: Final = 5
_LARGEST: Final[Mapping[str, int]] = {
    DYNAMIC: 1_000,
    BY_TABLE: 1_000,
    BY_NAME: 10_000,
    BY_PARTITION: 1_000,
    APPEND: 10_000,
}
"""Sizes beyond which a peer takes minutes for one round, and is measured only on request."""


def run(stores: Stores, pace: Pace) -> list[Series]:
    """Measure at the size of ``stores``, whose tables are replaced by themselves, with later times."""
    step = max(1, stores.tables // _TABLES)
    numbers = range(0, stores.tables, step)[:_TABLES]
    infos = [table_info(number) for number in numbers]
    editions = count(1)
    metastore = stores.ours()

    def rows(of: Sequence[int] = numbers) -> pa.Table:
        return stores.content.tables(of, next(editions))

    def ours(new: pa.Table | Sequence[TableMetadataUnit]) -> int:
        metastore.tables.modify().overwrite(new).execute()
        summary = metastore.tables.metadata.history()[0].summary
        return int(summary["total-data-files"])

    def one_by_one(new: pa.Table) -> int:
        modify = metastore.tables.modify()
        for partition in by_partition(TableMetadataUnit, new):
            modify.overwrite(partition.rows)
        modify.execute()
        return int(metastore.tables.metadata.history()[0].summary["total-data-files"])

    def theirs(write: Callable[[Table, pa.Table], None]) -> Callable[[tuple[Table, pa.Table]], int]:
        def written(given: tuple[Table, pa.Table]) -> int:
            table, new = given
            write(table, new)
            snapshot = table.current_snapshot()
            assert snapshot is not None
            assert snapshot.summary is not None
            return int(snapshot.summary["total-data-files"] or 0)

        return written

    def given() -> tuple[Table, pa.Table]:
        return stores.plain()(), rows()

    contenders = [
        Contender(OURS, ours, rows, int),
        Contender(FROM_UNITS, ours, lambda: from_arrow(TableMetadataUnit, rows()), int),
        Contender(DYNAMIC, theirs(lambda table, new: table.dynamic_partition_overwrite(new)), given, int),
        Contender(BY_TABLE, theirs(lambda table, new: table.overwrite(new, _any_of(infos))), given, int),
        Contender(BY_NAME, theirs(lambda table, new: table.overwrite(new, _named(infos))), given, int),
        Contender(APPEND, theirs(lambda table, new: table.append(new)), lambda: (stores.scratch(), rows())),
    ]
    chosen = [one for one in contenders if pace.affords(stores.size, _LARGEST.get(one.name, stores.size))]
    series = measure(QUESTION, CASE, stores.size, chosen, pace, items=len(numbers) * PARTITIONS_OF_A_TABLE)
    if not pace.affords(stores.size, _LARGEST[BY_PARTITION]):
        return series
    few = numbers[:_FEW_TABLES]
    each = [
        Contender(OURS, one_by_one, lambda: rows(few), int),
        Contender(BY_PARTITION, theirs(_partition_by_partition), lambda: (stores.plain()(), rows(few)), int),
    ]
    items = len(few) * PARTITIONS_OF_A_TABLE
    return [*series, *measure(QUESTION, ONE_BY_ONE, stores.size, each, pace, items=items)]


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was promised: 20 times the peer. Shown beside each of its ways, since they differ so much."""
    ours = (CASE, OURS)
    pairs = [
        (ours, (CASE, DYNAMIC)),
        ((ONE_BY_ONE, OURS), (ONE_BY_ONE, BY_PARTITION)),
        (ours, (CASE, BY_TABLE)),
        (ours, (CASE, BY_NAME)),
    ]
    return [beside(series, QUESTION, 1_000, fast, slow, 20) for fast, slow in pairs]


def _partition_by_partition(table: Table, new: pa.Table) -> None:
    partitions = by_partition(TableMetadataUnit, new)
    with table.transaction() as transaction:
        for partition in partitions:
            columns = zip(TableMetadataUnit.partition_columns, partition.key, strict=True)
            transaction.overwrite(partition.rows, And(*[EqualTo(name, value) for name, value in columns]))


def _any_of(infos: Sequence[TableInfo]) -> BooleanExpression:
    return reduce(Or, [of_table(info) for info in infos])


def _named(infos: Sequence[TableInfo]) -> BooleanExpression:
    return In("tableName", [info.name for info in infos])
