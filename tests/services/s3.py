"""moto's server for the session: it speaks S3's API over HTTP, and AWS's token service."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.request import Request, urlopen

import pytest
from obstore.store import S3Store
from services.processes import free_port, serving

ACCESS_KEY, SECRET_KEY = "AKIALOOPBACKTESTS", "made-up/secret+for=loopback"


SERVER = """
import sys, threading
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
moto, turn = DomainDispatcherApplication(create_backend_app), threading.Lock()
def one_at_a_time(environ, start_response):
    if "HTTP_IF_NONE_MATCH" not in environ:
        return moto(environ, start_response)
    with turn:
        return moto(environ, start_response)
run_simple("127.0.0.1", int(sys.argv[1]), one_at_a_time, threaded=True)
"""
"""moto looks whether an object exists, and puts it afterwards: of two conditional puts at once, both may succeed.

S3 lets only one succeed, so this server executes them one at a time."""


@dataclass(frozen=True)
class S3Server:
    """The server at ``endpoint``."""

    endpoint: str

    def hadoop(self, endpoint: str) -> dict[str, str]:
        """S3A's keys for the server, or for what stands before it at ``endpoint``."""
        return {
            "fs.s3a.endpoint": endpoint,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.access.key": ACCESS_KEY,
            "fs.s3a.secret.key": SECRET_KEY,
            "fs.s3a.path.style.access": "true",
        }

    def hadoop_with_open_headers(self, endpoint: str) -> dict[str, str]:
        """Keys by which a request's headers may be changed on its way: this server checks no signature."""
        return self.hadoop(endpoint)

    def root(self, name: str) -> str:
        """The location of the bucket."""
        return f"s3a://{name}"

    def create(self, name: str) -> S3Store:
        """A new empty bucket, to look at directly."""
        with urlopen(Request(f"{self.endpoint}/{name}", data=b"", method="PUT")):  # noqa: S310 - loopback
            return S3Store(
                name,
                endpoint=self.endpoint,
                region="us-east-1",
                access_key_id=ACCESS_KEY,
                secret_access_key=SECRET_KEY,
                client_options={"allow_http": True},
            )


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """The server, as a process of its own."""
    port = free_port()
    command = [sys.executable, "-c", SERVER, str(port)]
    with serving(command, port, tmp_path_factory.mktemp("moto")):
        yield S3Server(f"http://127.0.0.1:{port}")


@pytest.fixture
def forbidding_s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Pyarrow's options for a server that answers every request by 403, as S3 does who may not read."""

    class Handler(BaseHTTPRequestHandler):
        def forbid(self) -> None:
            self.send_error(403)

        do_GET = do_HEAD = forbid  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield {"endpoint_override": f"127.0.0.1:{listener.server_port}", "scheme": "http", "region": "us-east-1"}
        listener.shutdown()
        thread.join()
