"""Asks a running daemon how it is, by its own configuration: address, port and token of its endpoint.

Place in the flow: a container runs ``metastore daemon --healthcheck``, and a person ``metastore daemon --status``. Both
read the configuration of the daemon, so that no token stands in a command line or an image.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.request import ProxyHandler, Request, build_opener

from metastore.config.daemon import EndpointSettings
from metastore.errors import ConfigError, StorageError

_SECONDS: Final = 4.0
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - answered to, not listened at
_KEY: Final = "drill.metastore.daemon.http"


def health_of_daemon(settings: EndpointSettings) -> Mapping[str, Any]:
    """Returns the document of ``/healthz``, also of a daemon that is stuck.

    Raises ConfigError if the daemon has no endpoint or refuses the token, StorageError if it does not answer.
    """
    if not settings.port:
        raise ConfigError(f"{_KEY}.port names no port: give the daemon one at which it can be asked")
    host = _EVERYWHERE.get(settings.host, settings.host)
    url = f"http://{f'[{host}]' if ':' in host else host}:{settings.port}/healthz"
    header = {} if settings.token is None else {"Authorization": f"Bearer {settings.token}"}
    try:
        with build_opener(ProxyHandler({})).open(Request(url, headers=header), timeout=_SECONDS) as answer:
            return _document(answer.read(), url)
    except HTTPError as error:
        with error:
            if error.code == 401:
                raise ConfigError(f"the daemon at {url} has another {_KEY}.token than this configuration") from error
            return _document(error.read(), url)
    except (URLError, OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        raise StorageError(f"no daemon answers at {url}: {reason}. Is it running, with this configuration?") from error


def require_health(health: Mapping[str, Any]) -> None:
    """Raise StorageError if the daemon should be restarted. Trouble that a restart would not help passes."""
    if health["status"] == "stuck":
        raise StorageError("the daemon is stuck: its loop has shown no life for three intervals. Restart it")


def lines_of(health: Mapping[str, Any], now_ms: int) -> Iterator[tuple[str, str]]:
    """Yields what a person wants to know, as pairs of a name and a text."""
    yield "status", health["status"]
    yield "active", "yes" if health["leader"] else f"no, but {health['lease_holder'] or 'nobody'}"
    for number, each in enumerate(health.get("at", ())):
        yield "" if number else "at", f"{each['what']}, for {_time(each['seconds'])}"
    if (current := health["pass"]) is not None:
        counts = ", ".join(f"{current[name]:,} {name}" for name in ("done", "failed", "deferred", "left"))
        yield "this pass", f"{counts} of {current['actions']:,} actions"
        left = current["seconds_left"]
        yield "", f"for {_time(current['seconds'])}" + ("" if left is None else f", about {_time(left)} more")
    for name, key in (("last full pass", "last_full_pass_ms"), ("tables listed", "listed_ms")):
        when = health[key]
        yield name, "never" if when is None else f"{_moment(when)}, {_time((now_ms - when) / 1000)} ago"
    yield "tables", f"{health['tables']:,}"
    for number, trouble in enumerate(health["troubles"]):
        yield "" if number else "troubles", trouble


def _document(content: bytes, url: str) -> Mapping[str, Any]:
    try:
        found = json.loads(content)
    except ValueError as error:
        raise StorageError(f"{url} does not answer as a daemon does. Which program has that port?") from error
    if not isinstance(found, dict) or "status" not in found:
        raise StorageError(f"{url} does not answer as a daemon does. Which program has that port?")
    return found


def _moment(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, tz=timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def _time(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
