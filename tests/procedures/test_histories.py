"""Random histories: whatever is written, branched, rolled back, picked and expired, rows are as a small model says."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.types import LongType, NestedField

from metastore.config import Settings
from metastore.errors import ProcedureError
from metastore.session import Session, connect

NAMES = st.sampled_from(["main", "a", "b", "v1"])
PICK = st.integers(0, 99)
RETENTION = {"min_snapshots_to_keep": 3, "max_snapshot_age_ms": 5, "max_ref_age_ms": 7}


@dataclass(frozen=True)
class Version:
    """A snapshot as the model knows it. ``source`` is the one whose changes it has: itself if it was not picked."""

    parent: int | None
    rows: frozenset[int]
    added: frozenset[int]
    is_append: bool
    source: int


class Histories(RuleBasedStateMachine):
    """One table, and beside it the model: versions by snapshot, and kind, head and retention of each ref."""

    session: Session

    @initialize(kind=st.sampled_from(["sql", "filesystem"]))
    def open(self, kind: str) -> None:
        """A table with rows, one of them staged and picked, and a branch that lags behind; in each kind of catalog."""
        self.folder = tempfile.mkdtemp()
        lake = {"type": kind, "warehouse": f"{self.folder}/lake", "uri": f"sqlite:///{self.folder}/lake.db"}
        given = {"drill.metastore": {"iceberg.location.base_path": self.folder, "catalogs.lake": lake}}
        self.session = connect(Settings.from_mapping(given, environ={}))
        catalog = self.session.catalogs.open("lake")
        catalog.create_namespace("db")
        catalog.create_table(("db", "t"), Schema(NestedField(1, "id", LongType(), required=False)))
        self.next_row = 0
        self.versions: dict[int, Version] = {}
        self.refs: dict[str, tuple[str, int, bool]] = {}
        self.append("main")
        self.create("a", 0, kept=True)
        self.append("main")
        self.stage()
        staged = len(self.versions) - 1
        self.append("main")
        self.cherrypick(staged)
        self.append("main")

    @property
    def table(self) -> Table:
        """The newest version, as PyIceberg loads it."""
        return self.session.catalogs.open("lake").load_table(("db", "t"))

    @rule(branch=st.sampled_from(["main", "a", "b"]))
    def append(self, branch: str) -> None:
        """A row comes to a branch."""
        if self.versions and self.refs.get(branch, ("tag",))[0] != "branch":
            return
        self._write(branch, self._append(branch))

    @rule()
    def stage(self) -> None:
        """A row comes to nobody's branch, on top of main."""
        self._write(None, self._append(None))

    @rule(branch=st.sampled_from(["main", "a", "b"]), pick=PICK)
    def delete(self, branch: str, pick: int) -> None:
        """A row of a branch goes."""
        kind, head, _ = self.refs.get(branch, ("", 0, False))
        if kind == "branch" and (rows := sorted(self.versions[head].rows)):
            row = rows[pick % len(rows)]
            before = set(self.versions)
            self.table.delete(f"id = {row}", branch=branch)
            [made] = {each.snapshot_id for each in self.table.metadata.snapshots} - before
            kept = self.versions[head].rows - {row}
            self._written(branch, made, Version(head, kept, frozenset(), False, made))

    @rule(name=NAMES, pick=PICK, kept=st.booleans())
    def create(self, name: str, pick: int, kept: bool) -> None:
        """A ref is made, if there is none of the name."""
        kind, snapshot_id = _kind(name), self._any(pick)
        retention = {key: value for key, value in RETENTION.items() if kept and (kind == "branch" or "ref" in key)}
        if self._call(f"create_{kind}", name not in self.refs, **{kind: name}, snapshot_id=snapshot_id, **retention):
            self.refs[name] = (kind, snapshot_id, kept)

    @rule(name=NAMES, as_kind=st.sampled_from(["branch", "tag"]), pick=PICK)
    def replace(self, name: str, as_kind: str, pick: int) -> None:
        """A ref goes elsewhere, if it is of that kind."""
        kind, _, kept = self.refs.get(name, ("", 0, False))
        snapshot_id = self._any(pick)
        if self._call(f"replace_{as_kind}", kind == as_kind, **{as_kind: name}, snapshot_id=snapshot_id):
            self.refs[name] = (kind, snapshot_id, kept)

    @rule(name=NAMES, as_kind=st.sampled_from(["branch", "tag"]))
    def drop(self, name: str, as_kind: str) -> None:
        """A ref goes, if it is of that kind and not main."""
        allowed = name != "main" and self.refs.get(name, ("",))[0] == as_kind
        if self._call(f"drop_{as_kind}", allowed, **{as_kind: name}):
            del self.refs[name]

    @rule(pick=PICK)
    def rollback(self, pick: int) -> None:
        """Main goes back to one of its ancestors, or forward to a snapshot that has main among its ancestors."""
        snapshot_id = self._any(pick)
        allowed = snapshot_id in self._line("main") or self.refs["main"][1] in _ancestors(self.versions, snapshot_id)
        if self._call("rollback_to_snapshot", allowed, snapshot_id=snapshot_id):
            self._move("main", snapshot_id)

    @rule(pick=PICK)
    def set_current(self, pick: int) -> None:
        """Main goes anywhere."""
        snapshot_id = self._any(pick)
        self._call("set_current_snapshot", True, snapshot_id=snapshot_id)
        self._move("main", snapshot_id)

    @rule(branch=NAMES, to=NAMES)
    def fast_forward(self, branch: str, to: str) -> None:
        """A branch follows another ref, if it has not gone another way; one that is not there is made."""
        allowed = to in self.refs
        if allowed and branch in self.refs:
            allowed = self.refs[branch][0] == "branch" and self.refs[branch][1] in self._line(to)
        if self._call("fast_forward", allowed, branch=branch, to=to):
            kept = self.refs.get(branch, ("", 0, False))[2]
            self.refs[branch] = ("branch", self.refs[to][1], kept)

    @rule(pick=PICK)
    def cherrypick(self, pick: int) -> None:
        """The changes of a snapshot come to main, if they are an append that is not there, or the next in line."""
        picked = self._any(pick)
        version, head = self.versions[picked], self.refs["main"][1]
        if version.parent == head:
            self._call("cherrypick_snapshot", True, snapshot_id=picked)
            self._move("main", picked)
            return
        line = self._line("main")
        allowed = version.is_append and picked not in line and self._origin(picked) not in map(self._origin, line)
        # Each row has a file of its own, which tells that it is there when the history has expired.
        allowed = allowed and not version.added & self.versions[head].rows
        if done := self._call("cherrypick_snapshot", allowed, snapshot_id=picked):
            [row] = done
            rows = self.versions[head].rows | version.added
            made = row["current_snapshot_id"]
            self.versions[made] = Version(head, rows, version.added, True, picked)
            self._move("main", made)

    @rule()
    def expire(self) -> None:
        """What main has been goes where no ref stands; what came after it has nothing before it."""
        heads = {head for _, head, _ in self.refs.values()}
        gone = [each for each in self._line("main") if each not in heads]
        if not gone:
            return
        self._call("expire_snapshots", True, snapshot_ids=gone)
        kept = {each: version for each, version in self.versions.items() if each not in gone}
        self.versions = {
            each: replace(version, parent=None) if version.parent in gone else version for each, version in kept.items()
        }

    @invariant()
    def refs_are_as_the_model_says(self) -> None:
        """Kind, snapshot and retention of every ref, and the rows that are seen through it."""
        table = self.table
        assert {name: (str(ref.snapshot_ref_type), ref.snapshot_id) for name, ref in table.metadata.refs.items()} == {
            name: (kind, head) for name, (kind, head, _) in self.refs.items()
        }
        for name, (_, head, kept) in self.refs.items():
            assert table.metadata.refs[name].max_ref_age_ms == (RETENTION["max_ref_age_ms"] if kept else None)
            ids: list[Any] = table.scan(snapshot_id=head).to_arrow()["id"].to_pylist()
            assert sorted(ids) == sorted(self.versions[head].rows)

    def teardown(self) -> None:
        """Leave nothing."""
        self.session.close()
        shutil.rmtree(self.folder)

    def _append(self, branch: str | None) -> int:
        before = set(self.versions)
        self.next_row += 1
        self.table.append(pa.table({"id": pa.array([self.next_row], pa.int64())}), branch=branch)
        [made] = {each.snapshot_id for each in self.table.metadata.snapshots} - before
        return made

    def _write(self, branch: str | None, made: int) -> None:
        parent = self.refs[branch or "main"][1] if self.refs else None
        rows = self.versions[parent].rows if parent is not None else frozenset()
        added = frozenset({self.next_row})
        self._written(branch, made, Version(parent, rows | added, added, True, made))

    def _written(self, branch: str | None, made: int, version: Version) -> None:
        self.versions[made] = version
        if branch is not None:
            # PyIceberg's own writes drop the retention of the branch that they move.
            self.refs[branch] = ("branch", made, False)

    def _move(self, branch: str, head: int) -> None:
        self.refs[branch] = ("branch", head, self.refs[branch][2])

    def _any(self, pick: int) -> int:
        return list(self.versions)[pick % len(self.versions)]

    def _origin(self, snapshot_id: int) -> int:
        """The snapshot that made the changes first, as far as it can still be told."""
        version = self.versions.get(snapshot_id)
        return snapshot_id if version is None or version.source == snapshot_id else self._origin(version.source)

    def _line(self, name: str) -> list[int]:
        return list(_ancestors(self.versions, self.refs[name][1]))

    def _call(self, procedure: str, allowed: bool, **arguments: Any) -> list[dict[str, Any]]:
        name = f"lake.system.{procedure}"
        if allowed:
            return self.session.call(name, schema="db", table_name="t", **arguments).to_pylist()
        with pytest.raises(ProcedureError):
            self.session.call(name, schema="db", table_name="t", **arguments)
        return []


def _kind(name: str) -> str:
    return "tag" if name == "v1" else "branch"


def _ancestors(versions: dict[int, Version], head: int | None) -> Iterator[int]:
    while head is not None:
        yield head
        head = versions[head].parent


TestHistories = Histories.TestCase
# A history is short as it is; to make a failing one shorter takes longer than a test may.
TestHistories.settings = settings(
    max_examples=20, stateful_step_count=12, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate]
)
