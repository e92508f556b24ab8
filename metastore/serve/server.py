"""The HTTP server of the REST catalog: uvicorn in a thread, on one socket, with bounded connections.

A connection is closed when a request takes too long, from its first byte to the last one of its answer, however slowly
the client sends or reads. Proxies' headers are not believed, and WebSockets are not spoken.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
import threading
from types import FrameType
from typing import Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from metastore.components.catalogs import Catalogs
from metastore.config.serve import ServeLimits, ServeSettings
from metastore.console.pages import Console
from metastore.errors import ConfigError, StorageError
from metastore.ground import endpoints
from metastore.serve.application import Application
from metastore.serve.freshness import Renew

_log: Final = logging.getLogger(__name__)

_KEY: Final = "drill.metastore.serve"
_GRACE_S: Final = 5
_HEADER_BYTES: Final = 32 << 10


class RestServer:
    """Serves ``catalogs``, and the pages of ``console`` if there is one, until it is closed; a context manager.

    ``renew`` brings a published table up to date, for the setting ``freshness``.
    Raises ConfigError for settings with which no server can run, and StorageError if the address is not available.
    """

    def __init__(
        self, settings: ServeSettings, catalogs: Catalogs, console: Console | None = None, renew: Renew | None = None
    ) -> None:
        endpoints.require_protection(_KEY, settings.host, settings.token)
        if not settings.warehouses:
            raise ConfigError(f"{_KEY}.catalogs is empty: name the catalogs to serve")
        self._application = Application(settings, catalogs, console, renew)
        config = _config(settings, self._application)
        self._socket = _listening(settings)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), name="serve", daemon=True)
        scheme = "http" if settings.tls is None else "https"
        self.url = endpoints.address_of(scheme, settings.host, self._socket.getsockname()[1])
        """The URL of the catalog, which clients call ``uri``."""
        self._thread.start()

    def stop(self) -> None:
        """Begin to end: running requests have some seconds."""
        self._server.should_exit = True

    def wait(self) -> None:
        """Return when the server has ended. Signals are handled meanwhile."""
        self._thread.join()

    def close(self) -> None:
        """Stop serving."""
        self.stop()
        self.wait()
        self._application.close()

    def __enter__(self) -> RestServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(
    settings: ServeSettings, catalogs: Catalogs, console: Console | None = None, renew: Renew | None = None
) -> None:
    """Serve until SIGINT or SIGTERM; call it from the main thread. Raises as :class:`RestServer`."""
    with RestServer(settings, catalogs, console, renew) as server:

        def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - as signal.signal calls it
            server.stop()

        before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            _log.info("the Iceberg REST catalog is at %s, with %s", server.url, ", ".join(settings.warehouses))
            if console is not None:
                _log.info("the console is at %s/", server.url)
            if settings.tls is None and not endpoints.is_loopback(settings.host):
                _log.warning(
                    "requests and the token are not encrypted: set %s.tls, or put a proxy with TLS before it", _KEY
                )
            server.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
    _log.info("the Iceberg REST catalog ends")


def _config(settings: ServeSettings, application: Application) -> uvicorn.Config:
    """Uvicorn's configuration, loaded here so that a bad certificate is a ConfigError before anything listens."""
    config = uvicorn.Config(
        application,
        http=_protocol(settings.limits),
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_GRACE_S,
        h11_max_incomplete_event_size=_HEADER_BYTES,
        ssl_certfile=settings.tls.certificate if settings.tls else None,
        ssl_keyfile=settings.tls.key if settings.tls else None,
    )
    try:
        config.load()
    except OSError as error:  # Also what OpenSSL says of a file.
        raise ConfigError(f"{_KEY}.tls cannot be used: {error}") from error
    return config


def _listening(settings: ServeSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family)
    except OSError as error:
        raise StorageError(f"the server cannot listen at {settings.host}:{settings.port}: {error}") from error


def _protocol(limits: ServeLimits) -> type[H11Protocol]:
    """HTTP with a deadline for each request and its answer, and a limit of connections; both abort without a word."""
    seconds = limits.request.total_seconds() + 1  # An answer in time says that the catalog was too slow.

    class BoundedProtocol(H11Protocol):
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn does
            super().connection_made(transport)
            if len(self.connections) > limits.connections:
                transport.abort()
            else:
                self._arm()

        def connection_lost(self, exc: Exception | None) -> None:
            self._disarm()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            self._arm()
            super().data_received(data)

        def on_response_complete(self) -> None:
            self._disarm()
            super().on_response_complete()
            if not self.cycle.response_complete:
                self._arm()  # The next request had arrived already.

        def _arm(self) -> None:
            if self._deadline is None:
                self._deadline = self.loop.call_later(seconds, self.transport.abort)

        def _disarm(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return BoundedProtocol
