"""Threads that commit at once share a snapshot; each gets its own result, as if it had been alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.manifest import DataFile

from metastore.components.metastore import Metastore
from metastore.components.storage.clustering import Change
from metastore.components.storage.group_commit import GroupCommitter, merge
from metastore.errors import ConflictError, StorageError
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

Unit = Callable[..., TableMetadataUnit]


def names(metastore: Metastore) -> dict[str, str]:
    """Owner of each table, by name."""
    units = metastore.tables.read().metadata_types(MetadataType.TABLE).execute()
    return {str(unit.table_name): str(unit.owner) for unit in units}


@contextmanager
def held_lead(metastore: Metastore) -> Iterator[GroupCommitter]:
    """Nobody leads inside, so that what is submitted queues up."""
    committer = metastore.tables.modify()._committer
    with committer._lead:
        yield committer


def submitted(
    threads: ThreadPoolExecutor, committer: GroupCommitter, jobs: list[Callable[[], int]]
) -> list[Future[int]]:
    """``jobs`` in threads of their own, queued in their order."""
    futures = []
    for number, job in enumerate(jobs, start=len(committer._queue) + 1):
        futures.append(threads.submit(job))
        queued = threading.Event()
        while len(committer._queue) < number and not futures[-1].done():
            queued.wait(0.001)
    return futures


def data_files(folder: str) -> set[Path]:
    """Data files below the component's location."""
    return set(Path(folder).rglob("*.parquet"))


def test_those_who_wait_share_the_next_snapshot(metastore: Metastore, unit: Unit) -> None:
    """Eight overwrites that queue up behind a commit become one version, which all of them return."""
    first = metastore.tables.modify().overwrite([unit("t")]).execute()
    jobs: list[Callable[[], int]] = [metastore.tables.modify().overwrite([unit(f"t{i}")]).execute for i in range(8)]
    with ThreadPoolExecutor(8) as threads:
        with held_lead(metastore) as committer:
            futures = submitted(threads, committer, jobs)
        versions = {future.result() for future in futures}
    assert versions == {metastore.tables.metadata.version}
    assert [version.version for version in metastore.tables.metadata.history()] == [*versions, first]
    assert names(metastore).keys() == {"t", *(f"t{i}" for i in range(8))}


def test_the_later_of_two_in_a_group_wins_and_the_other_leaves_no_file(metastore: Metastore, unit: Unit) -> None:
    """As if they had been committed one after another; a file that no snapshot ever held is removed."""
    metastore.tables.modify().overwrite([unit("t", owner="nobody")]).execute()
    location = str(metastore.tables.metadata.location)
    before = data_files(location)
    jobs: list[Callable[[], int]] = [
        metastore.tables.modify().overwrite([unit("t", owner=owner)]).execute for owner in ("first", "second")
    ]
    with ThreadPoolExecutor(2) as threads:
        with held_lead(metastore) as committer:
            futures = submitted(threads, committer, jobs)
        assert futures[0].result() == futures[1].result()
    assert names(metastore) == {"t": "second"}
    assert len(data_files(location) - before) == 1


def test_a_refused_request_is_its_own_error_only(metastore: Metastore, unit: Unit) -> None:
    """A condition that fails leaves no file; the one that joined the same group lands."""
    metastore.tables.modify().overwrite([unit("t")]).execute()
    location = str(metastore.tables.metadata.location)
    before = data_files(location)
    jobs: list[Callable[[], int]] = [
        lambda: metastore.tables.modify().overwrite([unit("refused")]).execute(if_version=1),
        metastore.tables.modify().overwrite([unit("joined")]).execute,
    ]
    with ThreadPoolExecutor(2) as threads:
        with held_lead(metastore) as committer:
            refused, joined = submitted(threads, committer, jobs)
        with pytest.raises(ConflictError):
            refused.result()
        assert joined.result() == metastore.tables.metadata.version
    assert names(metastore).keys() == {"t", "joined"}
    assert len(data_files(location) - before) == 1


def test_a_condition_never_joins_what_would_break_it(metastore: Metastore, unit: Unit) -> None:
    """Behind another change, compare-and-set sees that change's version, and is refused."""
    version = metastore.tables.modify().overwrite([unit("t")]).execute()
    jobs: list[Callable[[], int]] = [
        metastore.tables.modify().overwrite([unit("other")]).execute,
        lambda: metastore.tables.modify().overwrite([unit("late")]).execute(if_version=version),
    ]
    with ThreadPoolExecutor(2) as threads:
        with held_lead(metastore) as committer:
            other, late = submitted(threads, committer, jobs)
        other.result()
        with pytest.raises(ConflictError):
            late.result()
    assert names(metastore).keys() == {"t", "other"}


