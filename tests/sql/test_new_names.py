"""A name becomes a place by one rule, whatever makes the table, schema or view, and whatever the catalog."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.lake.stores.locations import require_folder_names
from metastore.session import Session, connect

NAMES = ("..", ".", "../../../x", "a/b", "/etc", "x/..", "%2e%2e", "a%2F..%2Fb", "%252e%252e", "a\\b", "a\nb", "")

DOORS = {
    "create": 'CREATE TABLE {catalog}.s."{name}" (id BIGINT)',
    "create if not exists": 'CREATE TABLE IF NOT EXISTS {catalog}.s."{name}" (id BIGINT)',
    "create as": 'CREATE TABLE {catalog}.s."{name}" AS SELECT * FROM {catalog}.s.t',
    "create at a location": "CREATE TABLE {catalog}.s.\"{name}\" (id BIGINT) LOCATION 'file://{folder}/lake/s/given'",
    "rename": 'ALTER TABLE {catalog}.s.t RENAME TO s."{name}"',
    "schema": 'CREATE SCHEMA {catalog}."{name}"',
    "nested schema": 'CREATE SCHEMA {catalog}.s."{name}"',
    "register": "CALL {catalog}.system.register_table(schema => 's', table_name => '{name}', "
    "metadata_location => '{pointer}')",
    "snapshot": "CALL hive.system.snapshot_table(source_schema => 's', source_table => 't', schema_name => 's', "
    "table_name => '{name}')",
    "migrate": "CALL hive.system.migrate(schema_name => 's', table_name => '{name}')",
    "materialized view": "CREATE MATERIALIZED VIEW dfs.w.`{name}` AS SELECT id FROM dfs.w.plain",
}


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    """A session with a table in each kind of catalog that runs here, and a workspace with a table."""
    warehouse = f"file://{tmp_path}/srv/lake"
    catalogs = {
        "lake": {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": warehouse},
        "folder": {"type": "filesystem", "warehouse": f"{tmp_path}/folder"},
        "hive": {"type": "hive", "uri": "thrift://127.0.0.1:1", "warehouse": warehouse},
    }
    given = {
        "iceberg.location": {"base_path": str(tmp_path), "relative_path": "metastore"},
        "catalogs": catalogs,
        "storage.dfs": {
            "connection": "file:///",
            "workspaces.w": {"location": f"{tmp_path}/srv/w", "writable": True},
        },
    }
    plain = tmp_path / "srv/w/plain"
    plain.mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), plain / "a.parquet")
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as opened:
        for catalog in ("lake", "folder"):
            opened.sql(f"CREATE SCHEMA {catalog}.s")
            opened.sql(f"CREATE TABLE {catalog}.s.t (id BIGINT)")
        opened.sql("ANALYZE TABLE dfs.w.plain REFRESH METADATA")
        yield opened


@pytest.mark.parametrize("catalog", ["lake", "folder"])
@pytest.mark.parametrize("door", DOORS)
def test_no_door_takes_a_name_that_leads_elsewhere(session: Session, tmp_path: Path, door: str, catalog: str) -> None:
    """Each name is refused at each door, and no folder or entry is made. Slashes of a view's name are folders."""
    pointer = session.catalogs.target("lake", "s", "t").newest_pointer()
    before = sorted(os.walk(tmp_path))
    for name in NAMES if door != "materialized view" else set(NAMES) - {"a/b", "/etc"}:
        statement = DOORS[door].format(catalog=catalog, name=name, folder=tmp_path / "srv", pointer=pointer)
        with pytest.raises(InvalidRequestError):
            session.sql(statement)
    assert sorted(os.walk(tmp_path)) == before
    assert [session.catalogs.tables(catalog, "s"), session.catalogs.schemas(catalog)] == [["t"], ["s"]]


@pytest.mark.parametrize("name", ["a b", "ü", "a%20b", "a..b", "...", "t=1", ".hidden", "a'b"])
def test_plain_names_stay_in_their_folder(session: Session, tmp_path: Path, name: str) -> None:
    """Odd names that lead nowhere else are taken, and their tables lie in the folder of the schema."""
    session.sql(f'CREATE TABLE lake.s."{name}" (id BIGINT)')
    location = session.catalogs.target("lake", "s", name).load().metadata.location
    assert os.path.dirname(location) == f"file://{tmp_path}/srv/lake/s"


@given(st.text(st.sampled_from("./%2eEfF5c\\a\x00"), max_size=8))
def test_what_is_taken_names_one_folder(name: str) -> None:
    """However often a program decodes a name that is taken, it stays one step below the folder above."""
    try:
        require_folder_names([name])
    except InvalidRequestError:
        return
    for _ in range(4):
        assert os.path.dirname(os.path.normpath(f"/above/{name}")) == "/above"
        name = unquote(name)
