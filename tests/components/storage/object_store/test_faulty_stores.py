"""What is asked of a store, by a proxy on loopback; and stores that fail in a commit or cannot promise one."""

from __future__ import annotations

import re
import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from hashlib import sha256
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

import obstore
import pytest
from obstore.store import ObjectStore
from support.store_server import StoreServer

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.errors import OutcomeUnknownError, StorageError
from metastore.lake.stores.hadoop_properties import file_io_properties
from metastore.lake.stores.locations import StoreLocation
from metastore.lake.stores.objects.conditional_put import PAUSES_S, RefusedError, create_object
from metastore.lake.stores.objects.object_store import ObjectPointers
from metastore.lake.stores.objects.object_store_client import Buckets
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.sources.listing import list_files

MakeUnit = Callable[..., TableMetadataUnit]

REFUSALS = {"forbid": 403, "clash": 409}
CONFLICT = b"<Error><Code>ConditionalRequestConflict</Code><Message>Concurrent request</Message></Error>"
CONDITIONS = ("if-none-match", "x-goog-if-generation-match")


class Proxy:
    """Passes requests on to the server; ``fault(method, path)`` says what goes wrong with one.

    ``forget``: it is carried out, and the connection is reset instead of an answer. ``refuse``: it is not carried out,
    and so. ``unavailable``: it is carried out and answered by 503. ``forbid``, ``clash``: it is not, and
    answered by 403 or 409. ``conflict``: it is not, and answered as S3 answers to concurrent conditional requests.
    ``overwrite``: its condition is taken from it. ``begin``: a listing begins at the first name, as of a server that
    does not know ``start-after``. ``disorder``: it is in the order of the names' digests, as of a store that encrypts
    names.
    """

    def __init__(self, server: str) -> None:
        self.server = server.rpartition("/")[2]
        self.fault = always(None)
        self.seen: Counter[str] = Counter()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                proxy.pass_on(self)

            do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - http.server's names

            def log_message(self, *_: object) -> None:
                pass

        self.listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self.listener.server_port}"

    def pass_on(self, request: BaseHTTPRequestHandler) -> None:
        """Carry out one request."""
        fault = self.fault(request.command, request.path)
        self.seen[f"{request.command} {fault}"] += 1
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        if fault == "refuse":
            return self._reset(request)
        if fault in REFUSALS:
            return request.send_error(REFUSALS[fault])
        if fault == "conflict":
            request.send_response_only(409)
            request.send_header("Content-Length", str(len(CONFLICT)))
            request.end_headers()
            request.wfile.write(CONFLICT)
            return None
        headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        if fault == "overwrite":
            headers = {name: value for name, value in headers.items() if name.lower() not in CONDITIONS}
        server = HTTPConnection(self.server)
        path = request.path
        if fault in ("begin", "disorder"):
            path = re.sub(r"&start-after=[^&]*", "", path)
        server.request(request.command, path, body, headers)
        answer = server.getresponse()
        content = answer.read()
        server.close()
        if fault == "disorder":
            content = in_disorder(content, request.path)
        if fault == "forget":
            return self._reset(request)
        if fault == "unavailable":
            return request.send_error(503)
        request.send_response_only(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                request.send_header(name, value)
        length = answer.getheader("Content-Length") if request.command == "HEAD" else None
        request.send_header("Content-Length", length or str(len(content)))
        request.end_headers()
        request.wfile.write(content)
        return None

    @staticmethod
    def _reset(request: BaseHTTPRequestHandler) -> None:
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.connection.close()


def in_disorder(listing: bytes, path: str) -> bytes:
    """A listing in the order of its names' digests, after the digest of where ``path`` says that it begins."""

    def digest(name: str) -> str:
        return sha256(name.encode()).hexdigest()

    begin = re.search(r"start-after=([^&]*)", path)
    entries = re.findall(r"<Contents>.*?</Contents>", listing.decode(), re.DOTALL)
    by_digest = {digest(unquote(re.findall("<Key>(.*?)</Key>", entry)[0])): entry for entry in entries}
    after = digest(unquote(begin[1])) if begin else ""
    listed = "".join(by_digest[key] for key in sorted(by_digest) if key > after)
    rest = re.sub(r"<Contents>.*</Contents>", "", listing.decode(), flags=re.DOTALL)
    return rest.replace("</ListBucketResult>", f"{listed}</ListBucketResult>").encode()


@pytest.fixture
def proxy(server: StoreServer) -> Iterator[Proxy]:
    """A proxy before the server, without faults."""
    made = Proxy(server.endpoint)
    thread = threading.Thread(target=made.listener.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield made
    made.listener.shutdown()
    thread.join()
    made.listener.server_close()


@pytest.fixture
def metastore(settings: Callable[..., Settings], proxy: Proxy) -> Iterator[Metastore]:
    """A metastore seen through the proxy, in which table ``a`` is known."""
    with Metastore.open(settings(proxy.endpoint)) as opened:
        yield opened


@pytest.fixture
def through_gateway(settings: Callable[..., Settings], server: StoreServer, proxy: Proxy) -> Iterator[Metastore]:
    """A metastore seen through the proxy, by credentials that leave it free to change headers, as a gateway may."""
    keys = server.hadoop_with_open_headers(proxy.endpoint)
    with Metastore.open(settings(**{"config.properties": {f'"{key}"': keys[key] for key in keys}})) as opened:
        yield opened


def names(metastore: Metastore) -> list[str]:
    """Names of all tables, sorted."""
    units = metastore.tables.read().metadata_types(MetadataType.ALL).execute()
    return sorted(str(unit.table_name) for unit in units)


def on_versions(*first: str, then: str | None = None) -> Callable[[str, str], str | None]:
    """Faults for the puts of version files, one after another."""
    left = list(first)

    def choose(method: str, path: str) -> str | None:
        if method != "PUT" or not unquote(path).endswith(".metadata.json"):
            return None
        return left.pop(0) if left else then

    return choose


def always(fault: str | None) -> Callable[[str, str], str | None]:
    """The same for each request."""
    return lambda *_: fault


class TestOutcome:
    """A commit whose answer is lost is found out about; it is neither made twice nor given up by mistake."""

    @pytest.mark.parametrize("fault", ["forget", "unavailable", "refuse", "clash", "conflict"])
    def test_an_answer_lost_once(self, metastore: Metastore, unit: MakeUnit, proxy: Proxy, fault: str) -> None:
        """Landed or not: the put is sent again, and finds its own or nothing. 409 is a clash of requests."""
        metastore.tables.modify().overwrite([unit("a")]).execute()
        proxy.fault = on_versions(fault)
        version = metastore.tables.modify().overwrite([unit("b")]).execute()
        assert proxy.seen[f"PUT {fault}"] == 1
        assert names(metastore) == ["a", "b"]
        assert metastore.tables.metadata.version == version
        assert len(metastore.tables.metadata.history()) == 2

    @pytest.mark.parametrize("fault", ["forget", "refuse", "unavailable", "clash", "conflict"])
    @pytest.mark.parametrize("suffix", [".parquet", "-m0.avro", "version-hint.text"])
    def test_a_file_whose_answer_is_lost_once(
        self, metastore: Metastore, unit: MakeUnit, proxy: Proxy, fault: str, suffix: str
    ) -> None:
        """It is put again, and finds its own or nothing: one broken connection ends no commit."""
        metastore.tables.modify().overwrite([unit("a")]).execute()
        left = [fault]

        def choose(method: str, path: str) -> str | None:
            return left.pop() if left and method == "PUT" and unquote(path).endswith(suffix) else None

        proxy.fault = choose
        metastore.tables.modify().overwrite([unit("b")]).execute()
        assert left == []
        assert names(metastore) == ["a", "b"]
        assert len(metastore.tables.metadata.history()) == 2

    @pytest.mark.parametrize("suffix", [".parquet", "-m0.avro", ".metadata.json"])
    def test_conflicts_without_end(
        self, settings: Callable[..., Settings], server: StoreServer, proxy: Proxy, root: str, suffix: str
    ) -> None:
        """S3's 409 each time: a certain refusal that says what it is; repeated a few times, with longer waits."""
        location = f"{root}/t/x{suffix}"
        through = Buckets(file_io_properties(location, server.hadoop(proxy.endpoint)))
        place = StoreLocation.parse(location)
        pauses: list[float] = []
        proxy.fault = always("conflict")
        with pytest.raises(RefusedError, match=r"answered 6 times with 409.*try again"):
            create_object(through.of(place), location, b"x", pauses.append, unique=False)
        assert (proxy.seen["PUT conflict"], pauses) == (6, [0.0, *PAUSES_S])

    @pytest.mark.parametrize("first", ["conflict", "forget", "refuse", None])
    def test_whose_file_it_is(self, server: StoreServer, proxy: Proxy, root: str, first: str | None) -> None:
        """The name is taken by equal content: it can be one's own after a first request that failed, and only then."""
        location = f"{root}/t/x"
        through = Buckets(file_io_properties(location, server.hadoop(proxy.endpoint)))
        left = [first, "forget"] if first else []
        proxy.fault = lambda method, _: left.pop(0) if left and method == "PUT" else None
        bucket = through.of(StoreLocation.parse(location))
        if first is None:
            obstore.put(bucket.store, "t/x", b"x")
        created = create_object(bucket, location, b"x", lambda _: None, unique=False)
        assert (created is not None) == (first is not None)
        assert not create_object(bucket, location, b"y", lambda _: None, unique=True)
        assert bytes(obstore.get(bucket.store, "t/x").bytes()) == b"x"

    @pytest.mark.parametrize("fault", ["refuse", "forbid"])
    def test_landed_and_never_answered(self, metastore: Metastore, unit: MakeUnit, proxy: Proxy, fault: str) -> None:
        """Every answer is lost, or the rights are once it landed: the metadata tells by the commit's id."""
        metastore.tables.modify().overwrite([unit("a")]).execute()
        proxy.fault = on_versions("forget", then=fault)
        metastore.tables.modify().overwrite([unit("b")]).execute()
        assert proxy.seen[f"PUT {fault}"] > 0
        assert names(metastore) == ["a", "b"]
        assert len(metastore.tables.metadata.history()) == 2

    def test_forbidden(
        self, metastore: Metastore, unit: MakeUnit, proxy: Proxy, bucket: ObjectStore, kind: str
    ) -> None:
        """A refusal is certain: nothing was changed, the files of the commit are removed again, in one request."""
        metastore.tables.modify().overwrite([unit("a")]).execute()
        before = proxy.seen["POST None"], proxy.seen["DELETE None"]
        proxy.fault = on_versions(then="forbid")
        with pytest.raises(StorageError, match=r"403.*nothing was changed"):
            metastore.tables.modify().overwrite([unit(name) for name in "bcde"]).execute()
        keys = [entry["path"] for chunk in obstore.list(bucket) for entry in chunk]
        assert sum(key.endswith(".parquet") for key in keys) == 1
        assert sum(key.endswith(".avro") for key in keys) == 2
        asked = proxy.seen["POST None"] - before[0], proxy.seen["DELETE None"] - before[1]
        # The client deletes one by one on GCS: four data files, a manifest and its list.
        assert asked == ((0, 6) if kind == "gcs" else (1, 0))
        assert names(metastore) == ["a"]

    def test_open_for_good(self, metastore: Metastore, unit: MakeUnit, proxy: Proxy, bucket: ObjectStore) -> None:
        """The store cannot be written to any more: the error says that the outcome is open, and nothing is deleted."""
        metastore.tables.modify().overwrite([unit("a")]).execute()
        proxy.fault = on_versions(then="refuse")
        with pytest.raises(OutcomeUnknownError, match=r"No file was removed"):
            metastore.tables.modify().overwrite([unit("b")]).execute()
        keys = [entry["path"] for chunk in obstore.list(bucket) for entry in chunk]
        assert sum(key.endswith(".parquet") for key in keys) == 2
        proxy.fault = always(None)
        assert names(metastore) == ["a"]

    def test_a_lost_race_is_no_unknown_outcome(
        self, server: StoreServer, pointers: ObjectPointers, root: str, proxy: Proxy
    ) -> None:
        """An answer is lost, and then another's file stands there: the race is lost for certain."""
        location = f"{root}/t/metadata/v2.metadata.json"
        through = Buckets(file_io_properties(location, server.hadoop(proxy.endpoint)))
        proxy.fault = on_versions("refuse")
        pauses: list[float] = []

        def pause(seconds: float) -> None:
            pauses.append(seconds)
            if seconds:
                pointers.create_if_absent(location, b"theirs")

        assert not ObjectPointers(through, pause).create_if_absent(location, b"ours")
        assert len(pauses) == 2
        assert pointers.read(location) == b"theirs"


class TestCost:
    """Requests are what an object store makes one wait and pay for."""

    def test_a_warm_read_asks_for_the_version_alone(
        self, metastore: Metastore, unit: MakeUnit, proxy: Proxy, kind: str
    ) -> None:
        """Whether the known version and the next one stand, in three spellings each: a listing tells, or six requests.

        Listings of Azure cannot begin at a name. A folder of few files does not tell whether listings are in order.
        """
        for _ in range(2):
            metastore.tables.modify().overwrite([unit("a")]).execute()
            assert names(metastore) == ["a"]
        proxy.seen.clear()
        assert names(metastore) == ["a"]
        assert proxy.seen == ({"HEAD None": 6} if kind == "azure" else {"GET None": 1})

    @pytest.mark.parametrize("kind", ["s3"], indirect=True)
    @pytest.mark.parametrize("fault", ["begin", "disorder"])
    def test_a_listing_out_of_order_is_not_believed(
        self, metastore: Metastore, unit: MakeUnit, proxy: Proxy, settings: Callable[..., Settings], fault: str
    ) -> None:
        """Every version is seen: by a listing of the whole folder, or by a look at each file.

        The first page shows names in disorder, but not that a server passes over where a listing should begin.
        """
        proxy.fault = lambda _, path: fault if "list-type=2" in path else None
        for table in "abc":
            metastore.tables.modify().overwrite([unit(table)]).execute()
            with Metastore.open(settings()) as other:
                other.tables.modify().overwrite([unit(f"{table}2")]).execute()
        proxy.seen.clear()
        assert names(metastore) == ["a", "a2", "b", "b2", "c", "c2"]
        assert (proxy.seen["HEAD None"] >= 6) == (fault == "begin")

    def test_each_file_is_written_by_one_put(
        self, metastore: Metastore, unit: MakeUnit, proxy: Proxy, kind: str
    ) -> None:
        """Of three data files, manifest, list, version and hint; nothing is uploaded in parts or written twice.

        What is read is the hint: it tells whether the version that is to be made was lost. One listing looks for the
        newest version and for the one that is to be made.
        """
        for _ in range(3):
            metastore.tables.modify().overwrite([unit("a")]).execute()
        proxy.seen.clear()
        metastore.tables.modify().overwrite([unit("b"), unit("c"), unit("d")]).execute()
        assert (proxy.seen["PUT None"], proxy.seen["POST None"], proxy.seen["GET None"]) == (
            7,
            0,
            1 if kind == "azure" else 2,
        )


class TestRefused:
    """What cannot be committed to safely is not written to."""

    def test_a_store_without_create_if_absent(
        self, through_gateway: Metastore, unit: MakeUnit, proxy: Proxy, bucket: ObjectStore, kind: str
    ) -> None:
        """One that overwrites in spite of If-None-Match is found out before the first commit, and left empty."""
        proxy.fault = always("overwrite")
        with pytest.raises(StorageError, match=r"overwrites what should only be created.*nothing was changed"):
            through_gateway.tables.modify().overwrite([unit("a")]).execute()
        left = [entry["path"] for chunk in obstore.list(bucket) for entry in chunk]
        # Azurite answers 500 to the deletion, a batch, when the credential is a token: there the probe stays.
        assert [path for path in left if kind != "azure" or not path.endswith(".probe")] == []

    def test_it_is_refused_in_a_table_that_stands_already(
        self, through_gateway: Metastore, open_metastore: Callable[..., Metastore], unit: MakeUnit, proxy: Proxy
    ) -> None:
        """A store may lose the promise after the table was made, by a release or a gateway: each process looks."""
        open_metastore().tables.modify().overwrite([unit("a")]).execute()
        proxy.fault = always("overwrite")
        with pytest.raises(StorageError, match=r"overwrites what should only be created"):
            through_gateway.tables.modify().overwrite([unit("b")]).execute()
        assert names(through_gateway) == ["a"]

    def test_a_bucket_that_does_not_exist(self, settings: Callable[..., Settings], server: StoreServer) -> None:
        """It is no empty metastore."""
        location = {"base_path": server.root("no-such-bucket"), "relative_path": "metastore"}
        with (
            Metastore.open(settings(location=location)) as metastore,
            pytest.raises(StorageError, match="NoSuchBucket|ContainerNotFound|no bucket"),
        ):
            names(metastore)

    @pytest.mark.parametrize(
        ("base", "reason"),
        [
            ("viewfs://cluster/drill", "no known store"),
            ("ftp://host/drill", "no known store"),
            ("s3a://no bucket/drill", "the name of a bucket"),
            ("abfss://container/drill", "<container>@<account>"),
        ],
    )
    def test_other_stores(self, base: str, reason: str) -> None:
        """Refused when the metastore is opened, with the reason."""
        keys = {"drill.metastore.iceberg.location.base_path": base}
        with pytest.raises(StorageError, match=reason):
            Metastore.open(Settings.from_mapping(keys, environ={}))


class TestListing:
    """A listing of data is whole, or an error, whatever the store answers to its requests."""

    @pytest.fixture
    def files(self, bucket: ObjectStore) -> list[str]:
        """Names of the objects that lie there."""
        names = [f"k={number % 3}/{number}.csv" for number in range(30)]
        for name in names:
            bucket.put(f"listed/{name}", b"1")
        return sorted(names)

    @pytest.mark.parametrize("fault", ["unavailable", "refuse", "forget"])
    def test_an_answer_that_is_lost_is_asked_for_again(
        self, server: StoreServer, root: str, proxy: Proxy, files: list[str], fault: str
    ) -> None:
        """Twice, each time."""
        faults = iter([fault, fault])
        proxy.fault = lambda *_: next(faults, None)
        listing = list_files(f"{root}/listed", options=server.hadoop(proxy.endpoint))
        assert [file.path.removeprefix(f"{root}/listed/") for file in listing.files] == files
        assert proxy.seen[f"GET {fault}"] == 2

    def test_no_answer_is_an_error(self, server: StoreServer, root: str, proxy: Proxy, files: list[str]) -> None:
        """And no listing of less."""
        assert files
        proxy.fault = always("forbid")
        with pytest.raises(StorageError, match="cannot list"):
            list_files(f"{root}/listed", options=server.hadoop(proxy.endpoint))
