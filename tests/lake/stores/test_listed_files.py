"""A file goes only below a root, by a path without links, and only if it is the one that was listed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import PyArrowFileIO

from metastore.lake.stores.containment import Roots
from metastore.lake.stores.deletion import OUTSIDE, DeletionChunk, delete_chunk
from metastore.lake.stores.listed_files import OpenedFolders, identities, is_same
from metastore.lake.stores.local import LocalFileIO
from metastore.lake.stores.trees import Folder, files_in


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    """A root with a file in two folders, and a folder of others beside it that has a file of the same name."""
    for folder in ("lake/t/data", "lake/u/data", "others/data"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.parquet").write_text(folder)
    return tmp_path / "lake"


def delete(lake: Path, *paths: Path, listed: dict[str, str] | None = None, io: FileIO | None = None) -> dict[str, str]:
    """What stays of ``paths``, with the reasons."""
    return delete_chunk(DeletionChunk(io or LocalFileIO(), list(map(str, paths)), Roots((str(lake),)), listed or {}))


@pytest.mark.parametrize("io", [LocalFileIO(), PyArrowFileIO()])
def test_below_a_root_alone(lake: Path, io: FileIO) -> None:
    """Whatever is asked for, by path or through a link, files outside of the roots stay and are named."""
    (lake / "out").symlink_to(lake.parent / "others")
    inside, outside = lake / "t/data/a.parquet", lake.parent / "others/data/a.parquet"
    through_link, dotted = lake / "out/data/a.parquet", lake / "t/../../others/data/a.parquet"
    kept = delete(lake, inside, outside, through_link, dotted, io=io)
    assert kept == dict.fromkeys(map(str, (outside, through_link, dotted)), OUTSIDE)
    assert outside.exists()
    assert not inside.exists()


@pytest.mark.parametrize("to", ["others", "lake/u"])
def test_a_folder_that_becomes_a_link(lake: Path, to: str) -> None:
    """Between listing and deletion, the folder leads elsewhere: out of the root, or to another table in it."""
    [file] = files_in(Folder(LocalFileIO(), str(lake / "t/data")))
    assert file.identity is not None
    (lake / "t").rename(lake / "aside")
    (lake / "t").symlink_to(lake.parent / to)
    kept = delete(lake, Path(file.location), listed={file.location: file.identity})
    assert list(kept) == [file.location]
    assert (lake.parent / to / "data/a.parquet").exists()


def test_a_name_that_another_file_takes(lake: Path) -> None:
    """A file that was written anew under the name is not the one that was listed."""
    path = lake / "t/data/a.parquet"
    listed = identities([str(path)])
    (lake / "new").write_text("new")
    (lake / "new").rename(path)
    assert "another file" in delete(lake, path, listed=listed)[str(path)]
    assert path.read_text() == "new"


@given(st.sampled_from(["", "t", "t/data"]), st.sampled_from(["others", "lake/u", "lake"]))
def test_no_step_below_the_root_follows_a_link(tmp_path_factory: pytest.TempPathFactory, step: str, to: str) -> None:
    """Whichever step below a root is a link when it is opened: the file that it leads to stays."""
    base = tmp_path_factory.mktemp("base")
    for folder in ("lake/t/data", "lake/u/data", "others/t/data", "others/data"):
        (base / folder).mkdir(parents=True)
        (base / folder / "a").write_text(folder)
    lake = base / "lake"
    listed = identities([str(lake / "t/data/a")])
    place = lake / step if step else lake / "t"
    place.rename(base / "aside")
    place.symlink_to(base / to)
    before = sorted(str(path) for path in base.rglob("*"))
    delete(lake, lake / "t/data/a", listed=listed)
    assert sorted(str(path) for path in base.rglob("*")) == before


def test_a_checksum_goes_with_its_file(lake: Path) -> None:
    """Readers of Hadoop's local file system would fail on one without the other; a missing file counts as deleted."""
    path = lake / "t/data/a.parquet"
    crc = path.with_name(".a.parquet.crc")
    crc.write_text("x")
    assert delete(lake, path, path) == {}
    assert not crc.exists()
    assert delete(lake, lake / "nowhere/a") == {}


def test_devices_count_on_one_machine_only(lake: Path) -> None:
    """Machines number the devices of a network disk differently: what another one listed is known by its inode."""
    path = lake / "t/data/a.parquet"
    status, listed = path.stat(), identities([f"file://{path}"])[f"file://{path}"]
    machine, device, inode = listed.rsplit(":", 2)
    assert is_same(listed, status)
    assert is_same(f"other-{machine}:{int(device) + 1}:{inode}", status)
    assert not is_same(f"{machine}:{int(device) + 1}:{inode}", status)
    assert not is_same(f"other-{machine}:{device}:{int(inode) + 1}", status)


def test_more_folders_than_are_open_at_once(lake: Path) -> None:
    """Descriptors are few: folders are closed in between, and none is left open."""
    paths = [lake / f"many/{number}/a" for number in range(150)]
    for path in paths:
        path.parent.mkdir(parents=True)
        path.touch()
    before = len(os.listdir("/proc/self/fd"))
    assert delete(lake, *paths) == {}
    assert len(os.listdir("/proc/self/fd")) == before
    assert not any(path.exists() for path in paths)


def test_a_tree_goes_without_what_its_links_lead_to(lake: Path) -> None:
    """Links in the tree go as links; a tree that is reached by a link stays."""
    (lake / "t/data/link").symlink_to(lake / "u")
    (lake / "by").symlink_to(lake / "u")
    with OpenedFolders([str(lake)]) as folders:
        folders.remove_tree(str(lake / "t"))
        with pytest.raises(Exception, match="leads to"):
            folders.remove_tree(str(lake / "by/data"))
        with pytest.raises(Exception, match="no folder"):
            folders.remove_tree(str(lake / "by"))
    assert not (lake / "t").exists()
    assert (lake / "u/data/a.parquet").exists()


def test_a_link_that_leads_to_no_file_stays(lake: Path) -> None:
    """While a folder is away, the link to it leads nowhere, and files are named through it; a link to a file goes."""
    (lake / "gone").symlink_to(lake / "away")
    (lake / "folder").symlink_to(lake / "u")
    (lake / "file").symlink_to(lake / "u/data/a.parquet")
    kept = delete(lake, *(lake / name for name in ("gone", "folder", "file")))
    assert list(kept) == [str(lake / "gone"), str(lake / "folder")]
    assert (lake / "gone").is_symlink()
    assert not (lake / "file").is_symlink()
    assert (lake / "u/data/a.parquet").exists()
