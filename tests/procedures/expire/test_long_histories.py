"""Expiring a long history costs what its snapshots are, not what each is to each other: counted in calls."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table
from support.catalog_lake import Lake

from metastore.procedures.expire.expire import expire_snapshots


def with_history(table: Table, snapshots: int) -> Table:
    """The table after as many commits that changed nothing: all snapshots share one manifest list."""
    path = Path(table.metadata_location.removeprefix("file://"))
    content = json.loads(path.read_text())
    [first] = content["snapshots"]
    ids = [first["snapshot-id"], *range(1, snapshots)]
    times = [first["timestamp-ms"] + number for number in range(snapshots)]
    parents = [{}, *({"parent-snapshot-id": each} for each in ids)]
    content["snapshots"] = [
        {**first, "snapshot-id": id_, "timestamp-ms": time, "sequence-number": 1 + number, **parent}
        for number, (id_, time, parent) in enumerate(zip(ids, times, parents, strict=False))
    ]
    content["snapshot-log"] = [{"snapshot-id": i, "timestamp-ms": t} for i, t in zip(ids, times, strict=True)]
    content |= {"current-snapshot-id": ids[-1], "last-sequence-number": snapshots, "last-updated-ms": times[-1]}
    content["refs"]["main"]["snapshot-id"] = ids[-1]
    path.write_text(json.dumps(content))
    return table.refresh()


def calls_of(run: Callable[[], Any]) -> int:
    """How many Python functions and generators are entered meanwhile."""
    count = [0]

    def seen(_frame: Any, event: str, _argument: Any) -> None:
        count[0] += event == "call"

    sys.setprofile(seen)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count[0]


def test_four_times_the_snapshots_cost_at_most_five_times_the_calls(lake: Lake, rows: Callable[..., pa.Table]) -> None:
    """All but seven go, the same seven stay, and the rows do."""
    calls = []
    for snapshots in (500, 2_000):
        name = f"t{snapshots}"
        table = lake.table(name)
        table.append(rows(1))
        table = with_history(table.refresh(), snapshots)
        kept = [each.snapshot_id for each in table.metadata.snapshots[-7:]]
        lake.later(days=30)
        older_than = lake.now - timedelta(days=1)
        found: list[Any] = []

        def expire(name: str = name, found: list[Any] = found, bound: Any = older_than) -> None:
            found += lake.call(expire_snapshots, table=name, older_than=bound, retain_last=7)

        calls.append(calls_of(expire))
        assert found[0]["expired_snapshots_count"] == snapshots - 7
        fresh = table.refresh()
        assert [each.snapshot_id for each in fresh.metadata.snapshots] == kept
        assert [each.snapshot_id for each in fresh.metadata.snapshot_log] == kept
        assert fresh.scan().to_arrow().num_rows == 1
    assert calls[1] <= 5 * calls[0]
