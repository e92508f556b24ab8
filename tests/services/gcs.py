"""fake-gcs-server for the session, on loopback: a Go program of others, behind a front that translates one request.

It speaks the XML API of Google's store for all but writing: a plain ``PUT`` is answered by ``invalid uploadType``. The
front makes the same upload of it by the JSON API, with the same condition; whether a name is taken is decided behind.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlencode
from urllib.request import Request, urlopen

import pytest
from obstore.store import GCSStore
from services.processes import free_port, serving
from services.programs import installed

RELEASE = "v1.56.1"
INSTALL = ("go", "install", f"github.com/fsouza/fake-gcs-server@{RELEASE}")
CONDITION = "x-goog-if-generation-match"


@dataclass(frozen=True)
class GcsServer:
    """The front at ``endpoint``."""

    endpoint: str

    def hadoop(self, endpoint: str) -> dict[str, str]:
        """Keys of Google's connector for the server, or for what stands before it at ``endpoint``."""
        return {"fs.gs.storage.root.url": endpoint, "fs.gs.auth.type": "UNAUTHENTICATED"}

    def hadoop_with_open_headers(self, endpoint: str) -> dict[str, str]:
        """Keys by which a request's headers may be changed on its way: nothing is signed."""
        return self.hadoop(endpoint)

    def root(self, name: str) -> str:
        """The location of the bucket."""
        return f"gs://{name}"

    def create(self, name: str) -> GCSStore:
        """A new empty bucket, to look at directly."""
        url, made = f"{self.endpoint}/storage/v1/b?project=tests", json.dumps({"name": name}).encode()
        token: Any = {"token": "anybody", "expires_at": None}
        with urlopen(Request(url, data=made, headers={"Content-Type": "application/json"})):  # noqa: S310 - loopback
            return GCSStore(
                name,
                base_url=self.endpoint,
                credential_provider=lambda: token,
                client_options={"allow_http": True},
            )


@pytest.fixture(scope="session")
def gcs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GcsServer]:
    """The server, which keeps objects in memory, and the front before it."""
    folder, port = tmp_path_factory.mktemp("gcs"), free_port()
    program = installed(f"fake-gcs-server-{RELEASE}", INSTALL, hint="apt-get install golang-go", GOBIN="{}")
    command = [str(program / "fake-gcs-server"), "-scheme", "http", "-host", "127.0.0.1", "-port", str(port)]
    command += ["-backend", "memory", "-public-host", f"127.0.0.1:{port}", "-log-level", "warn"]
    with serving(command, port, folder), ThreadingHTTPServer(("127.0.0.1", 0), _front(port)) as front:
        thread = threading.Thread(target=front.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield GcsServer(f"http://127.0.0.1:{front.server_port}")
        front.shutdown()
        thread.join()


def _front(port: int) -> type[BaseHTTPRequestHandler]:
    class Front(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def pass_on(self) -> None:
            self._answer(*self._asked(self.command, self.path, dict(self.headers.items())))

        def do_PUT(self) -> None:
            _, bucket, name = self.path.split("/", 2)
            query = {"uploadType": "media", "name": unquote(name)}
            if condition := self.headers.get(CONDITION):
                query["ifGenerationMatch"] = condition
            place = f"/upload/storage/v1/b/{bucket}/o?{urlencode(query)}"
            status, headers, content = self._asked("POST", place, {"Content-Type": "application/octet-stream"})
            if status == 200:
                made = json.loads(content)
                headers, content = {"ETag": f'"{made["etag"]}"', "x-goog-generation": made["generation"]}, b""
            self._answer(status, headers, content)

        def _asked(self, method: str, path: str, headers: dict[str, str]) -> tuple[int, dict[str, str], bytes]:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            # Without a host of its own the server knows the request for one to itself.
            kept = {name: value for name, value in headers.items() if name.lower() not in ("host", "content-length")}
            with closing(HTTPConnection("127.0.0.1", port)) as server:
                server.request(method, path, body, kept)
                found = server.getresponse()
                return found.status, dict(found.getheaders()), found.read()

        def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
            length = headers.get("Content-Length") if self.command == "HEAD" else None
            self.send_response_only(status)
            for name, value in headers.items():
                if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            self.send_header("Content-Length", length or str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_HEAD = do_POST = do_DELETE = pass_on  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

    return Front