def test_a_delete_between_two_overwrites_keeps_its_place(metastore: Metastore, unit: Unit) -> None:
    """What was put before it goes, what is put after it stays, though all three queued up together."""
    metastore.tables.modify().overwrite([unit("t")]).execute()
    jobs: list[Callable[[], int]] = [
        metastore.tables.modify().overwrite([unit("before")]).execute,
        metastore.tables.modify().delete("storagePlugin = 'dfs'").execute,
        metastore.tables.modify().overwrite([unit("after")]).execute,
    ]
    with ThreadPoolExecutor(3) as threads:
        with held_lead(metastore) as committer:
            futures = submitted(threads, committer, jobs)
        for future in futures:
            future.result()
    assert names(metastore).keys() == {"after"}


def test_a_failed_commit_fails_all_who_shared_it(
    metastore: Metastore, unit: Unit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each caller gets the error, nothing is left behind, and the next commit works."""
    metastore.tables.modify().overwrite([unit("t")]).execute()
    location = str(metastore.tables.metadata.location)
    before = data_files(location)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    jobs: list[Callable[[], int]] = [metastore.tables.modify().overwrite([unit(f"t{i}")]).execute for i in range(3)]
    with ThreadPoolExecutor(3) as threads, monkeypatch.context() as patched:
        with held_lead(metastore) as committer:
            futures = submitted(threads, committer, jobs)
            patched.setattr("metastore.components.storage.commit.flush", full)
        for future in futures:
            with pytest.raises(StorageError, match="No space left"):
                future.result()
    assert data_files(location) == before
    metastore.tables.modify().overwrite([unit("u")]).execute()
    assert names(metastore).keys() == {"t", "u"}


def test_many_threads_lose_nothing(metastore: Metastore, unit: Unit) -> None:
    """Sixteen threads, ten updates each: every last one is there, in fewer versions than updates."""

    def work(thread: int) -> None:
        for number in range(10):
            metastore.tables.modify().overwrite([unit(f"t{thread}", owner=str(number))]).execute()

    with ThreadPoolExecutor(16) as threads:
        list(threads.map(work, range(16)))
    assert names(metastore) == {f"t{thread}": "9" for thread in range(16)}
    history = metastore.tables.metadata.history()
    assert len(history) < 160
    assert [version.parent for version in history] == [*(version.version for version in history[1:]), None]


KEYS = st.lists(st.sampled_from("abc"), unique=True)


@given(st.lists(st.tuples(KEYS, KEYS), max_size=6))
def test_merging_is_one_after_another(changes: list[tuple[list[str], list[str]]]) -> None:
    """The merged change puts and removes what the changes do in their order; a model with a dict agrees."""
    model: dict[str, str] = {}
    made = []
    for number, (replaced, kept) in enumerate(changes):
        added = {key: f"{key}{number}" for key in replaced if key in kept}
        model = {key: value for key, value in model.items() if key not in replaced} | added
        files: dict[tuple[str, ...], DataFile] = {
            (key,): DataFile.from_args(file_path=name) for key, name in added.items()
        }
        made.append(Change(frozenset((key,) for key in replaced), files))
    merged = merge(made)
    assert {key: data_file.file_path for (key,), data_file in merged.added.items()} == model
    assert merged.replaced == {(key,) for replaced, _ in changes for key in replaced}


def test_who_is_interrupted_while_waiting_has_changed_nothing(
    metastore: Metastore, unit: Unit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its change is queued no more, and the next commit of this process does not carry it out; its file is gone."""
    metastore.tables.modify().overwrite([unit("t", owner="before")]).execute()
    location = str(metastore.tables.metadata.location)
    before = data_files(location)

    class Interrupted:
        def __enter__(self) -> None:
            raise KeyboardInterrupt

        def __exit__(self, *_: object) -> None: ...

        def locked(self) -> bool:
            return False

    modify = metastore.tables.modify().overwrite([unit("t", owner="interrupted")])
    with monkeypatch.context() as patch:
        patch.setattr(modify._committer, "_lead", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            modify.execute()
    assert data_files(location) == before
    metastore.tables.modify().overwrite([unit("other")]).execute()
    assert names(metastore) == {"t": "before", "other": str(unit("other").owner)}
