"""What lies in the metastore's own folders is no data, and no workspace may lie there."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import metastore
from metastore.components.storage.own_folders import folders_within, require_apart
from metastore.config import Settings
from metastore.errors import ConfigError, InvalidRequestError

TABLES = "drill.metastore.iceberg.components.tables.location"
WORKSPACE = "drill.metastore.storage.p.workspaces.w.location"


def settings(base: str, connection: str, workspace: str, **components: str) -> Settings:
    """One plugin with one workspace beside the shipped ones."""
    return Settings.from_mapping(
        {
            "drill.metastore.iceberg": {
                "location": {"base_path": base, "relative_path": "m"},
                "components": {name: {"location": location} for name, location in components.items()},
            },
            "drill.metastore.storage.p": {"connection": connection, "workspaces.w.location": workspace},
        },
        environ={},
    )


@pytest.mark.parametrize(
    ("base", "connection", "workspace"),
    [
        ("/srv", "file:///", "/srv/m/tables"),
        ("/srv", "file:///", "/srv/m/tables/dfs/x/"),
        ("/srv", "file:///srv", "/m/views/../tables//dfs"),
        ("/srv", "file:///", "file:///srv/m/views"),
        ("/srv", "file:///", "/srv/m/daemon"),
        ("s3a://bucket/d", "s3://bucket", "/d/m/tables"),
        ("s3://bucket", "s3n://bucket/m", "/runs/x"),
        ("abfss://box@a.dfs.core.windows.net", "abfs://box@a.dfs.core.windows.net", "m/tables"),
        ("hdfs://nn:8020/d", "hdfs://nn:8020/", "d/m/materialized_views"),
    ],
)
def test_a_workspace_in_a_component_is_refused(base: str, connection: str, workspace: str) -> None:
    """Whatever the spelling; both keys are named."""
    with pytest.raises(ConfigError, match=WORKSPACE) as caught:
        require_apart(settings(base, connection, workspace))
    assert "drill.metastore.iceberg.components." in str(caught.value) or "daemon.lease" in str(caught.value)


@pytest.mark.parametrize(
    ("base", "connection", "workspace"),
    [
        ("/srv", "file:///", "/"),
        ("/srv", "file:///", "/srv/m"),
        ("/srv", "file:///", "/srv/m/tables2"),
        ("/tmp", "file:///", "/srv"),
        ("s3a://bucket/d", "s3://other", "/d/m/tables"),
        ("s3a://bucket/d", "s3://bucket", "/"),
        ("/srv", "s3://srv", "m/tables"),
    ],
)
def test_a_workspace_around_or_beside_components_is_taken(base: str, connection: str, workspace: str) -> None:
    """The shipped ones contain everything."""
    require_apart(settings(base, connection, workspace))


def test_links_count(tmp_path: Path) -> None:
    """Of components to one another, and of workspaces into components."""
    (tmp_path / "m" / "tables" / "x").mkdir(parents=True)
    (tmp_path / "m" / "views").symlink_to(tmp_path / "m" / "tables" / "x")
    with pytest.raises(ConfigError, match=r"components\.tables\.location .* and .*components\.views\.location"):
        require_apart(settings(str(tmp_path), "file:///", "/"))
    (tmp_path / "m" / "views").unlink()
    (tmp_path / "door").symlink_to(tmp_path / "m" / "tables")
    with pytest.raises(ConfigError, match=WORKSPACE):
        require_apart(settings(str(tmp_path), "file:///", f"{tmp_path}/door"))


def test_folders_are_told_relative_to_a_place() -> None:
    """Where the place lies in one, or is one, that is all of it."""
    iceberg = settings("/srv", "file:///", "/", runs="a/b").iceberg
    components = {"tables", "views", "materialized_views", "a/b"}
    assert set(folders_within(iceberg, "/srv/m")) == {*components, "daemon", "damaged", "deletions"}
    assert set(folders_within(iceberg, "/srv/m/a")) == {"b"}
    assert folders_within(iceberg, "/srv/m/a/b/c") == ("",)
    assert folders_within(iceberg, "/srv/other") == ()
    remote = settings("s3a://bucket", "s3://bucket", "/").iceberg
    assert "m/tables" in folders_within(remote, "s3://bucket")
    assert "tables" in folders_within(remote, "s3n://bucket/m/")


@pytest.mark.parametrize("link", [False, True])
def test_components_in_a_workspace_are_never_data(tmp_path: Path, link: bool) -> None:
    """ANALYZE, scans and SQL of a folder around them see the table's own files; a component is no table."""
    if link:
        (tmp_path / "real").mkdir()
        (tmp_path / "lake").symlink_to(tmp_path / "real")
    lake = tmp_path / "lake"
    (lake / "t").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1, 2]}), lake / "t" / "a.parquet")
    chosen = settings(f"{tmp_path / ('real' if link else 'lake')}/t", "file:///", str(lake))
    with metastore.connect(chosen) as session:
        session.analyze("p.w.t")
        session.analyze("p.w.t")
        assert [file.name for file in session.source("p.w.t").files()] == ["a.parquet"]
        assert session.sql("SELECT count(*) AS n, max(id) AS id FROM p.w.t").to_pylist() == [{"n": 2, "id": 2}]
        assert session.tables.scan("p.w.t").to_arrow().num_rows == 2
        with pytest.raises(InvalidRequestError, match="the metastore's own folder"):
            session.analyze("p.w.`t/m/tables`")
        with pytest.raises(InvalidRequestError, match="the metastore's own folder"):
            session.analyze(f"{lake}/t/m/tables/metadata")
