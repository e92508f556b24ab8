"""Question: the same metadata in other metastores: a commit of many partitions, a list of tables, one table.

All are warm: each has done the like before, in a process that goes on. The peers run in processes of their own, and
answer through a pipe (Drill) or a socket (Hive), which takes a tenth of a millisecond of their times.

- **Drill's Iceberg metastore** keeps the same units in the same layout; it is what ours can be used in place of.
- **A Hive Metastore** keeps tables and partitions, no files and no row groups (:mod:`benchmarks.peers.hive_metastore`).

A peer that cannot be had on a machine is named, and left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count
from typing import Final, TypeVar

import pyarrow as pa

from benchmarks.content import PARTITIONS_OF_A_TABLE, Content, table_info
from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, beside, measure
from benchmarks.peers import drill_metastore, hive_metastore
from benchmarks.peers.drill_metastore import DrillMetastore
from benchmarks.peers.hive_metastore import HiveMetastore
from metastore.components.metastore import Metastore
from metastore.components.requests import of_table
from metastore.config.settings import Settings
from metastore.model.identity import TableInfo
from metastore.model.vocabulary import MetadataType

P = TypeVar("P", DrillMetastore, HiveMetastore)

QUESTION: Final = "other metastores"
COMMIT: Final = "replace all partitions, one transaction where there are any"
LIST: Final = "names and times of all tables"
TABLE: Final = "one table's general information, of a table not asked for before"
AGAIN: Final = "one table's general information, asked for again"
UNITS: Final = "all that is known of one table"
PARTITIONS: Final = 1_000

_LISTED: Final = ("storagePlugin", "workspace", "tableName", "lastModifiedTime")


def run(folder: str, partitions: int, seed: int, pace: Pace, say: Callable[[str], None]) -> list[Series]:
    """Measure over so many partitions, a tenth as many tables; what is built is in ``folder`` and stays there."""
    content = Content(seed)
    numbers = range(partitions // PARTITIONS_OF_A_TABLE)
    first = content.tables(numbers)
    settings = {"drill.metastore.iceberg.location": {"base_path": folder, "relative_path": "ours"}}
    with ExitStack() as stack:
        ours = stack.enter_context(Metastore.open(Settings.from_mapping(settings)))
        ours.tables.modify().overwrite(first).execute()
        drill = _peer(stack, drill_metastore.NAME, lambda: DrillMetastore(os.path.join(folder, "drill")), say)
        if drill is not None:
            say(f"filling {drill_metastore.NAME}")
            drill.load(first)
            drill.commit()
        hive = _peer(stack, hive_metastore.NAME, lambda: HiveMetastore(os.path.join(folder, "hive")), say)
        if hive is not None:
            say(f"filling {hive_metastore.NAME}")
            hive.create(first)
        editions = count(1)

        def change() -> object:
            return ours.tables.modify().overwrite(content.segment(0, 0, next(editions))).execute()

        return [
            *_commit(ours, drill, hive, lambda edition: content.tables(numbers, edition), partitions, pace),
            *_list(ours, drill, hive, change, partitions, pace),
            *_one(ours, drill, hive, partitions, pace),
        ]


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was promised beside Drill's own, and that a point read is no slower than Hive's."""
    drill, hive = drill_metastore.NAME, hive_metastore.NAME
    return [
        beside(series, QUESTION, PARTITIONS, (COMMIT, OURS), (COMMIT, drill), 5),
        beside(series, QUESTION, PARTITIONS, (LIST, OURS), (LIST, drill), 10),
        beside(series, QUESTION, PARTITIONS, (TABLE, OURS), (TABLE, hive), 1),
        beside(series, QUESTION, PARTITIONS, (AGAIN, OURS), (AGAIN, hive), 1),
    ]


def _peer(stack: ExitStack, name: str, start: Callable[[], P], say: Callable[[str], None]) -> P | None:
    say(f"starting {name}")
    try:
        return stack.enter_context(start())
    except OSError as error:
        print(f"{name} is not measured: {error}")
        return None


def _commit(
    ours: Metastore,
    drill: DrillMetastore | None,
    hive: HiveMetastore | None,
    tables: Callable[[int], pa.Table],
    partitions: int,
    pace: Pace,
) -> list[Series]:
    editions = count(1)

    def rows() -> pa.Table:
        return tables(next(editions))

    contenders = [Contender(OURS, lambda new: ours.tables.modify().overwrite(new).execute(), rows)]
    if drill is not None:
        known = drill
        contenders.append(Contender(drill_metastore.NAME, lambda _: known.commit(), lambda: known.load(rows())))
    if hive is not None:
        contenders.append(Contender(hive_metastore.NAME, hive.replace, rows))
    return measure(QUESTION, COMMIT, partitions, contenders, pace, items=partitions)


def _list(
    ours: Metastore,
    drill: DrillMetastore | None,
    hive: HiveMetastore | None,
    change: Callable[[], object],
    partitions: int,
    pace: Pace,
) -> list[Series]:
    def listed(_: object) -> int:
        return ours.tables.read().metadata_types(MetadataType.TABLE).columns(*_LISTED).to_arrow().num_rows

    # Ours keeps answers for a version, so each time it has a new one to answer for.
    contenders = [Contender(OURS, listed, change, int)]
    if drill is not None:
        contenders.append(Contender(drill_metastore.NAME, lambda _: drill.list(), answer=len))
    if hive is not None:
        contenders.append(Contender(hive_metastore.NAME, lambda _: hive.list(), answer=len))
    return measure(QUESTION, LIST, partitions, contenders, pace, items=partitions // PARTITIONS_OF_A_TABLE)


def _one(
    ours: Metastore, drill: DrillMetastore | None, hive: HiveMetastore | None, partitions: int, pace: Pace
) -> list[Series]:
    def asked(ask: Callable[[TableInfo], object]) -> Callable[[object], object]:
        """Each time about a table that was not asked about before: answers that are kept are no use."""
        numbers = count(1)
        return lambda _: ask(table_info(next(numbers) % (partitions // PARTITIONS_OF_A_TABLE)))

    def units(info: TableInfo) -> int:
        return ours.tables.read().metadata_types(MetadataType.ALL).filter(of_table(info)).to_arrow().num_rows

    general = [Contender(OURS, asked(ours.tables.requests.table_metadata))]
    again = [Contender(OURS, lambda _: ours.tables.requests.table_metadata(table_info(0)))]
    all_known = [Contender(OURS, asked(units))]
    if drill is not None:
        all_known.append(Contender(drill_metastore.NAME, asked(drill.units)))
    if hive is not None:
        general.append(Contender(hive_metastore.NAME, asked(hive.table)))
        again.append(Contender(hive_metastore.NAME, lambda _: hive.table(table_info(0))))
        all_known.append(Contender(hive_metastore.NAME, asked(hive.partitions)))
    return [
        *measure(QUESTION, TABLE, partitions, general, pace),
        *measure(QUESTION, AGAIN, partitions, again, pace),
        *measure(QUESTION, UNITS, partitions, all_known, pace),
    ]
