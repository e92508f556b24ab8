"""The REST catalog as a Starlette application: who may ask, which handler answers, and for how long.

A handler runs in a thread of its catalog's own, so a catalog that does not answer keeps none of the others waiting.
Every answer is one of ours, in Iceberg's model of errors; what is unforeseen is logged, and told without its text.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from typing import Any, Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from metastore.components.catalogs import Catalogs
from metastore.config.serve import ServeSettings
from metastore.console.pages import Console
from metastore.errors import InvalidRequestError, MetastoreError
from metastore.ground import endpoints
from metastore.lake.iceberg.catalogs.open_tables import FileCache
from metastore.serve import answers, handlers
from metastore.serve.answers import RestAnswer
from metastore.serve.freshness import FolderLooks, Renew
from metastore.serve.requests import CatalogRequest, Refusal, name_of
from metastore.serve.served_catalog import ServedCatalog
from metastore.serve.virtual_catalog import VirtualCatalog

_log: Final = logging.getLogger(__name__)

_THREADS: Final = 8
"""Requests that one catalog answers at a time; others wait for their turn."""

_SHOWN: Final = 300
_READS: Final = ("GET", "HEAD")
_CATALOG: Final = "/v1/"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class Application:
    """The ASGI application, with the pages of ``console`` outside of ``/v1/``. ``close`` gives its threads up.

    ``renew`` brings a published table up to date; it is needed for the setting ``freshness``.
    """

    def __init__(
        self, settings: ServeSettings, catalogs: Catalogs, console: Console | None = None, renew: Renew | None = None
    ) -> None:
        self._settings = settings
        self._console = console
        self._of_console = ThreadPoolExecutor(_THREADS, "serve-console")
        cache = FileCache(settings.cache_bytes)
        self._freshness = _freshness(settings, renew)
        self._served = {name: ServedCatalog(name, catalogs, cache, self._freshness) for name in settings.catalogs}
        self._served |= {
            name: VirtualCatalog(name, catalogs, cache, self._freshness) for name in settings.virtual_tables
        }
        self._threads = {name: ThreadPoolExecutor(_THREADS, f"serve-{name}") for name in settings.warehouses}
        routes = [Route("/v1/config", self._config, methods=["GET"])]
        routes += [
            Route(path.replace("-", "_"), self._endpoint(handler), methods=[method])
            for method, path, handler in handlers.ROUTES
        ]
        routes += [] if console is None else [Route("/{page:path}", self._page, methods=["GET"])]
        self._starlette = Starlette(routes=routes, exception_handlers={HTTPException: _refuse_unrouted})
        self._starlette.router.redirect_slashes = False

    def close(self) -> None:
        """Begin no more work; a look at a catalog that does not end is left behind."""
        for pool in (*self._threads.values(), self._of_console):
            pool.shutdown(wait=False, cancel_futures=True)
        if self._freshness is not None:
            self._freshness.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, and log it."""
        started, status = time.monotonic(), 0

        async def sending(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        # Names are matched as they were sent: an escaped slash is part of a name.
        path = scope["raw_path"].decode("ascii")
        headers = {name.decode("latin-1"): value for name, value in scope["headers"]}
        refusal = self._refusal(headers, path)
        if refusal is None:
            await self._starlette({**scope, "path": path}, receive, sending)
        else:
            await _response(answers.refusal_answer(refusal))(scope, receive, sending)
        seconds = time.monotonic() - started
        request = {"method": scope["method"], "path": path[:_SHOWN], "status": status, "ms": round(seconds * 1000, 1)}
        _log.info("%(method)s %(path)s: %(status)s in %(ms)s ms", request, extra={"request": request})

    def _refusal(self, headers: Mapping[str, bytes], path: str) -> Refusal | None:
        """Return why this caller gets no answer; None if it may ask."""
        host = headers.get("host", b"").decode("latin-1")
        if not endpoints.names_this(host, (self._settings.host, *self._settings.host_names)):
            text = "this Host is unknown; if clients reach the server by it, add it to drill.metastore.serve.host_names"
            return Refusal(HTTPStatus.FORBIDDEN, "ForbiddenException", text)
        if not endpoints.carries(headers.get("authorization", b""), self._settings.token):
            text = "the token is missing or wrong"
            asks = "Bearer" if self._console is None or path.startswith(_CATALOG) else endpoints.BROWSERS
            return Refusal(HTTPStatus.UNAUTHORIZED, "NotAuthorizedException", text, {"WWW-Authenticate": asks})
        return None

    async def _config(self, request: Request) -> Response:
        async def answer() -> RestAnswer:
            return handlers.config(self._settings, _to_asked(request))

        return _response(await _answer_or_refuse(answer))

    async def _page(self, request: Request) -> Response:
        path = request.scope["path"]
        if self._console is None or path.startswith(_CATALOG):
            return await _refuse_unrouted(request, HTTPException(HTTPStatus.NOT_FOUND))
        target = f"{path}?{request.url.query}"
        work = asyncio.get_running_loop().run_in_executor(self._of_console, self._console.answer, target)
        try:
            page = await asyncio.wait_for(work, self._settings.limits.request.total_seconds())
        except asyncio.TimeoutError:
            text = "the page was not made in time (drill.metastore.serve.limits.request)"
            late = Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException", text)
            return _response(answers.refusal_answer(late))
        return Response(page.body, page.status, page.headers)

    def _endpoint(self, handler: handlers.Handler) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            return _response(await _answer_or_refuse(lambda: self._answer(handler, request)))

        return endpoint

    async def _answer(self, handler: handlers.Handler, request: Request) -> RestAnswer:
        limits, name = self._settings.limits, name_of(request.path_params["prefix"])
        catalog = self._served.get(name)
        if catalog is None:
            raise handlers.unknown_catalog(self._settings)
        body = await _body(request, limits.body_bytes) if request.method == "POST" else b""
        asked = _to_asked(request, body)
        work = asyncio.get_running_loop().run_in_executor(self._threads[name], handler, catalog, asked, self._settings)
        return await asyncio.wait_for(work, limits.request.total_seconds())


def _freshness(settings: ServeSettings, renew: Renew | None) -> FolderLooks | None:
    if settings.freshness is None:
        return None
    if renew is None:
        raise InvalidRequestError("drill.metastore.serve.freshness needs a session that analyzes and publishes")
    return FolderLooks(renew, settings.freshness, settings.limits.renewal, lambda: time.time_ns() // 1_000_000)


async def _answer_or_refuse(answer: Callable[[], Awaitable[RestAnswer]]) -> RestAnswer:
    """Return the answer, or the refusal that an error stands for."""
    try:
        return await answer()
    except Refusal as refusal:
        return answers.refusal_answer(refusal)
    except asyncio.TimeoutError:
        text = "the catalog did not answer in time (drill.metastore.serve.limits.request)"
        return answers.refusal_answer(Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException", text))
    except MetastoreError as error:
        answered = answers.refusal_answer(answers.refusal_of(error))
        if answered.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            _log.warning("%s", error)
        return answered
    except ClientDisconnect:
        return RestAnswer(HTTPStatus.BAD_REQUEST)
    except Exception as error:  # noqa: BLE001 - a defect is one request's, and its traceback is in the log
        _log.exception("a request failed: %s", type(error).__name__)
        text = "the server failed; its log says why"
        return answers.refusal_answer(Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalServerError", text))


def _to_asked(request: Request, body: bytes = b"") -> CatalogRequest:
    return CatalogRequest(request.path_params, dict(request.query_params), dict(request.headers), body)


async def _body(request: Request, most: int) -> bytes:
    """Return the body. Raises Refusal as soon as it is larger than ``most`` bytes."""
    found = b""
    async for chunk in request.stream():
        found += chunk
        if len(found) > most:
            text = f"a body has at most {most} bytes"
            raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "BadRequestException", text)
    return found


async def _refuse_unrouted(request: Request, error: Exception) -> Response:
    """Refuse what has no route: a write by what it is, and a read by its path or method."""
    status = HTTPStatus(error.status_code) if isinstance(error, HTTPException) else HTTPStatus.NOT_FOUND
    if request.method not in _READS:
        return _response(
            answers.refusal_answer(Refusal(HTTPStatus.FORBIDDEN, "ForbiddenException", handlers.READ_ONLY))
        )
    text = "nothing is at this path; /v1/config lists what is served"
    return _response(answers.refusal_answer(Refusal(status, "NotFoundException", text)))


def _response(answer: RestAnswer) -> Response:
    headers = {"X-Content-Type-Options": "nosniff", **answer.headers}
    return Response(answer.body, answer.status, headers, media_type="application/json" if answer.body else None)
