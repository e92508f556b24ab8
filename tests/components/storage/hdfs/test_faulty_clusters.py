"""What is asked of a cluster, by a proxy on loopback before its namenode and datanode; and what goes wrong there."""

from __future__ import annotations

import socket
import struct
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest
from services.hdfs_cluster import HdfsCluster

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.errors import OutcomeUnknownError, StorageError
from metastore.lake.stores.files import open_stream
from metastore.lake.stores.hdfs.hdfs import HdfsPointers
from metastore.lake.stores.hdfs.hdfs_io import HdfsFileIO
from metastore.lake.stores.hdfs.webhdfs import Clusters
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

pytestmark = pytest.mark.hdfs

MakeUnit = Callable[..., TableMetadataUnit]
Fault = Callable[[str, str], str | None]

STANDBY = (
    b'{"RemoteException": {"exception": "StandbyException", "message": "Operation category WRITE is not supported"}}'
)
FORBIDDEN = b'{"RemoteException": {"exception": "AccessControlException", "message": "Permission denied: user=drill"}}'


class Proxy:
    """Passes requests on; ``fault(operation, path)`` says what goes wrong with one, the datanode's begin with ``data``.

    ``forget``: it is carried out, and the connection is reset instead of an answer. ``refuse``: it is not carried out,
    and so. ``unavailable``: it is carried out and answered by a 503 of a gateway. ``redirect``: it is not carried out,
    and a gateway sends to where nobody is. ``twice``: a gateway sends it again, and passes the second answer on.
    ``hang``: it is carried out, and no answer comes. ``truncate``: half of one does. ``standby``, ``forbid``: the
    namenode says so.
    """

    def __init__(self, namenode: str) -> None:
        self.namenode = self.datanode = namenode
        self.fault: Fault = lambda *_: None
        self.seen: Counter[str] = Counter()
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                proxy.pass_on(self)

            do_GET = do_PUT = do_DELETE = answer  # noqa: N815 - http.server's names

            def log_message(self, *_: object) -> None:
                pass

        self.listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.listener.server_port}"

    def pass_on(self, request: BaseHTTPRequestHandler) -> None:
        """Carry out one request."""
        parts = urlsplit(request.path)
        query = parse_qs(parts.query)
        to_data = "namenoderpcaddress" in query
        operation = f"{'data ' if to_data else ''}{query['op'][0]}"
        fault = self.fault(operation, query.get("destination", [parts.path])[0])
        self.seen[f"{operation} {fault}" if fault else operation] += 1
        body = self._body(request)
        if fault == "refuse":
            return self._reset(request)
        if fault in ("standby", "forbid"):
            return self._answer(request, 403, STANDBY if fault == "standby" else FORBIDDEN)
        if fault == "redirect":
            return self._answer(request, 307, b"", "application/octet-stream", "http://127.0.0.1:1/elsewhere")
        if fault == "twice":
            self._asked(request, body, to_data=to_data)
        status, content, kind, location = self._asked(request, body, to_data=to_data)
        if fault == "forget":
            return self._reset(request)
        if fault == "hang":
            request.connection.recv(1)  # until the client gives up
            return None
        if fault == "unavailable":
            return self._answer(request, 503, b"try later")
        if status == 307:
            self.datanode = urlsplit(location).netloc
            location = location.replace(self.datanode, self.address, 1)
        return self._answer(request, status, content, kind, location, cut=fault == "truncate")

    def _asked(self, request: BaseHTTPRequestHandler, body: bytes, *, to_data: bool) -> tuple[int, bytes, str, str]:
        ours = ("host", "transfer-encoding", "content-length")
        headers = {name: value for name, value in request.headers.items() if name.lower() not in ours}
        with closing(HTTPConnection(self.datanode if to_data else self.namenode)) as server:
            server.request(request.command, request.path, body, headers)
            answer = server.getresponse()
            content = answer.read()
            return answer.status, content, answer.getheader("Content-Type", ""), answer.getheader("Location", "")

    @staticmethod
    def _body(request: BaseHTTPRequestHandler) -> bytes:
        if "Transfer-Encoding" not in request.headers:
            return request.rfile.read(int(request.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(request.rfile.readline(), 16):
            chunks.append(request.rfile.read(size))
            request.rfile.readline()
        request.rfile.readline()
        return b"".join(chunks)

    @staticmethod
    def _answer(
        request: BaseHTTPRequestHandler,
        status: int,
        content: bytes,
        kind: str = "",
        location: str = "",
        *,
        cut: bool = False,
    ) -> None:
        request.send_response_only(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(content)))
        if location:
            request.send_header("Location", location)
        request.end_headers()
        request.wfile.write(content[: len(content) // 2] if cut else content)

    @staticmethod
    def _reset(request: BaseHTTPRequestHandler) -> None:
        request.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        request.connection.close()


@pytest.fixture
def proxy(hdfs_cluster: HdfsCluster) -> Iterator[Proxy]:
    """A proxy before the cluster, without faults."""
    made = Proxy(hdfs_cluster.http)
    thread = threading.Thread(target=made.listener.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield made
    made.listener.shutdown()
    thread.join()
    made.listener.server_close()


@pytest.fixture
def metastore(settings: Callable[..., Settings], proxy: Proxy, unit: MakeUnit) -> Iterator[Metastore]:
    """A metastore seen through the proxy, in which table ``a`` is known."""
    with Metastore.open(settings(proxy.address)) as opened:
        opened.tables.modify().overwrite([unit("a")]).execute()
        proxy.seen.clear()
        yield opened


@pytest.fixture
def through(proxy: Proxy, hadoop: dict[str, str]) -> Clusters:
    """The cluster by way of the proxy; no time is lost by waiting."""
    return Clusters({**hadoop, "dfs.namenode.http-address": proxy.address}, lambda _: None)


def names(metastore: Metastore) -> list[str]:
    """Names of all tables, sorted."""
    units = metastore.tables.read().metadata_types(MetadataType.ALL).execute()
    return sorted(str(unit.table_name) for unit in units)


def on(operation: str, *first: str, then: str | None = None, end: str = "") -> Fault:
    """Faults for one operation on what ends so, one after another."""
    left = list(first)

    def choose(asked: str, path: str) -> str | None:
        if asked != operation or not path.endswith(end):
            return None
        return left.pop(0) if left else then

    return choose


def on_versions(*first: str, then: str | None = None) -> Fault:
    """Faults for the renames to version files."""
    return on("RENAME", *first, then=then, end=".metadata.json")


class TestOutcome:
    """A commit whose answer is lost is found out about; it is neither made twice nor given up by mistake."""

    @pytest.mark.parametrize("fault", ["forget", "unavailable", "refuse", "redirect", "twice", "standby"])
    def test_an_answer_lost_once(self, metastore: Metastore, unit: MakeUnit, proxy: Proxy, fault: str) -> None:
        """Landed or not: it is one version with all rows."""
        proxy.fault = on_versions(fault)
        version = metastore.tables.modify().overwrite([unit("b")]).execute()
        assert proxy.seen[f"RENAME {fault}"] == 1
        assert names(metastore) == ["a", "b"]
        assert metastore.tables.metadata.version == version
        assert len(metastore.tables.metadata.history()) == 2

    def test_landed_and_never_answered(self, metastore: Metastore, unit: MakeUnit, proxy: Proxy) -> None:
        """The rename took the file that it needs: that is known by the file."""
        proxy.fault = on_versions("forget", then="refuse")
        metastore.tables.modify().overwrite([unit("b")]).execute()
        assert proxy.seen["RENAME refuse"] == 3
        assert names(metastore) == ["a", "b"]
        assert len(metastore.tables.metadata.history()) == 2

    def test_never_landed(self, metastore: Metastore, unit: MakeUnit, proxy: Proxy, pointers: HdfsPointers) -> None:
        """Without the file that it needs it cannot any more: certainly nothing was changed, and nothing is left."""
        proxy.fault = on_versions(then="refuse")
        with pytest.raises(StorageError, match="nothing was changed"):
            metastore.tables.modify().overwrite([unit("b")]).execute()
        assert names(metastore) == ["a"]
        entry = metastore.tables._backing.table.load()
        assert entry
        left = pointers.entries(f"{entry.metadata.location}/metadata").files
        assert sum(name.endswith(".avro") for name in left) == 2
        assert not any(name.endswith(".tmp") for name in left)

    def test_forbidden(self, metastore: Metastore, unit: MakeUnit, proxy: Proxy) -> None:
        """A refusal of the namenode is certain, and is not asked for again."""
        proxy.fault = on_versions(then="forbid")
        with pytest.raises(StorageError, match=r"Permission denied.*nothing was changed"):
            metastore.tables.modify().overwrite([unit("b")]).execute()
        assert proxy.seen["RENAME forbid"] == 1
        assert names(metastore) == ["a"]

    def test_open_for_good(self, metastore: Metastore, unit: MakeUnit, proxy: Proxy) -> None:
        """Nothing changes any more, not even by deletions: the outcome is open, and the error says so."""
        changes = {"RENAME", "DELETE"}
        proxy.fault = lambda operation, path: "refuse" if operation in changes and "metadata.json" in path else None
        with pytest.raises(OutcomeUnknownError, match=r"No file was removed"):
            metastore.tables.modify().overwrite([unit("b")]).execute()
        proxy.fault = lambda *_: None
        assert names(metastore) == ["a"]

    def test_a_lost_race_is_no_unknown_outcome(
        self, pointers: HdfsPointers, proxy: Proxy, hadoop: dict[str, str], root: str
    ) -> None:
        """An answer is lost, and then another's file stands there: the race is lost for certain."""
        location = f"{root}/t/metadata/v2.metadata.json"
        proxy.fault = on_versions("refuse")

        def pause(seconds: float) -> None:
            if seconds:
                pointers.create_if_absent(location, b"theirs")

        clusters = Clusters({**hadoop, "dfs.namenode.http-address": proxy.address})
        assert not HdfsPointers(clusters, pause).create_if_absent(location, b"ours")
        assert pointers.read(location) == b"theirs"
        assert pointers.entries(f"{root}/t/metadata").files == {"v2.metadata.json"}

    def test_a_write_that_comes_late_does_not_hide_that_the_rename_happened(
        self, clusters: Clusters, proxy: Proxy, hadoop: dict[str, str], root: str
    ) -> None:
        """A datanode that was given up on makes the file anew that the rename took: it is no proof of a lost race."""
        location = f"{root}/t/metadata/v2.metadata.json"
        written: list[str] = []
        renames = on_versions("forget")

        def fault(operation: str, path: str) -> str | None:
            if operation == "data CREATE":
                written.append(unquote(path.removeprefix("/webhdfs/v1")))
            return renames(operation, path)

        def pause(seconds: float) -> None:
            if seconds:
                clusters.at(root)[0].write(written[0], b"ours", overwrite=True)

        proxy.fault = fault
        through = Clusters({**hadoop, "dfs.namenode.http-address": proxy.address})
        assert HdfsPointers(through, pause).create_if_absent(location, b"ours")
        assert HdfsPointers(clusters).entries(f"{root}/t/metadata").files == {"v2.metadata.json"}


class TestRequests:
    """What is asked, and asked again."""

    def test_a_warm_read_asks_for_the_version_alone(self, metastore: Metastore, proxy: Proxy) -> None:
        """Whether the known version and the next one stand, in three spellings each, all at the same time."""
        assert names(metastore) == ["a"]
        proxy.seen.clear()
        assert names(metastore) == ["a"]
        assert proxy.seen == {"GETFILESTATUS": 6}

    @pytest.mark.parametrize("fault", ["forget", "refuse", "redirect", "unavailable"])
    @pytest.mark.parametrize("operation", ["OPEN", "data OPEN", "LISTSTATUS", "CREATE", "data CREATE"])
    def test_what_changes_nothing_twice_is_asked_again(
        self, proxy: Proxy, through: Clusters, root: str, operation: str, fault: str
    ) -> None:
        """Reads, and writes of files that nobody else has."""
        proxy.fault = on(operation, fault, fault)
        cluster, path = through.at(f"{root}/x")
        cluster.write(path, b"content", overwrite=True)
        assert cluster.read(path) == b"content"
        assert [entry.name for entry in cluster.entries(path.rpartition("/")[0])] == ["x"]
        assert proxy.seen[f"{operation} {fault}"] == 2

    @pytest.mark.parametrize("streamed", [False, True])
    def test_a_datanode_that_is_down_costs_no_file(
        self, proxy: Proxy, through: Clusters, root: str, *, streamed: bool
    ) -> None:
        """Nothing was sent to it, so the namenode is asked for another, also where nothing may be written over."""
        files = HdfsFileIO()
        files.clusters = through
        proxy.fault = on("CREATE", "redirect", "redirect")
        opened: Any = open_stream(files, f"{root}/x") if streamed else files.new_output(f"{root}/x").create()
        with opened as stream:
            stream.write(b"content")
        assert files.new_input(f"{root}/x").open().read() == b"content"
        assert proxy.seen["CREATE redirect"] == 2

    @pytest.mark.parametrize("fault", ["forget", "refuse", "redirect", "twice", "unavailable"])
    @pytest.mark.parametrize("operation", ["CREATE", "data CREATE"])
    def test_a_file_whose_answer_is_lost_once(
        self, metastore: Metastore, unit: MakeUnit, proxy: Proxy, operation: str, fault: str
    ) -> None:
        """It is written again, and finds its own or nothing: one broken connection ends no commit."""
        left = [fault]

        def choose(asked: str, path: str) -> str | None:
            return left.pop() if left and asked == operation and path.endswith(".parquet") else None

        proxy.fault = choose
        metastore.tables.modify().overwrite([unit("b")]).execute()
        assert left == []
        assert names(metastore) == ["a", "b"]

    def test_the_error_of_a_lost_file_says_why(self, metastore: Metastore, unit: MakeUnit, proxy: Proxy) -> None:
        """It says why, and not that there is no such file."""
        proxy.fault = on("data CREATE", then="refuse", end=".parquet")
        with pytest.raises(StorageError, match=r"reset by peer.*nothing was changed"):
            metastore.tables.modify().overwrite([unit("b")]).execute()
        assert names(metastore) == ["a"]

    @pytest.mark.parametrize("fault", ["forget", "hang", "truncate"])
    def test_an_answer_that_does_not_come_names_its_host_and_path(
        self, proxy: Proxy, hadoop: dict[str, str], root: str, fault: str
    ) -> None:
        """What is read through a catalog is not its own failure, and one of many hosts is to be looked at."""
        impatient = {"dfs.namenode.http-address": proxy.address, "dfs.webhdfs.socket.read-timeout": "100ms"}
        cluster, path = Clusters({**hadoop, **impatient}, lambda _: None).at(f"{root}/x")
        proxy.fault = on("DELETE", fault)
        with pytest.raises(OSError, match=rf"{proxy.address}.*{path}") as raised:
            cluster.delete(path)
        assert str(raised.value).count("Errno") == 1

    def test_the_next_namenode_is_asked(self, proxy: Proxy, hdfs_cluster: HdfsCluster, hadoop: dict[str, str]) -> None:
        """When one stands by or cannot be reached, and it stays the first choice from then on."""
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            ha = {"dfs.ha.namenodes.lake": "a,b,c", "dfs.namenode.http-address.lake.b": proxy.address}
            ha["dfs.namenode.http-address.lake.a"] = f"127.0.0.1:{closed.getsockname()[1]}"
            ha["dfs.namenode.http-address.lake.c"] = hdfs_cluster.http
            proxy.fault = lambda *_: "standby"
            cluster, _ = Clusters({**hadoop, **ha}, lambda _: None).at("hdfs://lake/x")
            for _ in range(3):
                cluster.make_folder("/tests")
        assert proxy.seen == {"MKDIRS standby": 1}

    def test_a_file_that_stands_is_not_written_over(self, through: Clusters, proxy: Proxy, root: str) -> None:
        """Unless its content is ours, since then an answer was lost."""
        files = HdfsFileIO()
        files.clusters = through
        with files.new_output(f"{root}/x").create() as stream:
            stream.write(b"first")
        with pytest.raises(FileExistsError), files.new_output(f"{root}/x").create() as stream:
            stream.write(b"second")
        assert files.new_input(f"{root}/x").open().read() == b"first"
        proxy.fault = on("data CREATE", "forget")
        with files.new_output(f"{root}/y").create() as stream:
            stream.write(b"once")
        assert files.new_input(f"{root}/y").open().read() == b"once"
