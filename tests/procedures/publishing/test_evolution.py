"""Random histories of a folder, published step by step: the rows are those of one publication, and of our own scan."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from procedures.publishing.conftest import SOURCE, Shop, comparable

from metastore.components.metastore import Metastore
from metastore.config import Settings
from metastore.ground.clock import Clock
from metastore.procedures.publishing.expiration import KEPT, LEAST_AGE_MS
from metastore.session import Session, connect

_KINDS: dict[str, dict[str, pa.DataType]] = {
    "narrow": {"a": pa.int32(), "b": pa.float32()},
    "wide": {"a": pa.int64(), "b": pa.float64()},
    "other": {"A": pa.int64(), "c": pa.string()},
    "nested": {"a": pa.int32(), "s": pa.struct([("x", pa.int32()), ("y", pa.string())])},
}
_VALUES: dict[Any, Any] = {"a": 7, "A": 2**40, "b": 0.5, "c": "text", "s": {"x": 3, "y": "z"}}

_FILES = st.sampled_from(["p=1/a", "p=1/b", "p=2/a", "p=2/b", "p=3/a"])
_STEP = st.dictionaries(_FILES, st.tuples(st.sampled_from([None, *_KINDS]), st.integers(0, 3)), min_size=1, max_size=3)


def _table(kind: str, rows: int) -> pa.Table:
    columns = {name: pa.array([_VALUES[name]] * rows, type_) for name, type_ in _KINDS[kind].items()}
    return pa.table({"row": pa.array(range(rows), pa.int32()), **columns})


@settings(max_examples=12, deadline=None)
@given(steps=st.lists(_STEP, min_size=2, max_size=4))
def test_steps_end_where_one_publication_does(steps: list[dict[str, tuple[str | None, int]]]) -> None:
    """Files that come, change and go, new columns and wider types: PyIceberg reads the same after every step.

    The same as of a table that is published anew, as DuckDB reads of the plain files, and as our own scan returns.
    """
    with tempfile.TemporaryDirectory() as folder:
        settings_ = {
            "drill.metastore.iceberg.location.base_path": folder,
            "drill.metastore.storage.dfs.workspaces.shop.location": f"{folder}/shop",
            "drill.metastore.catalogs.published": {"type": "filesystem", "warehouse": f"{folder}/lake"},
        }
        with connect(Settings.from_mapping(settings_, environ={})) as session:
            shop = Shop(session, Path(folder, "shop", "sales"))
            shop.write("p=0/a.parquet", _table("narrow", 1))
            shop.publish()
            for step in steps:
                for name, (kind, rows) in step.items():
                    path = shop.root / f"{name}.parquet"
                    if kind is not None:
                        shop.write(f"{name}.parquet", _table(kind, rows))
                    elif path.exists():
                        path.unlink()
                shop.publish()
                assert shop.rows() == shop.plain()
            assert comparable(session.sql(f"SELECT * FROM {SOURCE}")) == shop.rows()
            by_steps = shop.rows()
            shop.publish_stored(to="published.shop.anew")
            anew = session.catalogs.table("published", "shop", "anew").load()
            assert comparable(anew.scan().to_arrow()) == by_steps


def test_old_snapshots_expire_with_publications() -> None:
    """Beyond a number and an age; their manifests go, and neither a data file nor a tagged snapshot does."""
    now = [1_800_000_000_000]

    with tempfile.TemporaryDirectory() as folder:
        settings_ = {
            "drill.metastore.iceberg.location.base_path": folder,
            "drill.metastore.storage.dfs.workspaces.shop.location": f"{folder}/shop",
            "drill.metastore.catalogs.published": {"type": "filesystem", "warehouse": f"{folder}/lake"},
        }
        with Session(
            Metastore.open(Settings.from_mapping(settings_, environ={}), clock=Clock(now_ms=lambda: now[0]))
        ) as session:
            shop = Shop(session, Path(folder, "shop", "sales"))
            for number in range(KEPT + 3):
                shop.write(f"p=1/{number}.parquet", _table("narrow", 1))
                shop.publish()
                now[0] += 1000
            assert len(shop.table.snapshots()) == KEPT + 3
            session.sql(
                "ALTER TABLE published.shop.sales CREATE TAG first AS OF VERSION "
                f"{shop.table.snapshots()[0].snapshot_id}"
            )
            now[0] += 2 * LEAST_AGE_MS
            before = len(list(Path(folder, "lake").rglob("*.avro")))
            shop.write("p=2/new.parquet", _table("narrow", 1))
            shop.publish()
            assert len(shop.table.snapshots()) == KEPT + 1
            assert len(list(Path(folder, "lake").rglob("*.avro"))) < before
            assert shop.rows() == shop.plain()
            tagged = shop.table.snapshots()[0]
            assert len(tagged.manifests(shop.table.io)[0].fetch_manifest_entry(shop.table.io)) == 1
