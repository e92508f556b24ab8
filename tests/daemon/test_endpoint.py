"""The endpoint: what it tells, to whom, and where it refuses to begin."""

from __future__ import annotations

import http.client
import json
import re
import socket
import struct
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from metastore.config import load_text
from metastore.config.daemon import EndpointSettings
from metastore.daemon.decide import LastRun
from metastore.daemon.endpoint import Endpoint, require_protection
from metastore.daemon.lease import LeaseView
from metastore.daemon.state import State
from metastore.daemon.unmatched_policies import UnmatchedLayer
from metastore.errors import ConfigError, InvalidRequestError, StorageError
from metastore.model.run_unit import RunUnit


@pytest.fixture
def now() -> SimpleNamespace:
    """The time of the endpoint."""
    return SimpleNamespace(seconds=1000.0)


@pytest.fixture
def state() -> State:
    """A daemon that holds the lease and has done one run."""
    state = State(token=7, tables=3, due=1, passes=2, seen=1000.0)
    state.count(RunUnit(action="expire_snapshots", status="done", milliseconds=2500, files_before=9, files_after=4))
    return state


@pytest.fixture
def open_endpoint(state: State, now: SimpleNamespace) -> Iterator[Endpoint]:
    """One on the loopback, without a token."""
    with Endpoint(EndpointSettings(port=0), state, lambda: now.seconds) as endpoint:
        yield endpoint


