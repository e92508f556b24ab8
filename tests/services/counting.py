"""A proxy before a server over HTTP that notes each request and changes nothing.

It counts depth, too. With ``hold_s`` it keeps requests back until no other one has come for that long, and then passes
all of them on at once. Requests that do not wait for each other are one wave; the number of waves is the depth.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

_PER_HOP = frozenset({"connection", "transfer-encoding", "content-length"})


@dataclass
class Seen:
    """Where the proxy listens, and the requests since the last :meth:`clear`, as ``METHOD path``.

    ``received`` and ``sent`` are the bytes of objects, or parts of them, that were got and put.
    """

    endpoint: str
    requests: list[str] = field(default_factory=list)
    drops: Callable[[int], bool] = lambda _: False
    """Whether the connection of the request of this number, from 1 on, ends without an answer."""

    waves: list[list[str]] = field(default_factory=list)
    """The same requests by waves: each wave was sent after the answers to the one before; empty without ``hold_s``."""

    received: int = 0
    sent: int = 0

    @property
    def depth(self) -> int:
        """Number of waves."""
        return len(self.waves)

    def clear(self) -> None:
        """Start counting anew."""
        self.requests.clear()
        self.waves.clear()
        self.received = self.sent = 0


class _Waves:
    """Keeps requests back until none has come for ``hold_s`` seconds; 0 keeps none back."""

    def __init__(self, seen: Seen, hold_s: float) -> None:
        self._seen = seen
        self._hold_s = hold_s
        self._changed = threading.Condition()
        self._held: list[str] = []
        self._wave = 0

    def pass_on(self, request: str) -> None:
        """Wait until the wave of ``request`` goes on."""
        with self._changed:
            self._seen.requests.append(request)
            if not self._hold_s:
                return
            self._held.append(request)
            own, together = self._wave, len(self._held)
            self._changed.notify_all()
            while self._wave == own:
                if not self._changed.wait(self._hold_s) and self._wave == own and len(self._held) == together:
                    self._seen.waves.append(self._held)
                    self._held, self._wave = [], own + 1
                    self._changed.notify_all()
                together = len(self._held)


@contextmanager
def counting(server: str, hold_s: float = 0) -> Iterator[Seen]:
    """A proxy before the server at ``server``, ``http://host:port``."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 256

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            waves.pass_on(f"{self.command} {self.path}")
            if seen.drops(len(seen.requests)):
                self.close_connection = True
                return
            connection = HTTPConnection(server.rpartition("/")[2], timeout=60)
            connection.request(self.command, self.path, body, dict(self.headers))
            found = connection.getresponse()
            content = found.read()
            connection.close()
            seen.sent += len(body) if self.command == "PUT" else 0
            if self.command == "GET" and "list-type=" not in self.path and found.status < 300:
                seen.received += len(content)
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

    with Server(("127.0.0.1", 0), Handler) as listener:
        seen = Seen(f"http://127.0.0.1:{listener.server_port}")
        waves = _Waves(seen, hold_s)
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield seen
        finally:
            listener.shutdown()
            thread.join()
