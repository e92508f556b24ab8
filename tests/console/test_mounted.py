"""The console in its two servers: who may ask, what else there is, and that nothing is written through it."""

from __future__ import annotations

import http.client
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from functools import partial
from http import HTTPStatus

import pytest
from support.served_lake import Lake, Reply

from metastore.config.daemon import EndpointSettings
from metastore.config.serve import ServeSettings
from metastore.console.pages import Console
from metastore.daemon.endpoint import Endpoint
from metastore.daemon.state import State
from metastore.serve.server import RestServer

POLICY = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"


Ask = Callable[..., Reply]
"""Asks for a path, by GET or a method; keyword arguments are headers."""


@pytest.fixture
def client(lake: Lake, console: Console) -> Iterator[Callable[..., Ask]]:
    """Starts a server and asks it; keyword arguments are fields of its settings."""
    with ExitStack() as opened:

        def start(*, with_console: bool = True, **settings: object) -> Ask:
            given = ServeSettings(port=0, catalogs=("lake",), **settings)  # type: ignore[arg-type] # fields' own types
            pages = console if with_console else None
            server = opened.enter_context(RestServer(given, lake.session.catalogs, pages))
            return partial(asked, server.url)

        yield start


def asked(url: str, path: str, method: str = "GET", **headers: str | bytes) -> Reply:
    """The answer of a server."""
    connection = http.client.HTTPConnection(url.partition("://")[2], timeout=30)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): each for name, each in headers.items()})
        answer = connection.getresponse()
        return Reply(answer.status, {name.lower(): each for name, each in answer.getheaders()}, answer.read())
    finally:
        connection.close()


@pytest.mark.parametrize("path", ["/", "/table?name=dfs.w.sales", "/nope", "/static/console.css", "/?format=json"])
def test_every_answer_has_the_headers(client: Callable[..., Ask], path: str) -> None:
    """A policy that loads from here alone, no guessed types, no referrer, no cache."""
    headers = client()(path).headers
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert (headers["referrer-policy"], headers["cache-control"]) == ("no-referrer", "no-store")


def test_the_catalog_stays_as_it_is(client: Callable[..., Ask]) -> None:
    """What is not there below /v1/ is an error of the catalog's protocol, not a page."""
    ask = client()
    assert ask("/v1/config").document["overrides"] == {"prefix": "lake"}
    for path in ("/v1/none", "/v1/", "/v1/lake/namespaces/none"):
        assert ask(path).error[0] == 404
    assert (ask("/", "HEAD").status, ask("/", "HEAD").body) == (200, b"")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS"])
def test_nothing_but_reading_is_answered(client: Callable[..., Ask], method: str) -> None:
    """403 for every other method, as the catalog says it."""
    assert client()("/table?name=dfs.w.sales", method).status == 403


def test_without_the_console_there_are_no_pages(client: Callable[..., Ask]) -> None:
    """As ``metastore serve --no-console`` has it."""
    assert client(with_console=False)("/").error == (404, "NotFoundException")


def test_another_host_is_refused(client: Callable[..., Ask]) -> None:
    """So that no web page reads the console by a name of its own that leads here."""
    assert client()("/", Host="evil.example").status == 403
    assert client(host_names=("lake.example",))("/", Host="lake.example").status == 200


def basic(password: str) -> dict[str, str]:
    """What a browser sends for a password."""
    return {"Authorization": f"Basic {b64encode(f'any:{password}'.encode()).decode()}"}


def test_a_browser_is_asked_for_the_token(client: Callable[..., Ask]) -> None:
    """As the password of any user; clients of the catalog are asked for a bearer token, as before."""
    ask = client(token="sesame:ä")
    refused = ask("/")
    assert (refused.status, refused.headers["www-authenticate"].split()[0]) == (401, "Basic")
    assert ask("/v1/config").headers["www-authenticate"] == "Bearer"
    assert ask("/", **basic("sesame:ä")).status == 200
    for wrong in (basic("sesame"), basic(""), {"Authorization": "Basic !"}, {"Authorization": "Basic"}):
        assert ask("/", **wrong).status == 401
    assert ask("/", Authorization="Bearer sesame:ä".encode()).status == 200


def test_a_page_that_takes_too_long_is_given_up(client: Callable[..., Ask]) -> None:
    """After the time of a request; the server goes on."""
    limits = ServeSettings().limits
    late = client(limits=type(limits)(request=timedelta(microseconds=1)))
    assert late("/").status == 503


def test_the_daemon_has_the_same_pages(lake: Lake) -> None:
    """At its endpoint, with its own state, beside metrics and health; the same headers, Host and token."""
    state = State(token=7, tables=3, seen=1000.0)
    own = Console(lambda: lake.session, lambda: {**HEALTH, "tables": 3})

    def pages(target: str) -> tuple[HTTPStatus, dict[str, str], bytes]:
        answer = own.answer(target)
        return answer.status, dict(answer.headers), answer.body

    with Endpoint(EndpointSettings(port=0), state, lambda: 1000.0, pages) as endpoint:
        answer = asked(endpoint.url, "/daemon?format=json")
        assert ["tables", "3"] in answer.document["state"]
        assert answer.headers["content-security-policy"] == POLICY
        assert asked(endpoint.url, "/healthz").status == 200
        assert asked(endpoint.url, "/", Host="evil.example").status == 421
    with Endpoint(EndpointSettings(port=0, token="sesame"), state, lambda: 1000.0, pages) as endpoint:
        assert asked(endpoint.url, "/").headers["www-authenticate"].startswith("Basic")
        assert asked(endpoint.url, "/healthz").headers["www-authenticate"] == "Bearer"
        assert asked(endpoint.url, "/", **basic("sesame")).status == 200


HEALTH: dict[str, object] = {
    **dict.fromkeys(("lease_holder", "working_on", "waiting_for", "seconds", "pass", "last_full_pass_ms", "listed_ms")),
    "status": "ok",
    "leader": True,
    "troubles": [],
}