def get(endpoint: Endpoint, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    """Status and text of an answer."""
    connection = http.client.HTTPConnection(endpoint.url.removeprefix("http://"), timeout=10)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_metrics_are_prometheus_text(open_endpoint: Endpoint) -> None:
    """Counts by action and outcome, and how the daemon stands."""
    status, text = get(open_endpoint, "/metrics")
    assert status == 200
    for line in (
        "metastore_daemon_leader 1.0",
        "metastore_daemon_lease_token 7.0",
        "metastore_daemon_tables 3.0",
        "metastore_daemon_files_removed_total 5.0",
        'metastore_daemon_runs_total{action="expire_snapshots",status="done"} 1.0',
        'metastore_daemon_run_seconds_total{action="expire_snapshots"} 2.5',
    ):
        assert re.search(f"^{re.escape(line)}$", text, re.MULTILINE), line


def test_health_turns_bad_when_the_loop_stands_still(
    open_endpoint: Endpoint, state: State, now: SimpleNamespace
) -> None:
    """Not while it is at a table, however long, nor while another daemon works."""
    status, text = get(open_endpoint, "/healthz")
    assert (status, json.loads(text)["status"]) == (200, "ok")
    now.seconds += 200
    assert get(open_endpoint, "/healthz")[0] == 503
    state.working["expire_snapshots on lake.shop.orders"] = 100
    assert get(open_endpoint, "/healthz")[0] == 200
    state.working.clear()
    state.token, state.refused = None, "drill.metastore.x = secret"
    status, text = get(open_endpoint, "/healthz")
    assert (status, json.loads(text)["configuration_refused"]) == (200, True)
    assert "secret" not in text


def test_an_interval_that_was_read_again_counts(open_endpoint: Endpoint, state: State, now: SimpleNamespace) -> None:
    """The loop waits for the new one: a longer one makes it no stuck daemon, a shorter one does so sooner."""
    state.interval = timedelta(minutes=10)
    now.seconds += 1700
    assert get(open_endpoint, "/healthz")[0] == 200
    state.interval = timedelta(minutes=9)
    assert get(open_endpoint, "/healthz")[0] == 503


def test_there_is_nothing_else(open_endpoint: Endpoint) -> None:
    """Neither other paths, nor the files of the machine, nor other methods."""
    assert get(open_endpoint, "/")[0] == 404
    assert get(open_endpoint, "/../../etc/passwd")[0] == 404
    assert get(open_endpoint, "/metrics", method="POST")[0] == 501


@pytest.mark.parametrize(
    "said", ["", "Bearer", "Bearer sesam", "Bearer sesame!", "sesame", "Basic sesame", "Bearer sesamé"]
)
def test_with_a_token_nobody_else_sees_anything(state: State, said: str) -> None:
    """Neither without one nor with another; the answer is the same for every path."""
    with Endpoint(EndpointSettings(port=0, token="sesame"), state, lambda: 0) as endpoint:
        for path in ("/metrics", "/healthz", "/nothing"):
            status, text = get(endpoint, path, Authorization=said.encode().decode("latin-1"))
            assert (status, text) == (401, "a token is needed\n")
        assert get(endpoint, "/metrics", Authorization="Bearer sesame")[0] == 200


def test_a_token_may_have_any_letters(state: State) -> None:
    """They are sent as UTF-8."""
    with Endpoint(EndpointSettings(port=0, token="sésame"), state, lambda: 0) as endpoint:
        said = "Bearer sésame".encode().decode("latin-1")
        assert get(endpoint, "/metrics", Authorization=said)[0] == 200
        assert get(endpoint, "/metrics", Authorization="Bearer sésame")[0] == 401


ELSEWHERE = ["0.0.0.0", "::", "10.1.2.3", "metrics.example.com", "127.0.0.1.example.com"]  # noqa: S104 - refused


@pytest.mark.parametrize("host", ELSEWHERE)
def test_beyond_the_loopback_a_token_is_needed(host: str) -> None:
    """The daemon refuses to begin without one; with one the check lets it."""
    with pytest.raises(ConfigError, match=r"http\.token"):
        require_protection(EndpointSettings(host, 9464))
    require_protection(EndpointSettings(host, 9464, "sesame"))
    require_protection(EndpointSettings(host, None))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_on_the_loopback_none_is_needed(host: str) -> None:
    """Whoever is on the machine may see metrics."""
    require_protection(EndpointSettings(host, 9464))


def test_the_token_is_shown_nowhere() -> None:
    """Neither among the settings in effect nor in their repr."""
    settings = load_text('drill.metastore.daemon.http.token = "open sesame"')
    assert settings.daemon.endpoint.token == "open sesame"
    assert "open sesame" not in repr(settings)
    assert "open sesame" not in str([(each.key, each.value) for each in settings.explain()])


def test_a_port_that_is_taken_is_an_error(open_endpoint: Endpoint, state: State) -> None:
    """That names the address."""
    port = int(open_endpoint.url.rpartition(":")[2])
    with pytest.raises(StorageError, match=f"127.0.0.1:{port}"):
        Endpoint(EndpointSettings(port=port), state, lambda: 0)


def test_a_missing_library_names_its_extra(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """As pip takes it."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    with pytest.raises(InvalidRequestError, match=r"metastore\[daemon\]"):
        Endpoint(EndpointSettings(port=0), state, lambda: 0)


TROUBLES: dict[str, dict[str, Any]] = {
    "a pass that ended early": {"trouble": "this pass ended early: no space left on device"},
    "a history that cannot be written": {"unwritten": "the history cannot be written: no space left on device"},
    "a lease that cannot be had": {"lease": LeaseView(trouble="the lease cannot be requested: no space left")},
    "a catalog that does not answer": {"passed_over": {"catalog lake": "no answer"}},
    "a policy that matches nothing": {
        "unmatched": [UnmatchedLayer("lake.x", "policies.namespaces.lake.x", "site", "none")]
    },
    "a configuration that was refused": {"refused": "drill.metastore.x = secret"},
}


@pytest.mark.parametrize("what", TROUBLES)
def test_health_says_the_trouble_that_it_knows_of(open_endpoint: Endpoint, state: State, what: str) -> None:
    """It is no plain ok, and nothing that a restart would mend."""
    for name, value in TROUBLES[what].items():
        setattr(state, name, value)
    status, text = get(open_endpoint, "/healthz")
    document = json.loads(text)
    assert (status, document["status"], len(document["troubles"])) == (200, "trouble", 1)
    assert "secret" not in text
    assert re.search("^metastore_daemon_troubles 1.0$", get(open_endpoint, "/metrics")[1], re.MULTILINE)


def test_a_wait_for_a_catalog_is_told_and_is_not_stuck(
    open_endpoint: Endpoint, state: State, now: SimpleNamespace
) -> None:
    """It has a limit of its own; whose answer is waited for stands in both pages, and for how long."""
    state.waiting[1] = "catalog lake", now.seconds
    now.seconds += 200
    status, text = get(open_endpoint, "/healthz")
    document = json.loads(text)
    assert (status, document["status"]) == (200, "ok")
    assert (document["waiting_for"], document["seconds"]) == ("catalog lake", 200)
    metrics = get(open_endpoint, "/metrics")[1]
    assert re.search(r'^metastore_daemon_at_seconds{what="catalog lake"} 200.0$', metrics, re.MULTILINE)
    state.waiting.clear()
    assert get(open_endpoint, "/healthz")[0] == 503


def test_metrics_tell_refusals_lease_and_tables(open_endpoint: Endpoint, state: State) -> None:
    """Each by its name; tables by theirs, with failures in a row and the last success."""
    state.refused, state.refusals = "wrong", 3
    state.lease = LeaseView("there:1:ab", errors=2)
    state.passed_over = {"namespace lake.x": "403"}
    state.unmatched = [UnmatchedLayer("lake.y", "drill.metastore.policies.tables.lake.y", "site", "none")]
    state.last_runs = {
        ("lake.shop.orders", "expire_snapshots"): LastRun(9000, failures=2, succeeded_ms=5000),
        ("lake.shop.new", "expire_snapshots"): LastRun(9000, failures=1),
    }
    text = get(open_endpoint, "/metrics")[1]
    for line in (
        "configuration_refused 1.0",
        "configuration_refusals_total 3.0",
        'lease_holder{holder="there:1:ab"} 1.0',
        "lease_errors_total 2.0",
        'passed_over{place="namespace lake.x"} 1.0',
        'policy_unmatched{policy="drill.metastore.policies.tables.lake.y"} 1.0',
        'table_failures{action="expire_snapshots",table="lake.shop.orders"} 2.0',
        'table_last_success_timestamp_seconds{action="expire_snapshots",table="lake.shop.orders"} 5.0',
    ):
        assert re.search(f"^metastore_daemon_{re.escape(line)}$", text, re.MULTILINE), line
    assert 'last_success_timestamp_seconds{action="expire_snapshots",table="lake.shop.new"}' not in text


def test_the_guide_lists_every_metric(open_endpoint: Endpoint) -> None:
    """By its name, under the heading of metrics."""
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "daemon.md").read_text().partition("### Metrics")[2]
    served = set(re.findall(r"^# TYPE metastore_daemon_(\w+) ", get(open_endpoint, "/metrics")[1], re.MULTILINE))
    assert served - {"created"} <= set(re.findall(r"\w+", guide))


def test_idle_clients_cost_nothing(state: State, now: SimpleNamespace, capfd: pytest.CaptureFixture[str]) -> None:
    """Hundreds that connect and say nothing, or go away in mid-sentence, hold few threads, and none for long."""
    with Endpoint(EndpointSettings(port=0), state, lambda: now.seconds, seconds=0.5) as endpoint:
        port = int(endpoint.url.rpartition(":")[2])
        before, clients = threading.active_count(), []
        for number in range(300):
            clients.append(socket.create_connection(("127.0.0.1", port), timeout=10))
            if number % 3 == 0:
                clients[-1].sendall(b"GET /metr")
            if number % 3 == 1:
                clients[-1].setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                clients[-1].close()
        most = threading.active_count() - before
        for client in clients:
            if client.fileno() >= 0:
                with suppress(ConnectionError):
                    assert client.recv(1) == b""  # the endpoint has closed it
                client.close()
        assert get(endpoint, "/healthz")[0] == 200
    assert most <= 64
    assert capfd.readouterr().err == ""


def test_a_client_that_sends_slowly_is_cut_off(state: State, now: SimpleNamespace) -> None:
    """The time of a connection is bounded as a whole, so a byte now and then does not prolong it."""
    with Endpoint(EndpointSettings(port=0), state, lambda: now.seconds, seconds=0.5) as endpoint:
        client = socket.create_connection(("127.0.0.1", int(endpoint.url.rpartition(":")[2])), timeout=0.05)
        client.sendall(b"GET /healthz HTTP/1.1\r\nX-Slow: ")
        sent, answer = 0, None
        with suppress(ConnectionError):
            while answer is None and sent < 200:
                client.sendall(b"a")
                sent += 1
                with suppress(TimeoutError):
                    answer = client.recv(1)
        client.close()
    assert sent < 200


@pytest.mark.parametrize(
    ("host", "status"),
    [("localhost:9", 200), ("127.0.0.1", 200), ("[::1]:80", 200), ("evil.example", 421), ("metastore:9464", 421)],
)
def test_without_a_token_a_page_of_another_name_sees_nothing(open_endpoint: Endpoint, host: str, status: int) -> None:
    """A name that somebody lets resolve to this machine is no way in."""
    assert get(open_endpoint, "/healthz", Host=host)[0] == status
