"""The endpoint: ``/metrics`` for Prometheus and ``/healthz``, on the loopback address unless a token protects it.

On any other address it requires the token, which is compared in constant time; without a configured token it does not
start there. It serves two paths by GET and reads no body. It shows no configuration, and no data except names of
actions and tables. Metrics are made by prometheus_client (extra ``daemon``) on request.
"""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from metastore.config.daemon import EndpointSettings
from metastore.daemon.metrics import Metrics
from metastore.daemon.state import Pass, State
from metastore.errors import ConfigError, StorageError
from metastore.ground import endpoints
from metastore.ground.optional import library

_log: Final = logging.getLogger(__name__)

_PATIENCE: Final = 3
"""A loop that works on no table is unhealthy after this number of intervals without a sign of life."""

_SOCKET_SECONDS: Final = 10


class Endpoint:
    """Serves ``state`` in threads until it is closed; a context manager.

    ``monotonic`` is the loop's clock. Raises ConfigError for an address beyond the loopback without a token,
    InvalidRequestError if the library is missing, and StorageError if the address is not available.
    """

    def __init__(self, settings: EndpointSettings, state: State, monotonic: Callable[[], float]) -> None:
        if settings.port is None:
            raise ConfigError("drill.metastore.daemon.http.port is null: there is no endpoint")
        require_protection(settings)
        text = partial(Metrics(library("prometheus_client", "daemon"), state, monotonic).text)
        health = partial(_health, state, monotonic)
        pages: dict[str, Callable[[], tuple[HTTPStatus, str, bytes]]] = {"/metrics": text, "/healthz": health}
        self._host = settings.host
        handler = partial(_Handler, pages, settings.token)
        try:
            self._server = _server(settings.host)((settings.host, settings.port), handler)
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


def _server(host: str) -> type[ThreadingHTTPServer]:
    class Server(ThreadingHTTPServer):
        daemon_threads = True
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET

    return Server


class _Handler(BaseHTTPRequestHandler):
    server_version = "metastore"
    sys_version = ""
    timeout = _SOCKET_SECONDS

    def __init__(
        self, pages: dict[str, Callable[[], tuple[HTTPStatus, str, bytes]]], token: str | None, *args: Any
    ) -> None:
        self._pages = pages
        self._token = token
        super().__init__(*args)

    def do_GET(self) -> None:
        """Answer with one of the pages."""
        if not self._may_see():
            self._send(HTTPStatus.UNAUTHORIZED, "text/plain", b"a token is needed\n", {"WWW-Authenticate": "Bearer"})
            return
        page = self._pages.get(self.path.partition("?")[0])
        if page is None:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"there are /metrics and /healthz\n")
            return
        self._send(*page())

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing: requests are not worth a line."""
        _log.debug("%s %s", self.address_string(), format % args)

    def _may_see(self) -> bool:
        # The library decodes headers as Latin-1.
        return endpoints.carries(self.headers.get("Authorization", "").encode("latin-1", "replace"), self._token)

    def _send(self, status: HTTPStatus, kind: str, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _health(state: State, monotonic: Callable[[], float]) -> tuple[HTTPStatus, str, bytes]:
    now, seen, since = monotonic(), state.seen, state.since
    is_waiting_too_long = (
        state.token is not None
        and state.working_on is None
        and state.waiting_for is None  # A wait for a catalog has its own limit.
        and seen is not None
        and now - seen > _PATIENCE * state.interval.total_seconds()
    )
    troubles = state.troubles_at(now)
    document = {
        "status": "stuck" if is_waiting_too_long else "trouble" if troubles else "ok",
        "troubles": troubles,
        "leader": state.token is not None,
        "token": state.token,
        "lease_holder": state.lease.holder,
        "working_on": state.working_on,
        "waiting_for": state.waiting_for,
        "seconds": None if since is None else round(now - since, 1),
        "tables": state.tables,
        "pass": None if (current := state.current) is None else _progress(current, now),
        "last_pass_ms": state.last_pass_ms,
        "last_full_pass_ms": state.last_full_pass_ms,
        "last_full_pass_seconds": state.last_full_pass_seconds,
        "listed_ms": state.listed_ms,
        "trouble": state.trouble,
        "configuration_refused": state.refused is not None,
    }
    status = HTTPStatus.SERVICE_UNAVAILABLE if is_waiting_too_long else HTTPStatus.OK
    return status, "application/json", json.dumps(document).encode() + b"\n"


def _progress(current: Pass, now: float) -> dict[str, float | None]:
    counts = {name: getattr(current, name) for name in ("actions", "done", "failed", "deferred", "left", "began_ms")}
    return {**counts, "seconds": round(now - current.began, 1), "seconds_left": _rounded(current.seconds_left(now))}


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)
