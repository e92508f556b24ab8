"""Random histories: appends, deletes, overwrites, branches, tags and procedures leave the rows that a small model says.

After each procedure that deletes files, every file that a kept branch or tag reaches is on the disk, and every file on
the disk is reached or young. The model is a set of rows for each branch and tag.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from pyiceberg.table import Table
from support.catalog_lake import Lake

from metastore.procedures.expire.expire import expire_snapshots
from metastore.procedures.imports.add_files import add_files
from metastore.procedures.orphans.remove_orphans import remove_orphan_files
from metastore.procedures.tables.rewrite_manifests import rewrite_manifests
from metastore.procedures.tables.table_stats import compute_table_stats

BRANCHES = ("main", "side")
KEYS = ("a", "b")
COLUMNS: list[tuple[str, pa.DataType]] = [("id", pa.int64()), ("city", pa.string())]
SCHEMA = pa.schema(COLUMNS)

STEPS = st.one_of(
    st.tuples(st.just("append"), st.sampled_from(BRANCHES), st.sampled_from(KEYS)),
    st.tuples(st.just("delete"), st.sampled_from(BRANCHES), st.sampled_from(KEYS)),
    st.tuples(st.just("overwrite"), st.sampled_from(BRANCHES), st.sampled_from(KEYS)),
    st.tuples(st.sampled_from(["branch", "tag", "untag", "partition", "stray", "add"])),
    st.tuples(st.sampled_from(["expire", "expire_one", "orphans", "stats"])),
    st.tuples(st.just("manifests")),
)


class History:
    """One table of a lake, the rows that each ref must have, and the steps that change both."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.table: Table = lake.table()
        self.model: dict[str, Counter[tuple[int, str]]] = {"main": Counter()}
        self.next_id = 0

    def step(self, name: str, *arguments: str) -> None:
        """Do one step; those that need a branch or snapshot that is not there do nothing."""
        self.table.refresh()
        getattr(self, f"_{name}")(*arguments)
        self.table.refresh()

    def _rows(self, key: str) -> pa.Table:
        self.next_id += 1
        return pa.table({"id": [self.next_id], "city": [key]}, schema=SCHEMA)

    def _has(self, branch: str) -> bool:
        return branch in self.table.metadata.refs

    def _head(self) -> int:
        snapshot = self.table.current_snapshot()
        assert snapshot is not None
        return snapshot.snapshot_id

    def _append(self, branch: str, key: str) -> None:
        if self._has(branch) or branch == "main":
            self.table.append(self._rows(key), branch=branch)
            self.model[branch][self.next_id, key] += 1

    def _delete(self, branch: str, key: str) -> None:
        if any(city == key for _, city in self.model.get(branch, ())):
            self.table.delete(f"city = '{key}'", branch=branch)
            self.model[branch] = Counter({row: n for row, n in self.model[branch].items() if row[1] != key})

    def _overwrite(self, branch: str, key: str) -> None:
        if self.model.get(branch):
            self.table.overwrite(self._rows(key), branch=branch)
            self.model[branch] = Counter({(self.next_id, key): 1})

    def _branch(self) -> None:
        if self._has("main") and not self._has("side"):
            self.table.manage_snapshots().create_branch(self._head(), "side").commit()
            self.model["side"] = Counter(self.model["main"])

    def _tag(self) -> None:
        if self._has("main") and not self._has("mark"):
            self.table.manage_snapshots().create_tag(self._head(), "mark").commit()
            self.model["mark"] = Counter(self.model["main"])

    def _untag(self) -> None:
        if self._has("mark"):
            self.table.manage_snapshots().remove_tag("mark").commit()
            del self.model["mark"]

    def _partition(self) -> None:
        with self.table.update_spec() as spec:
            if self.table.spec().fields:
                spec.remove_field("city")
            else:
                spec.add_identity("city")

    def _stray(self) -> None:
        (self.root / "data").mkdir(exist_ok=True)
        (self.root / "data" / f"stray {self.next_id}%20.parquet").write_bytes(b"x")

    def _add(self) -> None:
        rows = self._rows("a")
        path = self.lake.folder / f"added {self.next_id}.parquet"
        pq.write_table(rows, path)
        self.lake.call(add_files, files=[str(path)])
        self.model["main"][self.next_id, "a"] += 1

    def _expire(self) -> None:
        self.lake.call(expire_snapshots, older_than=self.lake.now + timedelta(days=1))
        assert {ref.snapshot_id for ref in self.table.refresh().metadata.refs.values()} == self._snapshots()
        self.check_files(strays=True)

    def _expire_one(self) -> None:
        heads = {ref.snapshot_id for ref in self.table.metadata.refs.values()}
        others = sorted(self._snapshots() - heads)
        if others:
            before = self._snapshots()
            self.lake.call(expire_snapshots, snapshot_ids=others[:1])
            self.table.refresh()
            assert self._snapshots() == before - set(others[:1])
            self.check_files(strays=True)

    def _orphans(self) -> None:
        self.lake.later(days=4)
        self.lake.call(remove_orphan_files)
        self.lake.later(days=-4)
        self.check_files(strays=False)

    def _manifests(self) -> None:
        self.lake.call(rewrite_manifests)

    def _stats(self) -> None:
        self.lake.call(compute_table_stats)

    @property
    def root(self) -> Path:
        """The table's folder."""
        return Path(self.table.metadata.location.removeprefix("file://"))

    def _snapshots(self) -> set[int]:
        return {snapshot.snapshot_id for snapshot in self.table.metadata.snapshots}

    def check_rows(self) -> None:
        """Each branch and tag has the model's rows."""
        for ref in self.table.metadata.refs:
            read = self.table.scan(snapshot_id=self.table.metadata.refs[ref].snapshot_id).to_arrow()
            rows = Counter(zip(read["id"].to_pylist(), read["city"].to_pylist(), strict=True))
            assert rows == self.model[ref], ref

    def check_files(self, *, strays: bool) -> None:
        """What is reached is there; nothing else is, but for ``strays`` and old metadata files."""
        self.table.refresh()
        metadata = self.table.metadata
        reached = {self.table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
        reached |= {file.statistics_path for file in metadata.statistics}
        for snapshot in metadata.snapshots:
            reached.add(snapshot.manifest_list)
            for manifest in snapshot.manifests(self.table.io):
                reached.add(manifest.manifest_path)
                reached |= {entry.data_file.file_path for entry in manifest.fetch_manifest_entry(self.table.io)}
        paths = {location.removeprefix("file://") for location in reached}
        assert all(Path(path).exists() for path in paths)
        if not strays:
            assert {str(path) for path in self.root.rglob("*") if path.is_file()} <= paths


@contextmanager
def history_in(make: Any) -> Iterator[History]:
    """A history in a lake of its own: one for each example."""
    with tempfile.TemporaryDirectory() as folder:
        lakes = make(Path(folder))
        yield History(next(lakes))
        lakes.close()


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=8, max_size=20))
def test_rows_and_files(make_lake: Callable[[Path], Iterator[Lake]], steps: list[tuple[str, ...]]) -> None:
    """Whatever the order of writes and procedures: rows are the model's, and no file that is reached is missing."""
    with history_in(make_lake) as history:
        for step in steps:
            note(str(step))
            history.step(*step)
            history.check_rows()
        history.step("expire")
        history.step("orphans")
        history.check_rows()
