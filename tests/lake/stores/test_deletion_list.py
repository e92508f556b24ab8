"""The list of deletions that are put off: what it lets through, whatever happens to it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metastore.engines.engine import LocalEngine
from metastore.errors import FormatError, NotFoundError
from metastore.lake.stores.containment import Roots
from metastore.lake.stores.deletion import Deletion
from metastore.lake.stores.deletion_list import DeletionList, PutOff
from metastore.lake.stores.local import LocalFileIO
from metastore.lake.stores.pointer_store import LOCAL_POINTERS

DELAY_MS = 10
CLOCK = st.integers(0, 6)
FILE = st.sampled_from(["a", "b", "c"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("later"), CLOCK),
        st.tuples(st.sampled_from(["pass", "renew", "keep", "release", "forget"]), FILE),
    ),
    max_size=25,
)


def list_in(folder: Path, clock: SimpleNamespace, delay_ms: int = DELAY_MS) -> DeletionList:
    """The list that a new process would open."""
    return DeletionList(lambda: LOCAL_POINTERS, str(folder), timedelta(milliseconds=delay_ms), lambda: clock.ms)


def put_off(deletions: DeletionList, lake: Path, *names: str, renewed: Sequence[str] = ()) -> list[str]:
    """The names that a pass may delete now."""
    run = PutOff(deletions, "lake.db.t", "expire_snapshots", renewed=[str(lake / name) for name in renewed])
    return [Path(each).name for each in run.put_off([str(lake / name) for name in names], Roots((str(lake),)), {})]


@given(STEPS)
@settings(max_examples=60, deadline=None)
def test_a_file_goes_only_after_the_delay_and_only_if_nobody_took_it_back(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str | int]]
) -> None:
    """A model of two dictionaries says of each pass what may go: time on the list since the last renewal, and kept."""
    folder = tmp_path_factory.mktemp("list")
    clock = SimpleNamespace(ms=1000)
    since: dict[str, int] = {}
    kept: set[str] = set()
    for what, argument in steps:
        deletions, name = list_in(folder, clock), str(argument)
        match what:
            case "later":
                clock.ms += argument
            case "pass" | "renew":
                if name not in kept and (what == "renew" or name not in since):
                    since[name] = clock.ms
                goes = name not in kept and clock.ms - since[name] >= DELAY_MS
                renewed = [name] if what == "renew" else []
                assert put_off(deletions, folder, name, renewed=renewed) == ([name] if goes else [])
            case "keep" | "release" if name not in since:
                with pytest.raises(NotFoundError, match="nothing was changed"):
                    getattr(deletions, what)(str(folder / name))
            case "keep":
                deletions.keep(str(folder / name))
                kept.add(name)
            case "release":
                deletions.release(str(folder / name))
                if name in kept:
                    since[name] = clock.ms
                kept.discard(name)
            case "forget":
                deletions.forget([str(folder / name)])
                if name not in kept:
                    since.pop(name, None)
    left = {Path(each.path).name: each for each in list_in(folder, clock).entries()}
    assert left.keys() == since.keys()
    assert {name for name, each in left.items() if each.due_ms is None} == kept


def test_a_change_that_dies_halfway_errs_on_the_side_of_keeping(tmp_path: Path) -> None:
    """The old file of the list stands beside the new one: taken back stays taken back, and the later time counts."""
    clock = SimpleNamespace(ms=0)
    deletions = list_in(tmp_path / "list", clock)
    put_off(deletions, tmp_path, "a", "b")
    shutil.copytree(tmp_path / "list", tmp_path / "old")
    deletions.keep(str(tmp_path / "a"))
    clock.ms = 5
    put_off(deletions, tmp_path, "b", renewed=["b"])
    shutil.copytree(tmp_path / "old", tmp_path / "list", dirs_exist_ok=True)
    clock.ms = 14
    assert put_off(deletions, tmp_path, "a", "b") == []
    clock.ms = 15
    assert put_off(deletions, tmp_path, "a", "b") == ["b"]


def test_an_entry_protects_its_file_under_every_spelling(tmp_path: Path) -> None:
    """As a URI, as a path, by way of a link to a folder; also when the delay is off again."""
    clock = SimpleNamespace(ms=0)
    (tmp_path / "lake").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "lake")
    put_off(list_in(tmp_path / "list", clock), tmp_path / "lake", "a")
    off = list_in(tmp_path / "list", clock, 0)
    off.keep(f"file://{tmp_path}/link/a")
    clock.ms = 99
    assert put_off(off, tmp_path / "link", "a", "b") == ["b"]
    off.release("lake.db.t")
    assert put_off(off, tmp_path / "link", "a", "b") == ["a", "b"]


def test_a_list_that_cannot_be_read_or_written_deletes_nothing(tmp_path: Path) -> None:
    """Half a list file, or a file where its folder belongs: every file stays, with the reason."""
    clock, lake = SimpleNamespace(ms=0), tmp_path / "lake"
    lake.mkdir()
    (lake / "a").write_bytes(b"PAR1")
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn/half.json").write_text('{"table": "lake.d')
    (tmp_path / "file").write_text("")
    for folder in ("torn", "file/below"):
        run = PutOff(list_in(tmp_path / folder, clock), "lake.db.t", "expire_snapshots")
        with LocalEngine(1) as engine:
            failed = Deletion(LocalFileIO(), lambda _: engine, Roots((str(lake),)), run).run([str(lake / "a")])
        assert failed.keys() == {str(lake / "a")}
        assert str(tmp_path / folder) in failed[str(lake / "a")]
    assert (lake / "a").exists()
    with pytest.raises(FormatError, match="move it away"):
        list_in(tmp_path / "torn", clock).entries()
