"""The endpoint: ``/metrics`` for Prometheus and ``/healthz``, on the loopback address unless a token protects it.

On any other address it requires the token, which is compared in constant time; without a configured token it does not
start there. Without a token, the header ``Host`` must name this machine (:mod:`metastore.ground.endpoints`). It answers
GET and reads no body. The two paths show no configuration, and no data except names of actions and tables; other paths
are pages that the caller gives. Metrics are made by prometheus_client (extra ``daemon``) on request. The number of
connections and the time of each are bounded, so clients that wait, send slowly or go away cost the daemon's work
nothing.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from metastore.config.daemon import EndpointSettings
from metastore.daemon.metrics import PrometheusMetrics
from metastore.daemon.state import Pass, State
from metastore.errors import ConfigError, StorageError
from metastore.ground import endpoints
from metastore.ground.optional import library

_log: Final = logging.getLogger(__name__)

Pages = Callable[[str], tuple[HTTPStatus, Mapping[str, str], bytes]]
"""Returns status, headers and body for the path and query of a request. Threads may share it."""

_PATIENCE: Final = 3
"""A loop that works on no table is unhealthy after this number of intervals without a sign of life."""

_CONNECTION_SECONDS: Final = 10
"""A connection is closed after this time, whatever its client does."""

_CONNECTIONS: Final = 32
"""The most connections at once. Each has two threads; others are closed without an answer."""


class Endpoint:
    """Serves ``state`` in threads until it is closed; a context manager.

    ``monotonic`` is the loop's clock; a connection ends after ``seconds``; ``others`` answers paths beside the two.
    Raises ConfigError for an address beyond the loopback without a token, InvalidRequestError if the library is
    missing, and StorageError if the address is not available.
    """

    def __init__(
        self,
        settings: EndpointSettings,
        state: State,
        monotonic: Callable[[], float],
        others: Pages | None = None,
        *,
        seconds: float = _CONNECTION_SECONDS,
    ) -> None:
        if settings.port is None:
            raise ConfigError("drill.metastore.daemon.http.port is null: there is no endpoint")
        require_protection(settings)
        text = partial(PrometheusMetrics(library("prometheus_client", "daemon"), state, monotonic).text)
        health = partial(_health_page, state, monotonic)
        pages: dict[str, Callable[[], tuple[HTTPStatus, str, bytes]]] = {"/metrics": text, "/healthz": health}
        self._host = settings.host
        handler = partial(_Handler, pages, settings.token, others)
        try:
            self._server = _Server(settings.host, settings.port, handler, seconds)
        except OSError as error:
            raise StorageError(f"the endpoint cannot listen at {settings.host}:{settings.port}: {error}") from error
        self._thread = threading.Thread(target=self._server.serve_forever, name="daemon-endpoint", daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The URL on which it listens."""
        return endpoints.address_of("http", self._host, self._server.server_address[1])

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> Endpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def require_protection(settings: EndpointSettings) -> None:
    """Raise ConfigError for an address beyond this machine without a token."""
    if settings.port is not None:
        endpoints.require_protection("drill.metastore.daemon.http", settings.host, settings.token)


class _Server(ThreadingHTTPServer):
    """Answers each connection in a thread, up to :data:`_CONNECTIONS`, and ends it after ``seconds``."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, host: str, port: int, handler: Callable[..., _Handler], seconds: float) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._places = threading.BoundedSemaphore(_CONNECTIONS)
        self._seconds = seconds
        super().__init__((host, port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Answer in a thread of its own; close the connection if all places are taken."""
        if self._places.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, and free the place afterwards."""
        end = threading.Timer(self._seconds, _break_off, (request,))
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log and go on: a client that goes away is no fault of the daemon."""
        _log.debug("the connection of %s ended early", client_address, exc_info=True)


def _break_off(connection: socket.socket) -> None:
    with suppress(OSError):  # it has ended meanwhile
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server_version = "metastore"
    sys_version = ""

    def __init__(
        self,
        pages: dict[str, Callable[[], tuple[HTTPStatus, str, bytes]]],
        token: str | None,
        others: Pages | None,
        *args: Any,
    ) -> None:
        self._pages = pages
        self._token = token
        self._others = others
        super().__init__(*args)

    def do_GET(self) -> None:
        """Answer with one of the pages."""
        host = self.headers.get("Host")
        if self._token is None and host is not None and not endpoints.names_this(host, ()):
            self._send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", b"without a token, Host must be this machine\n")
            return
        page = self._pages.get(self.path.partition("?")[0])
        if not self._may_see():
            asks = endpoints.BROWSERS if page is None and self._others is not None else "Bearer"
            self._send(HTTPStatus.UNAUTHORIZED, "text/plain", b"a token is needed\n", {"WWW-Authenticate": asks})
        elif page is not None:
            self._send(*page())
        elif self._others is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"there are /metrics and /healthz\n")
        else:
            status, headers, body = self._others(self.path)
            self._send(status, headers["Content-Type"], body, headers)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests are not worth a line."""
        _log.debug("%s %s", self.address_string(), format % args)

    def _may_see(self) -> bool:
        # The library decodes headers as Latin-1.
        return endpoints.carries(self.headers.get("Authorization", "").encode("latin-1", "replace"), self._token)

    def _send(self, status: HTTPStatus, kind: str, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def health_of_state(state: State, now: float) -> dict[str, Any]:
    """Returns the document of ``/healthz``; ``now`` is of the loop's clock."""
    seen, at = state.seen, state.at
    waiting = [whom for whom, _ in list(state.waiting.values())]
    is_waiting_too_long = (
        state.token is not None
        and not at  # A wait for a catalog has its own limit.
        and seen is not None
        and now - seen > _PATIENCE * state.interval.total_seconds()
    )
    troubles = state.troubles_at(now)
    return {
        "status": "stuck" if is_waiting_too_long else "trouble" if troubles else "ok",
        "troubles": troubles,
        "leader": state.token is not None,
        "token": state.token,
        "lease_holder": state.lease.holder,
        "working_on": next(iter(dict(state.working)), None),
        "waiting_for": next(iter(waiting), None),
        "seconds": round(now - min(at.values()), 1) if at else None,
        "at": [{"what": what, "seconds": round(now - since, 1)} for what, since in at.items()],
        "tables": state.tables,
        "pass": None if (current := state.current) is None else _progress(current, now),
        "last_pass_ms": state.last_pass_ms,
        "last_full_pass_ms": state.last_full_pass_ms,
        "last_full_pass_seconds": state.last_full_pass_seconds,
        "listed_ms": state.listed_ms,
        "trouble": state.trouble,
        "configuration_refused": state.refused is not None,
    }


def _health_page(state: State, monotonic: Callable[[], float]) -> tuple[HTTPStatus, str, bytes]:
    document = health_of_state(state, monotonic())
    status = HTTPStatus.SERVICE_UNAVAILABLE if document["status"] == "stuck" else HTTPStatus.OK
    return status, "application/json", json.dumps(document).encode() + b"\n"


def _progress(current: Pass, now: float) -> dict[str, float | None]:
    counts = {name: getattr(current, name) for name in ("actions", "done", "failed", "deferred", "left", "began_ms")}
    return {
        **counts,
        "seconds": round(now - current.began, 1),
        "seconds_left": _round_seconds(current.seconds_left(now)),
    }


def _round_seconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
