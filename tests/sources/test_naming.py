"""Where a named table lies, what an explicit path is called, and that no name leads out of its workspace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.config.plugins import StoragePluginSettings, WorkspaceSettings
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.lake.formats.names import ANY_SUFFIX
from metastore.model.identity import TableInfo
from metastore.sources.naming import resolve
from metastore.sources.source_table import SourceTable

STORAGE = {
    "dfs": StoragePluginSettings(
        "dfs",
        "file:///",
        workspaces={
            "tmp": WorkspaceSettings("tmp", "/tmp"),
            "deep": WorkspaceSettings("deep", "/tmp/deep/"),
            "csv": WorkspaceSettings("csv", "/csv", default_format="csv"),
            "odd": WorkspaceSettings("odd", "/odd", default_format="xml"),
        },
    ),
    "lake": StoragePluginSettings(
        "lake", "s3://bucket", workspaces={"raw": WorkspaceSettings("raw", "/raw")}, properties={"region": "eu-west-1"}
    ),
    "off": StoragePluginSettings("off", "file:///", enabled=False, workspaces={"w": WorkspaceSettings("w", "/off")}),
}


@pytest.mark.parametrize(
    ("name", "location"),
    [
        ("dfs.tmp.nation", "/tmp/nation"),
        ("dfs.tmp.`/a/b`", "/tmp/a/b"),
        ("dfs.tmp.a//b/", "/tmp/a/b"),
        ("dfs.tmp.flights.v2", "/tmp/flights.v2"),
        ("dfs.deep.x", "/tmp/deep/x"),
        ("lake.raw.x", "s3://bucket/raw/x"),
    ],
)
def test_a_name_lies_below_its_workspace(name: str, location: str) -> None:
    """The location is the workspace's plus the name: a plain path on the local disk, a URI elsewhere."""
    assert resolve(STORAGE, name).location == location
    assert resolve(STORAGE, TableInfo.parse(name)).location == location


def test_a_workspace_may_name_the_format() -> None:
    """In any case; without, the files' suffixes will tell."""
    assert resolve(STORAGE, "dfs.csv.x").by_suffix == {ANY_SUFFIX: ("CSV", None)}
    assert resolve(STORAGE, "dfs.tmp.x").by_suffix == {}


@pytest.mark.parametrize(
    ("path", "table"),
    [
        ("/tmp/nation", TableInfo("dfs", "tmp", "nation")),
        ("file:///tmp/a/b/", TableInfo("dfs", "tmp", "a/b")),
        ("/tmp/deep/x", TableInfo("dfs", "deep", "x")),
        ("/tmp/deep", TableInfo("dfs", "tmp", "deep")),
        ("/tmp/deeper", TableInfo("dfs", "tmp", "deeper")),
        ("/data/x", TableInfo("dfs", "default", "data/x")),
        ("/off/x", TableInfo("dfs", "default", "off/x")),
        ("s3://bucket/raw/x", TableInfo("lake", "raw", "x")),
        ("s3://other/x", TableInfo("s3", "default", "other/x")),
    ],
)
def test_a_path_is_named_by_its_workspace(path: str, table: TableInfo) -> None:
    """The workspace with the longest matching location names a path, else the default one."""
    assert resolve(STORAGE, path).table == table


def test_paths_may_be_relative_and_of_any_kind(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A text that begins with a dot, and every path object, is a path from the working directory."""
    monkeypatch.chdir(tmp_path)
    for path in ("./x", Path("x"), tmp_path / "x"):
        assert resolve({}, path).location == os.path.join(os.getcwd(), "x")


def test_the_plugins_options_come_along() -> None:
    """What pyarrow needs to open the store is the plugin's, and is not shown."""
    source = resolve(STORAGE, "lake.raw.x")
    assert source.options == {"region": "eu-west-1"}
    assert "eu-west-1" not in repr(source)


@pytest.mark.parametrize("name", ["..", "a/../../etc", "./a", "a/..", "a\x00b", "a\nb"])
def test_names_that_lead_elsewhere_are_refused(name: str) -> None:
    """Dots, parents and control characters in a name are an error, wherever they would lead."""
    with pytest.raises(InvalidRequestError, match="table name"):
        resolve(STORAGE, TableInfo("dfs", "tmp", name))


@given(st.text(st.characters(exclude_characters="`")).filter(lambda name: name.strip("/")))
def test_no_name_escapes(name: str) -> None:
    """Whatever the name, the location stays below the workspace or the name is refused."""
    try:
        location = resolve(STORAGE, TableInfo("dfs", "tmp", name)).location
    except InvalidRequestError:
        return
    assert os.path.normpath(location) == location
    assert location.startswith("/tmp/")


def test_path_and_name_agree() -> None:
    """A table is the same by its name and by its path."""
    for name in ("dfs.tmp.a/b", "dfs.deep.x", "lake.raw.x"):
        named = resolve(STORAGE, name)
        assert resolve(STORAGE, named.location) == named
        assert isinstance(named, SourceTable)


@pytest.mark.parametrize(
    ("name", "error", "told"),
    [
        ("nope.tmp.x", NotFoundError, "dfs, lake, off"),
        ("dfs.nope.x", NotFoundError, "csv, deep, odd, tmp"),
        ("off.w.x", InvalidRequestError, "disabled"),
        ("dfs.odd.x", InvalidRequestError, "no format 'xml'"),
        ("nation", InvalidRequestError, "plugin.workspace.table"),
    ],
)
def test_what_cannot_be_found_says_why(name: str, error: type[Exception], told: str) -> None:
    """Unknown plugins and workspaces list the known ones; disabled plugins and other formats are named."""
    with pytest.raises(error, match=told):
        resolve(STORAGE, name)
