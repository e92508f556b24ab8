"""The console for any HTTP server: an address to a page, as HTML or JSON.

:meth:`Console.answer` is the only door. It reads nothing of a request but its path and query, changes nothing, and
gives every answer the same headers. A page that fails is an error page with the error's own text, which has no secrets;
what is unforeseen is logged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from importlib.resources import files
from typing import Any, Final
from urllib.parse import unquote

from jinja2 import Environment, PackageLoader, StrictUndefined

from metastore.console import charts
from metastore.console.chart_facts import counts_as_bars, segments_as_bars, snapshots_as_nodes
from metastore.console.decisions import read_page
from metastore.console.iceberg import iceberg_page, inspection_page
from metastore.console.one_table import files_page, row_groups_page, table_page
from metastore.console.query import Query, link
from metastore.console.table_list import Listings, list_page
from metastore.console.upkeep import Health, daemon_page, health_page, policy_page, preview_page
from metastore.console.versions import difference_page, versions_page
from metastore.errors import InvalidRequestError, MetastoreError, NotFoundError, StorageError
from metastore.ground.distribution import VERSION
from metastore.ground.epoch import moment_of_millis
from metastore.overview import formats
from metastore.overview.document import document
from metastore.session import Session

_log: Final = logging.getLogger(__name__)

_HTML: Final = "text/html; charset=utf-8"
_JSON: Final = "application/json"
_ROUNDED: Final = 1 << 53
_STATIC: Final[Mapping[str, str]] = {
    "console.css": "text/css; charset=utf-8",
    "console.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}

Facts = Callable[[Session, Query], Any]
"""Returns the facts of one page. Raises MetastoreError."""


@dataclass(frozen=True)
class Answer:
    """One answer, with all of its headers but those of the connection."""

    status: HTTPStatus
    kind: str
    body: bytes

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers: nothing is loaded from elsewhere, guessed, framed or kept by a cache."""
        return {"Content-Type": self.kind, **_HEADERS}


class Console:
    """The pages of one deployment. Threads may share it.

    ``session`` returns the open session, ``health`` the document of the daemon's ``/healthz``.
    """

    def __init__(self, session: Callable[[], Session], health: Health) -> None:
        self._session = session
        self._pages: Mapping[str, tuple[str, Facts]] = {
            "/": ("tables.html", partial(list_page, listings=Listings())),
            "/table": ("table.html", table_page),
            "/files": ("files.html", files_page),
            "/row-groups": ("row_groups.html", row_groups_page),
            "/read": ("read.html", read_page),
            "/versions": ("versions.html", versions_page),
            "/difference": ("difference.html", difference_page),
            "/iceberg": ("iceberg.html", iceberg_page),
            "/inspect": ("inspect.html", inspection_page),
            "/daemon": ("daemon.html", partial(daemon_page, health=health)),
            "/health": ("health.html", health_page),
            "/policy": ("policy.html", policy_page),
            "/preview": ("preview.html", preview_page),
        }
        self._templates = Environment(
            loader=PackageLoader("metastore.console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        shown = {
            name: getattr(formats, name) for name in ("number", "size", "moment", "bound_text", "plural", "seconds")
        }
        self._templates.filters |= {**shown, "of_millis": moment_of_millis}
        self._templates.globals |= {"charts": charts, "link": link, "version": VERSION, "unknown": formats.UNKNOWN}
        self._templates.globals |= {
            each.__name__: each for each in (segments_as_bars, counts_as_bars, snapshots_as_nodes)
        }

    def answer(self, target: str) -> Answer:
        """Returns the page of a request's target, such as ``/table?name=dfs.shop.sales``. Raises nothing."""
        path, _, text = target.partition("?")
        as_json = False
        try:
            if path.startswith("/static/"):
                return _static(unquote(path).removeprefix("/static/"))
            query = Query.parse(text)
            as_json = query.text("format") == "json"
            template, facts = self._at(path)
            found = facts(self._session(), query)
            if as_json:
                return _document(HTTPStatus.OK, found)
            return self._page(HTTPStatus.OK, template, found, link(path, **query.given))
        except MetastoreError as error:
            return self._answer_error(_status_of(error), str(error), as_json=as_json)
        except Exception:  # noqa: BLE001 - a defect is one page's, and its traceback is in the log
            _log.exception("a page of the console failed")
            return self._answer_error(
                HTTPStatus.INTERNAL_SERVER_ERROR, "the page failed; the log says why", as_json=as_json
            )

    def _at(self, path: str) -> tuple[str, Facts]:
        """Returns template and facts of a path. Raises NotFoundError."""
        if path not in self._pages:
            raise NotFoundError(f"the console has no page {path[:200]}")
        return self._pages[path]

    def _page(self, status: HTTPStatus, template: str, page: Any, here: str) -> Answer:
        text = self._templates.get_template(template).render(page=page, here=here, status=status)
        return Answer(status, _HTML, text.encode("utf-8", "replace"))

    def _answer_error(self, status: HTTPStatus, text: str, *, as_json: bool) -> Answer:
        if as_json:
            return _document(status, {"error": text})
        return self._page(status, "error.html", text, "")


def _document(status: HTTPStatus, facts: Any) -> Answer:
    return Answer(status, _JSON, json.dumps(_exact(document(facts))).encode() + b"\n")


def _exact(value: Any) -> Any:
    """Returns a document with texts for whole numbers that browsers would round."""
    match value:
        case bool():
            return value
        case int() if abs(value) >= _ROUNDED:
            return str(value)
        case dict():
            return {name: _exact(each) for name, each in value.items()}
        case list():
            return [_exact(each) for each in value]
        case _:
            return value


def _static(name: str) -> Answer:
    """Returns a file of the package. Raises NotFoundError for any other name."""
    if name not in _STATIC:
        raise NotFoundError(f"the console has no file {name[:200]}")
    return Answer(
        HTTPStatus.OK, _STATIC[name], files("metastore.console").joinpath("static").joinpath(name).read_bytes()
    )


def _status_of(error: MetastoreError) -> HTTPStatus:
    match error:
        case NotFoundError():
            return HTTPStatus.NOT_FOUND
        case InvalidRequestError():
            return HTTPStatus.BAD_REQUEST
        case StorageError():
            return HTTPStatus.SERVICE_UNAVAILABLE
        case _:
            return HTTPStatus.INTERNAL_SERVER_ERROR
