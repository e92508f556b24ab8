"""Question: the time to list all tables with the times of their last change.

It is what a catalog browser and an incremental job ask. One row a table, four columns, cold as in
:mod:`benchmarks.table_metadata`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, beside, measure
from benchmarks.stores import IN_ORDER, ON_OURS, PLAIN, QUICK_AT_MOST, Stores
from metastore.components.metastore import Metastore
from metastore.model.vocabulary import GENERAL_INFO, MetadataType

QUESTION: Final = "list of tables"
COLD: Final = "names and times of all tables, cold"
WARM: Final = "names and times of all tables, warm"
COLUMNS: Final = ("storagePlugin", "workspace", "tableName", "lastModifiedTime")


def run(stores: Stores, pace: Pace) -> list[Series]:
    """Measure at the size of ``stores``."""
    cold = [Contender(OURS, _ours, stores.ours, _rows)]
    metastore = stores.ours()
    warm = [Contender(OURS, lambda _: _ours(metastore), answer=_rows)]
    if pace.affords(stores.size, QUICK_AT_MOST):
        table = stores.plain()()
        cold += [
            Contender(PLAIN, lambda load: _theirs(load()), stores.plain, _rows),
            Contender(IN_ORDER, lambda load: _theirs(load()), stores.in_order, _rows),
            Contender(ON_OURS, lambda load: _theirs(load()), stores.on_ours, _rows),
        ]
        warm.append(Contender(PLAIN, lambda _: _theirs(table), answer=_rows))
    return [
        *measure(QUESTION, COLD, stores.size, cold, pace, items=stores.tables),
        *measure(QUESTION, WARM, stores.size, warm, pace, items=stores.tables),
    ]


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was promised: 50 times the peer's speed at 10,000 partitions, cold."""
    return [beside(series, QUESTION, 10_000, (COLD, OURS), (COLD, peer), 50) for peer in (PLAIN, IN_ORDER)]


def _ours(metastore: Metastore) -> pa.Table:
    return metastore.tables.read().metadata_types(MetadataType.TABLE).columns(*COLUMNS).to_arrow()


def _theirs(table: Table) -> pa.Table:
    return table.scan(row_filter=EqualTo("metadataKey", GENERAL_INFO), selected_fields=COLUMNS).to_arrow()


def _rows(found: pa.Table) -> object:
    return sorted(zip(*(found.column(name).to_pylist() for name in COLUMNS), strict=True))
