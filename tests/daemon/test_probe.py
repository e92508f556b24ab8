"""Asking a running daemon: by its configuration, for a container and for a person."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from metastore.cli.app import app
from metastore.config.daemon import EndpointSettings
from metastore.daemon.endpoint import Endpoint
from metastore.daemon.probe import health_of_daemon, lines_of
from metastore.daemon.state import Pass, State
from metastore.errors import ConfigError, StorageError

TOKEN = "a-token-of-this-test-that-is-long-enough"


@pytest.fixture
def running() -> Iterator[tuple[State, int]]:
    """A daemon in the middle of a pass that reached a fifth of a thousand actions in a minute, behind a token."""
    state = State(token=3, tables=500, seen=60.0, listed_ms=0, last_full_pass_ms=0)
    state.current = Pass(began=0.0, began_ms=0, actions=1000, done=190, failed=10, deferred=50)
    with Endpoint(EndpointSettings("127.0.0.1", 0, TOKEN), state, lambda: 60.0) as endpoint:
        yield state, int(endpoint.url.rpartition(":")[2])


def ran(tmp_path: Path, port: int | None, token: str, *options: str) -> Any:
    """`metastore daemon` with a configuration of its own."""
    conf = tmp_path / "site.conf"
    http = f'{{ port = {port or "null"}, host = "0.0.0.0", token = {token} }}'
    conf.write_text(f'drill.metastore {{ iceberg.location.base_path = "{tmp_path}/m", daemon.http = {http} }}')
    return CliRunner().invoke(app, ["--conf", str(conf), "daemon", *options], env={"COLUMNS": "80"})


def test_a_container_asks_with_the_token_of_the_configuration(running: tuple[State, int], tmp_path: Path) -> None:
    """Exit code 0 for a daemon that is well or in trouble, 1 for one that is stuck, or not there, or another's."""
    state, port = running
    assert ran(tmp_path, port, TOKEN, "--healthcheck").exit_code == 0
    state.trouble = "a disk is full"
    assert ran(tmp_path, port, TOKEN, "--healthcheck").exit_code == 0
    state.seen = -1000.0
    stuck = ran(tmp_path, port, TOKEN, "--healthcheck")
    assert (stuck.exit_code, "is stuck" in stuck.output) == (1, True)
    refused = ran(tmp_path, port, "other-token-7", "--healthcheck")
    assert (refused.exit_code, "daemon.http.token" in refused.output) == (1, True)
    assert "no port" in ran(tmp_path, None, TOKEN, "--healthcheck").output


def test_nobody_answers(unused_port: Callable[[], int]) -> None:
    """It says where it asked."""
    with pytest.raises(StorageError, match="no daemon answers at http://127.0.0.1:"):
        health_of_daemon(EndpointSettings("127.0.0.1", unused_port()))
    with pytest.raises(ConfigError, match="port"):
        health_of_daemon(EndpointSettings())


@pytest.fixture
def unused_port() -> Callable[[], int]:
    """A port at which nobody listens."""

    def port() -> int:
        with Endpoint(EndpointSettings(port=0), State(), lambda: 0.0) as endpoint:
            return int(endpoint.url.rpartition(":")[2])

    return port


def test_a_person_sees_how_far_the_pass_is(running: tuple[State, int], tmp_path: Path) -> None:
    """On 80 columns: what is done, failed, deferred and left, for how long and how much longer, and the troubles."""
    state, port = running
    state.passed_over = {"catalog lake": "it does not answer, and this is a long story that takes more than a line"}
    shown = ran(tmp_path, port, TOKEN, "--status")
    assert shown.exit_code == 0
    assert max(map(len, shown.output.splitlines())) <= 80
    said = dict(lines_of(health_of_daemon(EndpointSettings("127.0.0.1", port, TOKEN)), 120_000))
    assert said["status"] == "trouble"
    assert said["this pass"] == "190 done, 10 failed, 50 deferred, 750 left of 1,000 actions"
    assert said[""] == "for 1 min 0 s, about 3 min 45 s more"
    assert said["last full pass"] == "1970-01-01 00:00:00, 2 min 0 s ago"
    assert said["troubles"].startswith("catalog lake is skipped")


def test_a_pass_that_lasts_too_long_is_trouble() -> None:
    """From 30 intervals on, and no longer when it has ended."""
    state = State(current=Pass(began=0.0, began_ms=0, actions=10, done=4))
    assert state.troubles_at(30 * 60.0) == []
    [trouble] = state.troubles_at(30 * 60.0 + 1)
    assert "6 of 10 are left" in trouble
    state.current = None
    assert state.troubles_at(1e9) == []
