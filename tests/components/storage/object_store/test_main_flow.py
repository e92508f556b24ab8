"""The tables component on an object store does what it does on the local disk."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import obstore
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import ObjectStore
from pyiceberg.table import StaticTable
from support.store_server import StoreServer

from metastore.analyze.run import analyze
from metastore.analyze.tasks.chunks import Limits
from metastore.components.catalogs import Catalogs
from metastore.components.integrity.check import check_metastore
from metastore.components.integrity.repair import repair_components
from metastore.components.metastore import Metastore
from metastore.components.storage import file_groups
from metastore.components.storage.data_files import fetch_files
from metastore.config import load_text
from metastore.config.settings import Settings
from metastore.engines.engine import LocalEngine
from metastore.errors import DamageError, NotFoundError
from metastore.lake.iceberg.catalogs.version_files import HINT
from metastore.model.identity import TableInfo
from metastore.model.statistics import ColumnStatistics
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.sources.source_table import SourceTable

MakeUnit = Callable[..., TableMetadataUnit]

GUIDE = Path(__file__).parents[4] / "docs/reference/store-keys.md"
KINDS = {".parquet": "data", ".avro": "manifests and lists", ".metadata.json": "versions", ".text": "hint"}

READ_ELSEWHERE = """
import pickle, sys
from metastore.model.vocabulary import MetadataType
with pickle.load(sys.stdin.buffer) as metastore:
    for unit in metastore.tables.read().metadata_types(MetadataType.ALL).execute():
        print(unit.table_name)
