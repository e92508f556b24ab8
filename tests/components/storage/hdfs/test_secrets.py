"""A delegation token is part of every URL, and is seen nowhere: not in logs, errors, settings."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.errors import MetastoreError
from metastore.lake.stores.hdfs.hdfs import HdfsPointers
from metastore.lake.stores.hdfs.hdfs_io import HdfsFileIO
from metastore.lake.stores.hdfs.webhdfs import Clusters

TOKEN = "Zq7-recognisable_token"
LOCATION = "hdfs://namenode:8020/t/metadata/v1.metadata.json"

ANSWERS = {
    "refusal": (403, '{{"RemoteException": {{"exception": "SecretManager", "message": "no such token: {said}"}}}}', ""),
    "failure": (500, "cannot do {said}", ""),
    "no answer": (200, "what was {said}", ""),
    "nowhere": (307, "", "http://127.0.0.1:1{said}"),
    "broken": (307, "", "http://127.0.0.1:{port}/\x01{said}"),
    "no port": (307, "", "http://127.0.0.1:none{said}"),
    "no address": (307, "", "http://[{said}"),
    "no name": (307, "", "http://name..node{said}"),
}
"""What a server that repeats what it is sent may say."""


@pytest.fixture
def chatty() -> Iterator[SimpleNamespace]:
    """``address`` of a server that answers so, and ``seen``, what it was asked."""
    server = SimpleNamespace(answer="refusal", seen=[])

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            server.seen.append(self.path)
            status, text, location = ANSWERS[server.answer]
            said = text.format(said=self.path).encode()
            self.send_response_only(status)
            self.send_header("Content-Length", str(len(said)))
            if location:
                self.send_header("Location", location.format(said=self.path, port=listener.server_port))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_PUT = do_DELETE = answer  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        server.address = f"127.0.0.1:{listener.server_port}"
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield server
        listener.shutdown()
        thread.join()


@pytest.mark.parametrize("answer", ANSWERS)
def test_no_error_and_no_log_holds_the_token(
    chatty: SimpleNamespace, answer: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever the cluster says, to each operation; and a token stands for the user, who is not sent beside it."""
    caplog.set_level(logging.DEBUG)
    chatty.answer = answer
    properties = {"dfs.namenode.http-address": chatty.address, "hdfs.delegation-token": TOKEN}
    clusters = Clusters(properties, lambda _: None)
    pointers, files = HdfsPointers(clusters, lambda _: None), HdfsFileIO(properties)
    files.clusters = clusters
    operations: list[Callable[[], object]] = [
        lambda: pointers.create_if_absent(LOCATION, b"x"),
        lambda: pointers.identities([LOCATION]),
        lambda: pointers.read(LOCATION),
        lambda: pointers.replace(LOCATION, b"x"),
        lambda: pointers.remove(LOCATION),
        lambda: pointers.entries(LOCATION),
        lambda: files.open_stream(LOCATION),
    ]
    shown = [caplog.text, repr(clusters), repr(files), repr(pointers)]
    for operation in operations:
        with pytest.raises((MetastoreError, OSError)) as raised:
            operation()
        shown += [*traceback.format_exception(raised.value), repr(raised.value)]
    assert [text for text in [*shown, caplog.text] if "recognisable" in text] == []
    assert all("recognisable" in path and "user.name" not in path for path in chatty.seen if "op=" in path)


def test_settings_do_not_show_it() -> None:
    """Nor does what is made of them."""
    keys = {"location.base_path": "hdfs://namenode:8020/drill", "config.properties": {'"hdfs.delegation-token"': TOKEN}}
    settings = Settings.from_mapping({"drill.metastore.iceberg": keys}, environ={})
    with Metastore.open(settings) as metastore:
        texts = [settings, settings.explain(), metastore, metastore.tables]
        assert [text for text in [*map(str, texts), *map(repr, texts)] if TOKEN in text] == []
