"""Question: the time of expiring the old snapshots of a table, with their files.

A table of many files has been overwritten a piece at a time, so that each old snapshot holds files that no other one
does. Ours is the whole call: which files go, the commit, their deletion. Beside it stands what one would write by hand:
PyIceberg's expiration, which deletes no file, and then ``os.remove`` for each file of a list that was made beforehand.
The list is given to it, since finding out which files may go is the hard part, and PyIceberg does not. Both leave the
same files.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any, Final

import pyarrow as pa
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.typedef import Record

from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, beside, measure
from metastore.config.settings import Settings
from metastore.lake.iceberg.manifests.manifests import added_entry
from metastore.lake.iceberg.snapshots.snapshot import NewSnapshot
from metastore.session import Session, connect

QUESTION: Final = "expiration of snapshots, with their files"
CASE: Final = "all but the newest; items are files"
BY_HAND: Final = "PyIceberg, then os.remove of a given list"

SNAPSHOTS: Final = 1_000
FILES_EACH: Final = 10
_LIVE_MANIFESTS: Final = 5
_BYTES: Final = b"\0" * 1024
"""What is in a data file matters to nobody here: none is ever read."""


def run(folder: str, snapshots: int, pace: Pace, say: Callable[[str], None]) -> list[Series]:
    """Measure a table of ``snapshots`` snapshots, each of which replaces the files of one before."""
    say(f"building a table of {snapshots:,} snapshots")
    template = os.path.join(folder, "template")
    _build(template, snapshots)
    copies = _Copies(folder, template)
    contenders = [
        Contender(OURS, _ours, copies.fresh, _left),
        Contender(BY_HAND, _by_hand, copies.with_list, _left),
    ]
    say("expiring")
    try:
        return measure(QUESTION, CASE, snapshots, contenders, pace, items=snapshots * FILES_EACH)
    finally:
        copies.close()


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was hoped for: finding out which files may go costs no more than half of the time again."""
    return [beside(series, QUESTION, SNAPSHOTS, (CASE, OURS), (CASE, BY_HAND), 0.66)]


def _build(folder: str, snapshots: int) -> None:
    """Each snapshot adds a manifest of files, and leaves out the one that came some snapshots before it."""
    os.makedirs(folder)
    with _session(folder) as session:
        catalog = session.catalogs.open("lake")
        catalog.create_namespace("default")
        properties = {"write.metadata.previous-versions-max": "1", "write.metadata.delete-after-commit.enabled": "true"}
        table = catalog.create_table("default.t", pa.schema([("id", pa.int64())]), properties=properties)
        target = session.catalogs.table("lake", "default", "t")
        data = os.path.join(table.metadata.location.removeprefix("file://"), "data")
        os.makedirs(data)
        for number in range(snapshots):
            new = NewSnapshot(table, number)
            entries = [added_entry(_file(data), new.id) for _ in range(FILES_EACH)]
            standing = new.parent.manifests(table.io)[: _LIVE_MANIFESTS - 1] if new.parent else []
            manifests = [new.write_manifest(entries, 0), *standing]
            table = new.publish(target, manifests, Summary(Operation.OVERWRITE))


def _session(folder: str) -> Session:
    location = {"base_path": folder, "relative_path": "metastore"}
    uri = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}/lake"}
    given = {"drill.metastore.iceberg.location": location, "drill.metastore.catalogs.lake": uri}
    return connect(Settings.from_mapping(given))


def _file(folder: str) -> DataFile:
    path = os.path.join(folder, f"{uuid.uuid4()}.parquet")
    with open(path, "wb") as stream:
        stream.write(_BYTES)
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=len(_BYTES),
    )
    file.spec_id = 0
    return file


@dataclass
class _Lake:
    """The table, opened where it stands at the moment; ``doomed`` files for who cannot find them out."""

    folder: str
    session: Session
    doomed: Sequence[str] = ()

    def table(self) -> Table:
        """The table, as PyIceberg has it."""
        return self.session.catalogs.open("lake").load_table("default.t")


class _Copies:
    """The table as it was built, put back into one place for each round: metadata names files by their full paths."""

    def __init__(self, folder: str, template: str) -> None:
        self._place = template
        self._kept = os.path.join(folder, "kept")
        shutil.copytree(template, self._kept, copy_function=os.link)
        self._doomed: Sequence[str] | None = None

    def fresh(self) -> _Lake:
        """The table with all its snapshots and files."""
        shutil.rmtree(self._place)
        shutil.copytree(self._kept, self._place, copy_function=shutil.copy)
        lake = _Lake(self._place, _session(self._place))
        lake.table()
        return lake

    def with_list(self) -> _Lake:
        """The same, with the files that may go."""
        if self._doomed is None:
            lake = self.fresh()
            before = _paths(lake)
            _ours(lake).session.close()
            self._doomed = sorted(before - _paths(lake))
        return replace(self.fresh(), doomed=self._doomed)

    def close(self) -> None:
        """Remove what is built."""
        shutil.rmtree(self._kept)
        shutil.rmtree(self._place)


def _ours(lake: _Lake) -> _Lake:
    arguments: dict[str, Any] = {"schema": "default", "table_name": "t", "older_than": _soon()}
    lake.session.procedures.call("lake.system.expire_snapshots", **arguments)
    return lake


def _by_hand(lake: _Lake) -> _Lake:
    lake.table().maintenance.expire_snapshots().older_than(_soon()).commit()
    for path in lake.doomed:
        os.remove(path)
    return lake


def _soon() -> datetime:
    return datetime.now(timezone.utc) + timedelta(minutes=1)


def _left(lake: _Lake) -> object:
    """How many snapshots there are now, and how many files but metadata files, of which each way leaves its own."""
    snapshots = len(lake.table().metadata.snapshots)
    lake.session.close()
    return snapshots, len(_paths(lake))


def _paths(lake: _Lake) -> set[str]:
    root = os.path.join(lake.folder, "lake")
    files = (os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names)
    return {path for path in files if not path.endswith(".metadata.json")}
