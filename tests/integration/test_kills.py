"""A process killed at any moment of a commit or an expiration leaves a table that is read, written and expired as ever.

Each case forks a process that kills itself, by SIGKILL, before its Nth operation on the files of the metastore: making,
half-writing, flushing, linking, replacing or deleting one. N goes from the first to the last operation there is.
"""

from __future__ import annotations

import builtins
import os
import shutil
import signal
import sys
from collections.abc import Callable
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table
from support.descriptors import full_path

from metastore.components.metastore import Metastore
from metastore.components.storage import partition_writer
from metastore.config.settings import Settings
from metastore.ground.threads import Threads
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.lake.stores import threads
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import GENERAL_INFO, MetadataType

pytestmark = [pytest.mark.integration, pytest.mark.slow]

BEFORE = {"a": "old", "b": "old", "k": "old"}
AFTER = {"a": "new", "c": "new", "k": "old"}


def open_at(folder: Path) -> Metastore:
    """The metastore in ``folder``, on the real clock."""
    location = {"base_path": str(folder), "relative_path": "metastore"}
    return Metastore.open(Settings.from_mapping({"drill.metastore.iceberg.location": location}, environ={}))


def unit(table: str, owner: str) -> TableMetadataUnit:
    """General information of one table."""
    return TableMetadataUnit(
        storage_plugin="dfs",
        workspace="tmp",
        table_name=table,
        owner=owner,
        metadata_type="TABLE",
        metadata_key=GENERAL_INFO,
        metadata_identifier=GENERAL_INFO,
    )


def commit(metastore: Metastore) -> None:
    """From BEFORE to AFTER."""
    metastore.tables.modify().overwrite([unit("a", "new"), unit("c", "new")]).delete("tableName = 'b'").execute()


def expire(metastore: Metastore) -> None:
    """Three of four versions go."""
    metastore.tables.expiration.expire()


TASKS: dict[str, Callable[[Metastore], None]] = {"commit": commit, "expire": expire}


class InTurn(Threads):
    """One thread for all, so that the same N is the same moment in every run."""

    def __init__(self, _: int | None = None) -> None:
        super().__init__(1)


