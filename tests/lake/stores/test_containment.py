"""A place holds the files below it, wherever links lead and however a location is spelled; and no others."""

from __future__ import annotations

from pathlib import Path

import pytest

from metastore.lake.stores.containment import ContainingFolder, Roots


@pytest.fixture
def place(tmp_path: Path) -> ContainingFolder:
    """The folder ``here``, with a folder of others beside it."""
    (tmp_path / "here/inside").mkdir(parents=True)
    (tmp_path / "here-too").mkdir()
    (tmp_path / "outside").mkdir()
    return ContainingFolder(f"{tmp_path}/here/")


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("here/a", True),
        ("here/inside/a", True),
        ("here/not/there/a", True),
        ("here/inside/../a", True),
        ("outside/../here/a", True),
        ("here/../outside/a", False),
        ("here/inside/../../outside/a", False),
        ("here-too/a", False),
        ("outside/a", False),
        ("here", False),
        ("here/", False),
        ("here/..", False),
        ("here/inside/..", False),
    ],
)
def test_on_the_disk(place: ContainingFolder, tmp_path: Path, name: str, held: bool) -> None:
    """By plain path and by URI."""
    assert place.holds(f"{tmp_path}/{name}") == held
    assert place.holds(f"file://{tmp_path}/{name}") == held
    assert ContainingFolder(f"file://{tmp_path}/here").holds(f"{tmp_path}/{name}") == held


def test_links_out_and_in(place: ContainingFolder, tmp_path: Path) -> None:
    """A folder that is a link is where it leads; a file that is one is deleted as the link that it is."""
    (tmp_path / "here/out").symlink_to(tmp_path / "outside")
    (tmp_path / "outside/in").symlink_to(tmp_path / "here")
    (tmp_path / "here/link").symlink_to(tmp_path / "outside/file")
    assert not place.holds(f"{tmp_path}/here/out/a")
    assert place.holds(f"{tmp_path}/outside/in/a")
    assert place.holds(f"{tmp_path}/here/link")
    (tmp_path / "elsewhere").symlink_to(tmp_path / "here")
    assert ContainingFolder(f"{tmp_path}/elsewhere").holds(f"{tmp_path}/here/a")
    assert ContainingFolder(f"{tmp_path}/elsewhere").holds(f"{tmp_path}/elsewhere/a")


@pytest.mark.parametrize("location", ["a", "../a", "", "file://host/a", "s3://box/here/a", "here/a"])
def test_what_is_nowhere_is_not_here(place: ContainingFolder, location: str) -> None:
    """Relative paths, other hosts, other stores."""
    assert not place.holds(location)


@pytest.mark.parametrize(
    ("location", "held"),
    [
        ("s3a://box/m/tables/a", True),
        ("s3://box/m/tables/x/../a", True),
        ("s3://box/m/tables-too/a", False),
        ("s3://box/m/tables", False),
        ("s3://other/m/tables/a", False),
        ("gs://box/m/tables/a", False),
        ("ftp://box/m/tables/a", False),
        ("/m/tables/a", False),
    ],
)
def test_on_an_object_store(location: str, held: bool) -> None:
    """Keys are taken as they stand: two dots are a name there."""
    assert ContainingFolder("s3a://box/m/tables").holds(location) == held


@pytest.mark.parametrize(
    ("location", "held"),
    [
        ("hdfs://nn:8020/m/tables/a", True),
        ("hdfs://nn:8020/m//tables/a", False),
        ("hdfs://nn:8020/m/tables/../secret/a", False),
        ("hdfs://nn:8020/m/tables-too/a", False),
        ("hdfs://other:8020/m/tables/a", False),
        ("webhdfs://nn:9870/m/tables/a", False),
        ("s3://nn:8020/m/tables/a", False),
    ],
)
def test_on_hdfs(location: str, held: bool) -> None:
    """Two dots are a step up there, and no location with them is held; another spelling of a namenode is another."""
    assert ContainingFolder("hdfs://nn:8020/m/tables").holds(location) == held


def test_a_whole_bucket() -> None:
    """Every key is below it."""
    assert ContainingFolder("s3://box").holds("s3://box/a")
    assert not ContainingFolder("s3://box").holds("s3://bo/a")


def test_stores_that_only_another_library_knows() -> None:
    """Scheme and authority are compared as they are written."""
    assert ContainingFolder("oss://box/m").holds("oss://box/m/a")
    assert not ContainingFolder("oss://box/m").holds("oss://box/more/a")
    assert not ContainingFolder("oss://box/m").holds("cos://box/m/a")
    assert not ContainingFolder("oss://box/m").holds("oss://bo/m/a")


@pytest.mark.parametrize("scheme", ["s3", "gs", "hdfs", "oss"])
def test_roots_hold_no_step_back(scheme: str) -> None:
    """Some clients follow the step, and others take it for a name: below a root is only what both find there."""
    roots = Roots((f"{scheme}://box/m", f"{scheme}://box/n"))
    assert roots.hold(f"{scheme}://box/m/a")
    assert roots.hold(f"{scheme}://box/n/a")
    assert roots.hold_folder(f"{scheme}://box/n/")
    assert not roots.hold(f"{scheme}://box/m/../o/a")
    assert not roots.hold(f"{scheme}://box/m/b/../a")
    assert not roots.hold(f"{scheme}://box/m/%2E%2e/o/a")
    assert not Roots(()).hold(f"{scheme}://box/m/a")
