"""Requests and depth of each operation on S3, counted before the server: what waits for an answer is what costs time.

Depth is the number of requests that wait for each other. Each budget is the figure of today: a change that needs more
requests says so here. What is just opened asks once whether the server lists in order, since it is not Amazon's own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import ObjectStore
from services.counting import Seen, counting
from support.store_server import StoreServer

from metastore.components.metastore import Metastore
from metastore.components.tables import Tables
from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.session import Session, connect

pytestmark = pytest.mark.parametrize("kind", ["s3"], indirect=True)

MakeUnit = Callable[..., TableMetadataUnit]
HOLD_S = 0.25
FILES, DIRECTORIES = 60, 6


@pytest.fixture
def seen(server: StoreServer) -> Iterator[Seen]:
    """A proxy that counts requests and depth."""
    with counting(server.endpoint, HOLD_S) as seen:
        yield seen


def require(seen: Seen, requests: int, depth: int) -> None:
    """Within the budget; the count begins anew."""
    sent = "\n".join(map(str, seen.waves))
    assert len(seen.requests) <= requests, sent
    assert seen.depth <= depth, sent
    seen.clear()


class TestMetastore:
    """A metastore of one hundred tables in the bucket."""

    @pytest.fixture
    def opened(self, seen: Seen, settings: Callable[..., Settings], unit: MakeUnit) -> Iterator[Callable[[], Tables]]:
        """Open the metastore anew."""
        given = settings(seen.endpoint)
        metastores = [Metastore.open(given)]
        units = [unit(f"t{n:03}", key) for n in range(100) for key in ("GENERAL_INFO", "1994")]
        metastores[0].tables.modify().overwrite(units).execute()
        seen.clear()

        def open_() -> Tables:
            metastores.append(Metastore.open(given))
            return metastores[-1].tables

        yield open_
        for metastore in metastores:
            metastore.tables.expiration_worker.join()
            metastore.close()

    def test_a_commit_of_one_table(self, opened: Callable[[], Tables], seen: Seen, unit: MakeUnit) -> None:
        """7 are put; the others look for the newest version and the hint beside the data, and for the base afterwards.

        The files, then their manifests, the version, the look at its base, and the hint wait for each other.
        """
        tables = opened()
        for number in range(3):  # the first looks, and probes the store
            seen.clear()
            tables.modify().overwrite([unit("t007", key, owner=str(number)) for key in ("GENERAL_INFO", "y")]).execute()
        methods = Counter(request.partition(" ")[0] for request in seen.requests)
        assert methods == {"PUT": 7, "GET": 2, "HEAD": 1}
        require(seen, requests=10, depth=5)

    def test_reads(self, opened: Callable[[], Tables], seen: Seen) -> None:
        """Just opened, of another table, and where nothing changed: one listing tells that."""
        tables = opened()

        def read(table: str) -> None:
            asked = tables.read().metadata_types(MetadataType.ALL)
            found = asked.filter(f"storagePlugin = 'dfs' and workspace = 'tmp' and tableName = '{table}'").execute()
            assert len(found) == 2

        for table, requests, depth in (("t001", 8, 5), ("t002", 3, 2), ("t002", 1, 1)):
            read(table)
            require(seen, requests, depth)

    def test_a_list_of_all_tables(self, opened: Callable[[], Tables], seen: Seen) -> None:
        """Manifests tell it."""
        rows = opened().read().metadata_types(MetadataType.TABLE).columns("tableName", "owner").to_arrow()
        assert rows.num_rows == 100
        require(seen, requests=5, depth=4)

    def test_a_new_version_is_seen(self, opened: Callable[[], Tables], seen: Seen, unit: MakeUnit) -> None:
        """Whatever its number: versions are listed in the order of their names, in which 10 comes before 9."""
        writer, reader = opened(), opened()
        for number in range(2, 12):
            writer.modify().overwrite([unit("t007", owner=str(number))]).execute()
            seen.clear()
            asked = reader.read().metadata_types(MetadataType.TABLE).filter("tableName = 't007'")
            assert [each.owner for each in asked.execute()] == [str(number)]
            listings = sum("list-type=2" in request for request in seen.requests)
            assert listings <= 2, seen.waves


def test_a_first_commit_of_many_partitions(seen: Seen, settings: Callable[..., Settings], unit: MakeUnit) -> None:
    """Files are put many at once, each by one request."""
    with Metastore.open(settings(seen.endpoint)) as metastore:
        for name in ("first", "second"):
            metastore.tables.modify().overwrite([unit(name)]).execute()
        seen.clear()
        units = [unit(f"t{n:03}", key) for n in range(128) for key in ("GENERAL_INFO", "1994")]
        metastore.tables.modify().overwrite(units).execute()
        data = [wave for wave in seen.waves if any(".parquet" in request for request in wave)]
        # The looks at the table run beside the last of them, and may fall into the same wave.
        assert max(sum(".parquet" in request for request in wave) for wave in data) == 64
        assert len(seen.requests) <= 256 + 9, Counter(request.split()[0] for request in seen.requests)
        assert seen.depth - len(data) <= 4, seen.waves  # manifests, version, base, hint


def test_a_first_commit_makes_the_table(seen: Seen, settings: Callable[..., Settings], unit: MakeUnit) -> None:
    """The store is probed beside the first look; making the table takes six requests in a row more than a commit."""
    with Metastore.open(settings(seen.endpoint)) as metastore:
        metastore.tables.modify().overwrite([unit("first", key) for key in ("GENERAL_INFO", "1994")]).execute()
    require(seen, requests=22, depth=13)


class TestData:
    """A table of small files in the bucket, and its metadata there, too."""

    @pytest.fixture
    def lake(self, seen: Seen, server: StoreServer, root: str, bucket: ObjectStore) -> Callable[[], Session]:
        """Open a session; ``lake.w.t`` is analyzed."""
        for number in range(FILES):
            put(bucket, number, [number * 10 + each for each in range(10)])
        keys = {f'"{key}"': value for key, value in server.hadoop(seen.endpoint).items()}
        plugin = {"type": "file", "connection": root, "workspaces.w.location": "/w", "config": keys}
        location = {"base_path": root, "relative_path": "metastore"}
        iceberg = {"location": location, "config.properties": keys}
        base = {"iceberg": iceberg, "engine.kind": "local", "storage.lake": plugin}
        settings = Settings.from_mapping({"drill.metastore": base}, environ={})
        with connect(settings) as ms:
            assert ms.analyze("lake.w.t").new == FILES
        seen.clear()
        return lambda: connect(settings)

    def test_analyze(self, lake: Callable[[], Session], seen: Seen, bucket: ObjectStore) -> None:
        """Unchanged, and with one file changed."""
        with lake() as ms:
            ms.analyze("lake.w.t")
            seen.clear()
            ms.analyze("lake.w.t")
            require(seen, requests=2, depth=2)
            for values, requests, depth in ((77, 21, 14), (78, 16, 9)):  # a writer's first commit probes the store
                put(bucket, 1, list(range(values)))
                assert ms.analyze("lake.w.t").changed == 1
                require(seen, requests, depth)

    def test_analyze_of_named_paths(
        self, lake: Callable[[], Session], seen: Seen, bucket: ObjectStore, root: str
    ) -> None:
        """Nothing is listed: by the events of the bucket, one request looks at each file, and one reads its footer."""
        with lake() as ms:
            put(bucket, 1, [77])
            ms.analyze("lake.w.t")  # a writer's first commit probes the store
            put(bucket, 1, [78])
            put(bucket, 7, [79])
            bucket.delete("w/t/k=2/2.parquet")
            keys = ("w/t/k%3D1/1.parquet", "w/t/k%3D1/7.parquet", "w/t/k%3D2/2.parquet", "w/t/k%3D2/2.parquet")
            where = {"name": root.partition("://")[2]}
            records = [{"s3": {"bucket": where, "object": {"key": key}}} for key in keys]
            seen.clear()
            result = ms.analyze("lake.w.t", paths=[{"Records": records}])
            assert (result.files, result.new, result.changed, result.removed) == (2, 0, 2, 1)
            assert not [request for request in seen.requests if re.search("prefix=w%2Ft(%2F)?(&|$)", request)]
            require(seen, requests=25, depth=12)
            assert ms.analyze("lake.w.t").status == "up to date"
            with pytest.raises(InvalidRequestError, match="no path of a file below"):
                ms.analyze("lake.w.t", paths=["s3://another-bucket/w/t/k=1/1.parquet"])

    def test_analyze_of_a_partition(self, lake: Callable[[], Session], seen: Seen, bucket: ObjectStore) -> None:
        """Only its own directory is listed below the table."""
        with lake() as ms:
            put(bucket, 1, [77])
            seen.clear()
            assert ms.analyze("lake.w.t", partitions={"k": 1}).changed == 1
            listed = {prefix[1] for request in seen.requests if (prefix := re.search("prefix=(w%2Ft[^&]*)", request))}
            assert listed == {"w%2Ft%2F", "w%2Ft%2Fk%3D1%2F"}

    def test_questions(self, lake: Callable[[], Session], seen: Seen) -> None:
        """A prune, a scan of one file, and the same in SQL, all of them warm."""
        with lake() as ms:
            ms.prune("lake.w.t", "x = 599")
            require(seen, requests=8 + DIRECTORIES, depth=5)
            assert len(ms.prune("lake.w.t", "x = 589").paths) == 1
            require(seen, requests=2, depth=1)
            assert ms.tables.scan("lake.w.t", "x = 579").to_arrow().num_rows == 1
            require(seen, requests=4, depth=4)
            for number in (569, 559):
                seen.clear()
                assert ms.sql(f"SELECT count(*) AS n FROM lake.w.t WHERE x = {number}").to_pylist() == [{"n": 1}]
            require(seen, requests=6, depth=4)


def put(bucket: ObjectStore, number: int, values: list[int]) -> None:
    """One of the files of the table."""
    content = BytesIO()
    pq.write_table(pa.table({"x": values}), content)
    bucket.put(f"w/t/k={number % DIRECTORIES}/{number}.parquet", content.getvalue())