class Steps:
    """Counts operations on the files below ``folder``; the process dies before number ``kill_at``."""

    def __init__(self, folder: Path, kill_at: int) -> None:
        self.folder, self.kill_at, self.count = str(folder), kill_at, 0

    def step(self) -> None:
        """One operation is about to happen."""
        self.count += 1
        if self.count == self.kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    def install(self) -> None:
        """Put the counting around what changes or flushes files."""
        for name in ("link", "unlink", "replace", "mkdir", "fsync"):
            setattr(os, name, self._counting(getattr(os, name)))
        builtins.open = self._opening(builtins.open)
        for module in (threads, partition_writer):
            assert getattr(module, "Threads") is Threads, module  # noqa: B009 - not exported
            setattr(module, "Threads", InTurn)  # noqa: B010

    def _counting(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            if isinstance(arguments[0], int) or self.folder in full_path(arguments[0], options):
                self.step()
            return real(*arguments, **options)

        return call

    def _opening(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any, mode: str = "r", *arguments: Any, **options: Any) -> Any:
            stream = None
            if self.folder in str(path) and set(mode) & set("wxa"):
                self.step()
                stream = Halving(real(path, mode, *arguments, **options), self)
            return stream or real(path, mode, *arguments, **options)

        return call


class Halving:
    """A stream that can die when half of what it is given has reached the file."""

    def __init__(self, stream: Any, steps: Steps) -> None:
        self._stream, self._steps = stream, steps

    def write(self, content: bytes) -> int:
        """Two halves, with a step between them."""
        half = len(content) // 2
        self._stream.write(content[:half])
        self._stream.flush()
        self._steps.step()
        self._stream.write(content[half:])
        return len(content)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __enter__(self) -> Halving:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()


def run(folder: Path, task: str, kill_at: int, counted: Any) -> None:
    """Do ``task`` in this process, which dies on the way unless ``kill_at`` is beyond its last operation."""
    metastore = open_at(folder)
    metastore.tables.initialize()
    steps = Steps(folder, kill_at)
    steps.install()
    TASKS[task](metastore)
    counted.value = steps.count
    # Nothing of the interpreter's own end belongs to the task.
    os._exit(0)


@pytest.fixture
def restore(tmp_path: Path) -> Callable[[], None]:
    """Put the metastore back to BEFORE, as its fourth version; paths stay the same, since metadata holds them."""
    folder, saved = tmp_path / "work", tmp_path / "saved"
    metastore = open_at(folder)
    for n in range(3):
        metastore.tables.modify().overwrite([unit(name, str(n)) for name in ("a", "b")]).execute()
    metastore.tables.modify().overwrite([unit(name, owner) for name, owner in BEFORE.items()]).execute()
    shutil.copytree(folder, saved)

    def put_back() -> None:
        shutil.rmtree(folder)
        shutil.copytree(saved, folder)

    return put_back


def rows(folder: Path) -> dict[str | None, str | None]:
    """Owners by table, read by a metastore that has seen nothing yet."""
    found = open_at(folder).tables.read().metadata_types(MetadataType.ALL).execute()
    return {u.table_name: u.owner for u in found}


def reachable(table: Table) -> set[Path]:
    """Data files, manifests and lists that kept versions reach, found by PyIceberg."""
    found: set[str] = set()
    for snapshot in table.metadata.snapshots:
        found.add(snapshot.manifest_list)
        for manifest in snapshot.manifests(table.io):
            found.add(manifest.manifest_path)
            found.update(e.data_file.file_path for e in manifest.fetch_manifest_entry(table.io))
    return {Path(path) for path in found}


def files(component: Path) -> set[Path]:
    """Every file of the component."""
    return {path for path in component.rglob("*") if path.is_file()}


def load(component: Path) -> Table:
    """The component's table, by a catalog that has seen nothing yet."""
    return FileSystemCatalog("look", str(component.parent)).load_table("tables")


@pytest.mark.parametrize("task", sorted(TASKS))
@pytest.mark.exhaustive
def test_a_kill_at_any_operation(
    tmp_path: Path, restore: Callable[[], None], forks: ForkServerContext, task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Readable at the version before or after, no reachable file missing; the next commit and expiration work.

    What the dead process left is nothing that a version reaches: after an expiration that was killed, the next one
    leaves not a file too many; after a commit that was killed, just the files that only it knew.
    """
    folder, component = tmp_path / "work", tmp_path / "work/metastore/tables"
    counted, outcomes = forks.Value("i", 0), []
    kill_at = 0
    while counted.value == 0:
        kill_at += 1
        restore()
        before = files(component)
        child = forks.Process(target=run, args=(folder, task, kill_at, counted))
        child.start()
        child.join(60)
        assert child.exitcode == (0 if counted.value else -signal.SIGKILL)
        found = rows(folder)
        assert found in ((BEFORE, AFTER) if task == "commit" else (BEFORE,))
        outcomes.append(found == AFTER)
        assert reachable(load(component)) <= files(component)
        own = files(component) - before - reachable(load(component))
        metastore = open_at(folder)
        metastore.tables.modify().overwrite([unit("next", "next")]).execute()
        metastore.tables.expiration.expire()
        assert rows(folder) == {**found, "next": "next"}
        table = load(component)
        expected = reachable(table) | {Path(table.metadata_location), component / "metadata/version-hint.text"}
        left = files(component) - expected
        assert expected <= files(component)
        assert left <= own
        if task == "expire":
            assert {path.suffix for path in left} <= {".tmp"}
    assert counted.value == kill_at - 1
    if task == "commit":
        # Up to one operation it has not happened, from there on it has.
        assert outcomes == sorted(outcomes)
        assert (outcomes[0], outcomes[-1]) == (False, True)
    with capsys.disabled():
        sys.stdout.write(f"\n{task}: killed before each of {kill_at - 1} operations\n")
