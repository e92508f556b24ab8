"""REST and Hive catalogs with a time limit for every request; PyIceberg's clients may wait forever.

A server that accepts a connection and never answers, or disappears, would block its caller forever, and a daemon from
all other catalogs. Here it is an error of the catalog like any other; the outcome of a request that was sent is
unknown. This uses private names of PyIceberg; a test fails when one changes.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from pyiceberg.catalog.hive import HiveCatalog, _HiveClient
from pyiceberg.catalog.rest import RestCatalog
from requests import Session

from metastore.errors import ConfigError
from metastore.lake.stores.hadoop_durations import seconds_of

REST_CONNECTION: Final = "rest.client.connection-timeout-ms"
REST_ANSWER: Final = "rest.client.socket-timeout-ms"
"""Iceberg's names of a REST catalog's time limits, in milliseconds: for connecting, for each part of an answer."""

HIVE_ANSWER: Final = "hive.metastore.client.socket.timeout"
"""Hive's time limit for connecting and for each part of an answer; in seconds if it has no unit."""

_CONNECTION_S: Final = 60.0
_ANSWER_S: Final = 300.0
"""Default limit in seconds for an answer: a commit may take long."""


class RestCatalogThatEnds(RestCatalog):
    """PyIceberg's catalog with time limits for all requests. Raises ConfigError for an invalid limit."""

    def _config_headers(self, session: Session) -> None:
        # This runs first for a session, before it requests a token.
        limits = (
            _seconds(self.properties, REST_CONNECTION, "ms", _CONNECTION_S),
            _seconds(self.properties, REST_ANSWER, "ms", _ANSWER_S),
        )
        vars(session)["request"] = partial(session.request, timeout=limits)
        super()._config_headers(session)


class HiveCatalogThatEnds(HiveCatalog):
    """PyIceberg's catalog with time limits for all requests. Raises ConfigError for an invalid limit."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        transport = partial(_transport, self._client, _seconds(properties, HIVE_ANSWER, "s", _ANSWER_S))
        self._client._transport = transport()  # noqa: SLF001 - PyIceberg has no public way
        vars(self._client)["_init_thrift_transport"] = transport


def _transport(client: _HiveClient, answer_s: float) -> Any:
    """Return the client's transport over a socket with a time limit; Thrift's two kinds name it differently."""
    made = _HiveClient._init_thrift_transport(client)  # noqa: SLF001 - as above
    parts = vars(made)
    (parts.get("transport") or parts["_TBufferedTransport__trans"]).setTimeout(answer_s * 1000)
    return made


def _seconds(properties: dict[str, str], key: str, unit: str, default: float) -> float:
    """Return the time limit ``key`` in seconds; ``unit`` applies to bare numbers. ConfigError unless above 0."""
    text = properties.get(key)
    if text is None:
        return default
    found = seconds_of(f"{text}{unit}" if text.strip().isdigit() else text)
    if not found:
        raise ConfigError(f"catalog property {key} is {text!r}; a time above zero is expected, such as 60000 ms")
    return found