"""


def objects(bucket: ObjectStore) -> Counter[str]:
    """How many objects of each kind are in the bucket; an unknown kind is counted by its key."""
    keys = [entry["path"] for chunk in obstore.list(bucket) for entry in chunk]
    return Counter(next((kind for end, kind in KINDS.items() if key.endswith(end)), key) for key in keys)


def names(metastore: Metastore) -> list[str]:
    """Names of all tables, sorted."""
    units = metastore.tables.read().metadata_types(MetadataType.ALL).execute()
    return sorted(str(unit.table_name) for unit in units)


@pytest.mark.usefixtures("bucket")
def test_what_is_written_is_read(metastore: Metastore, unit: MakeUnit) -> None:
    """Overwrites, deletes and any characters of names; a metastore nobody wrote to is empty."""
    assert names(metastore) == []
    metastore.tables.modify().overwrite([unit("a"), unit("b c/ü+~&"), unit("50%?#:x")]).execute()
    assert names(metastore) == ["50%?#:x", "a", "b c/ü+~&"]
    metastore.tables.modify().overwrite([unit("d")]).delete("tableName = 'a'").execute()
    assert names(metastore) == ["50%?#:x", "b c/ü+~&", "d"]


@pytest.mark.parametrize("gone", [{4}, {3}, {3, 4}])
def test_a_lost_version_is_refused(
    open_metastore: Callable[..., Metastore], unit: MakeUnit, bucket: ObjectStore, gone: set[int]
) -> None:
    """The newest, or one in the middle that a stale hint comes before: reading and writing are refused, all stays."""
    for name in "abc":
        open_metastore().tables.modify().overwrite([unit(name)]).execute()
    folder = "metastore/tables/metadata"
    for number in gone:
        obstore.delete(bucket, f"{folder}/v{number}.metadata.json")
    obstore.put(bucket, f"{folder}/{HINT}", b"4" if 4 in gone else b"2")
    before = objects(bucket)
    metastore = open_metastore()
    with pytest.raises(DamageError, match="are lost|is missing"):
        names(metastore)
    with pytest.raises(DamageError, match="are lost|is missing"):
        metastore.tables.modify().overwrite([unit("d")]).execute()
    assert objects(bucket) == before


def test_repair_goes_back_on_a_store(
    settings: Callable[..., Settings], open_metastore: Callable[..., Metastore], unit: MakeUnit, bucket: ObjectStore
) -> None:
    """The newest version file is damaged: it is found, moved aside with its content, and the version before is read."""
    for name in "abc":
        open_metastore().tables.modify().overwrite([unit(name)]).execute()
    obstore.put(bucket, "metastore/tables/metadata/v4.metadata.json", b"{}")
    with Metastore.open(settings()) as metastore:
        assert check_metastore(Catalogs(metastore), 0).errors == 1
        report = repair_components(metastore, dry_run=False)
        assert [(each.version, list(each.aside)) for each in report.components] == [(3, ["v4.metadata.json"])]
    keys = [entry["path"] for chunk in obstore.list(bucket) for entry in chunk if "/damaged/" in entry["path"]]
    assert [bytes(obstore.get(bucket, key).bytes()) for key in keys] == [b"{}"]
    assert names(open_metastore()) == ["a", "b"]
    open_metastore().tables.modify().overwrite([unit("d")]).execute()
    assert names(open_metastore()) == ["a", "b", "d"]
    with Metastore.open(settings()) as metastore:
        assert check_metastore(Catalogs(metastore), 0).findings == ()


def test_another_metastore_sees_each_commit(open_metastore: Callable[..., Metastore], unit: MakeUnit) -> None:
    """Nothing that one keeps in memory hides what another wrote."""
    ours, theirs = open_metastore(), open_metastore()
    for name in ("a", "b", "c"):
        ours.tables.modify().overwrite([unit(name)]).execute()
        assert names(theirs)[-1] == name


def test_a_bucket_emptied_and_filled_anew(
    open_metastore: Callable[..., Metastore], unit: MakeUnit, bucket: ObjectStore
) -> None:
    """The old table is not remembered for the new one, though its version files have the same names."""
    ours, theirs = open_metastore(), open_metastore()
    ours.tables.modify().overwrite([unit("a")]).execute()
    assert names(ours) == ["a"]
    obstore.delete(bucket, [entry["path"] for chunk in obstore.list(bucket) for entry in chunk])
    assert names(ours) == []
    theirs.tables.modify().overwrite([unit("b")]).execute()
    assert names(ours) == ["b"]


@pytest.mark.usefixtures("bucket")
@pytest.mark.parametrize("at_once", [1 << 20, 0])
def test_segments_known_in_part_are_analyzed(
    metastore: Metastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """Their units are fetched together if they are few bytes, else as tasks are sent them; and tasks need no store."""
    for name in ("day=1/a", "day=1/b", "day=2/a", "day=2/b", "day=3/a"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        pq.write_table(pa.table({"x": [1, 2]}), tmp_path / f"{name}.parquet")
    source = SourceTable(TableInfo("dfs", "tmp", "t"), str(tmp_path))
    fetches: list[int] = []
    sent: list[bytes] = []

    def noted(io: Any, paths: Any) -> Any:
        fetches.append(len(paths))
        return fetch_files(io, paths)

    class Sending(LocalEngine):
        def run(self, chunks: Any, task: Any, schema: pa.Schema) -> Any:
            sent.extend(pickle.dumps(chunk) for chunk in chunks)
            return super().run([pickle.loads(chunk) for chunk in sent[-len(chunks) :]], task, schema)  # noqa: S301

    monkeypatch.setattr(file_groups, "fetch_files", noted)
    limits = Limits(chunk_files=(1, 2), fetched_bytes=at_once)
    with Sending(1) as engine:
        assert analyze(metastore.tables, source, engine, limits=limits).new == 5
        for name in ("day=1/a", "day=2/b"):
            pq.write_table(pa.table({"x": [7, None]}), tmp_path / f"{name}.parquet")
        result = analyze(metastore.tables, source, engine, limits=limits)
    assert (result.changed, result.segments_written) == (2, 2)
    assert fetches == ([2] if at_once else [1, 1])
    assert not any(str(metastore.tables.metadata.location).encode() in chunk for chunk in sent)
    [whole] = metastore.tables.requests.tables_metadata()
    found = ColumnStatistics.from_json((whole.columns_statistics or {})["`x`"])
    assert (found.min, found.max, found.nulls, found.non_nulls) == (1, 7, 2, 8)


def test_time_travel(metastore: Metastore, unit: MakeUnit) -> None:
    """Every version that is kept can be read; one that never was cannot."""
    first = metastore.tables.modify().overwrite([unit("a")]).execute()
    metastore.tables.modify().overwrite([unit("b")]).execute()
    request = metastore.tables.read().metadata_types(MetadataType.ALL)
    assert [found.table_name for found in request.at(first).execute()] == ["a"]
    with pytest.raises(NotFoundError):
        request.at(first + 1).execute()


def test_expiration_leaves_what_the_last_version_needs(
    open_metastore: Callable[..., Metastore], unit: MakeUnit, bucket: ObjectStore, now: SimpleNamespace
) -> None:
    """Counted in the bucket: one data file, one manifest and its list, one version file, the hint, nothing else."""
    metastore = open_metastore(expiration={"period": {"hours": 1}, "retain_last": 1})
    for comment in range(4):
        now.ms += 600_000
        metastore.tables.modify().overwrite([unit("a", owner=str(comment))]).execute()
    assert objects(bucket)["data"] == 4
    now.ms += 7_200_000
    expired = metastore.tables.expiration.expire()
    assert (len(expired.versions), expired.data_files, expired.failed) == (3, 3, ())
    assert objects(bucket) == {"data": 1, "manifests and lists": 2, "versions": 1, "hint": 1}
    assert names(metastore) == ["a"]


@pytest.mark.parametrize("kind", ["s3"], indirect=True)
def test_the_guide_to_configuration(server: StoreServer, root: str, bucket: ObjectStore, unit: MakeUnit) -> None:
    """Its lines for S3 open a bucket, with another endpoint, another bucket, and the keys in the environment."""
    blocks = re.findall(r"```hocon\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    text = next(block for block in blocks if "s3a://bucket" in block)
    keys = server.hadoop(server.endpoint)
    environ = {"ACCESS_KEY": keys["fs.s3a.access.key"], "SECRET_KEY": keys["fs.s3a.secret.key"]}
    text = text.replace("https://minio.example:9000", server.endpoint).replace("s3a://bucket", root)
    with Metastore.open(load_text(text, environ=environ)) as opened:
        opened.tables.modify().overwrite([unit("a")]).execute()
        assert names(opened) == ["a"]
    assert objects(bucket)["data"] == 1


@pytest.mark.parametrize("kind", ["s3"], indirect=True)
def test_pyiceberg_reads_it(
    metastore: Metastore,
    unit: MakeUnit,
    root: str,
    pyiceberg_properties: dict[str, str],
    as_rows: Callable[[pa.Table], list[str]],
) -> None:
    """PyIceberg's own Arrow FileIO, which shares nothing with ours, finds the same rows."""
    metastore.tables.modify().overwrite([unit("a b/ü"), unit("c", additional_metadata="{}")]).execute()
    location = f"{root}/metastore/tables/metadata/v2.metadata.json"
    theirs = StaticTable.from_metadata(location, properties=pyiceberg_properties).scan().to_arrow()
    ours = metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow()
    assert len(as_rows(theirs)) == 2
    assert as_rows(theirs) == as_rows(ours)


def test_a_metastore_opens_in_another_process(settings: Callable[..., Settings], unit: MakeUnit) -> None:
    """Pickled while open; the other process has the settings and nothing else of this one."""
    with Metastore.open(settings()) as metastore:
        metastore.tables.modify().overwrite([unit("a")]).execute()
        done = subprocess.run(
            [sys.executable, "-c", READ_ELSEWHERE], check=False, input=pickle.dumps(metastore), capture_output=True
        )
    assert (done.stdout.decode().split(), done.stderr.decode()) == (["a"], "")
