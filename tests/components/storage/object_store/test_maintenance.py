"""Procedures on files of a table on an object store: what they list and delete there."""

from __future__ import annotations

import io
import time
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import ObjectStore
from pyiceberg.catalog import load_catalog

from metastore.components.catalogs import Catalogs
from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.engines.engine import LocalEngine
from metastore.procedures.expire.expire import expire_snapshots
from metastore.procedures.framework.model import BaseProcedure, CallContext
from metastore.procedures.framework.run import run
from metastore.procedures.orphans.remove_orphans import remove_orphan_files

IOS = ("metastore.lake.stores.objects.object_store_io.ObjectFileIO", "pyiceberg.io.pyarrow.PyArrowFileIO")
DAY = timedelta(days=1)


@pytest.mark.parametrize("kind", ["s3"], indirect=True)
@pytest.mark.parametrize("file_io", IOS)
def test_expire_and_orphans(
    bucket: ObjectStore, root: str, pyiceberg_properties: dict[str, str], tmp_path: Path, file_io: str
) -> None:
    """By either FileIO: what only old snapshots reach goes, then what nothing reaches, and the rows stay."""
    lake = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/lake.db",
        "warehouse": f"{root}/lake",
        **pyiceberg_properties,
    }
    catalog = load_catalog("lake", **{**lake, "py-io-impl": IOS[-1]})
    catalog.create_namespace("default")
    table = catalog.create_table("default.t", pa.schema([("id", pa.int64())]))
    table.append(pa.table({"id": [1]}))
    table.overwrite(pa.table({"id": [2]}))
    quoted = {
        f'"{key}"': value for key, value in {**lake, "py-io-impl": file_io}.items()
    }  # bare, one key would be a path into another
    settings = Settings.from_mapping(
        {"drill.metastore": {"iceberg.location.base_path": str(tmp_path), "catalogs": {"lake": quoted}}}, environ={}
    )
    now = int(time.time() * 1000)
    with Metastore.open(settings) as metastore, LocalEngine(1) as engine:
        catalogs = Catalogs(metastore)
        context = CallContext(catalogs, "lake", lambda _: engine, settings, lambda: now + 10 * 86_400_000)
        tomorrow = datetime.fromtimestamp(now / 1000, tz=timezone.utc) + DAY
        [row] = call(expire_snapshots, context, older_than=tomorrow)
        assert (row["deleted_data_files_count"], row["failed_files_count"]) == (1, 0)
        reached = keys(bucket)
        strays = {"lake/default/t/data/a b.parquet", "lake/default/t/data/%41.parquet", "lake/default/t/data/x"}
        for key in strays:
            obstore.put(bucket, key, b"orphan")
        found = call(remove_orphan_files, context)
        assert {row["orphan_file_location"] for row in found} == {f"{root}/{key}" for key in strays}
        assert all(row["deleted"] for row in found)
        assert keys(bucket) == reached
        assert catalog.load_table("default.t").scan().to_arrow()["id"].to_pylist() == [2]
        catalogs.close()


@pytest.mark.parametrize("kind", ["s3"], indirect=True)
@pytest.mark.parametrize("scheme", ["s3", "s3a", "s3n"])
def test_files_that_another_table_names_by_another_scheme(
    bucket: ObjectStore, root: str, pyiceberg_properties: dict[str, str], tmp_path: Path, scheme: str
) -> None:
    """A table inside another's folder took a file in under another spelling: it stays, and an orphan beside it goes."""
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": root, **pyiceberg_properties}
    quoted = {f'"{key}"': value for key, value in {**lake, "py-io-impl": IOS[0]}.items()}
    settings = Settings.from_mapping(
        {"drill.metastore": {"iceberg.location.base_path": str(tmp_path), "catalogs": {"lake": quoted}}}, environ={}
    )
    now = int(time.time() * 1000)
    with Metastore.open(settings) as metastore, LocalEngine(1) as engine:
        catalogs = Catalogs(metastore)
        catalog = catalogs.open("lake")
        catalog.create_namespace("default")
        schema = pa.schema([("id", pa.int64())])
        catalog.create_table("default.t", schema, location=f"{root}/o").append(pa.table({"id": [1]}))
        inner = catalog.create_table("default.inner", schema, location=f"{root}/o/in")
        for name in ("taken", "orphan"):
            stream = io.BytesIO()
            pq.write_table(pa.table({"id": [7]}), stream)
            obstore.put(bucket, f"o/data/{name}.parquet", stream.getvalue())
        inner.add_files([f"{root}/o/data/taken.parquet".replace("s3://", f"{scheme}://")])
        context = CallContext(catalogs, "lake", lambda _: engine, settings, lambda: now + 10 * 86_400_000)
        found = call(remove_orphan_files, context)
        assert [row["orphan_file_location"] for row in found if row["deleted"]] == [f"{root}/o/data/orphan.parquet"]
        assert catalog.load_table("default.inner").scan().to_arrow()["id"].to_pylist() == [7]
        catalogs.close()


def keys(store: ObjectStore) -> set[str]:
    """All keys of the bucket."""
    return {entry["path"] for batch in obstore.list(store) for entry in batch}


def call(procedure: BaseProcedure, context: CallContext, **arguments: Any) -> list[dict[str, Any]]:
    """Rows of the procedure on ``default.t``."""
    given = {"schema": "default", "table_name": "t", **arguments}
    bound = {each.name: given.get(each.name, each.default) for each in procedure.arguments}
    return run(procedure, context, bound).to_pylist()
