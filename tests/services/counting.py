"""A proxy before a server over HTTP that notes each request and changes nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PER_HOP = frozenset({"connection", "transfer-encoding", "content-length"})


@dataclass
class Seen:
    """Where the proxy listens, and the requests since the list was cleared, as ``METHOD path``."""

    endpoint: str
    requests: list[str] = field(default_factory=list)


@contextmanager
def counting(server: str) -> Iterator[Seen]:
    """A proxy before the server at ``server``, ``http://host:port``."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            seen.requests.append(f"{self.command} {self.path}")
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            connection = HTTPConnection(server.rpartition("/")[2], timeout=60)
            connection.request(self.command, self.path, body, dict(self.headers))
            found = connection.getresponse()
            content = found.read()
            connection.close()
            self.send_response_only(found.status)
            for name, value in found.getheaders():
                if name.lower() not in _PER_HOP:
                    self.send_header(name, value)
            length = found.getheader("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        listener.daemon_threads = True
        seen = Seen(f"http://127.0.0.1:{listener.server_port}")
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield seen
        finally:
            listener.shutdown()
            thread.join()
