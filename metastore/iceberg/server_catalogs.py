"""REST and Hive catalogs whose every request comes to an end: PyIceberg's own clients wait for an answer for ever.

A server that takes a connection and never answers, or that went away without a word, would keep its caller for good,
and a daemon from all its other catalogs. Here that is an error like any other of the catalog, which leaves open what
became of a request that was sent. Private names of PyIceberg are used for it; a test fails when one changes.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from pyiceberg.catalog.hive import HiveCatalog, _HiveClient
from pyiceberg.catalog.rest import RestCatalog
from requests import Session

from metastore.errors import ConfigError
from metastore.stores.hadoop_durations import seconds_of

REST_CONNECTION: Final = "rest.client.connection-timeout-ms"
REST_ANSWER: Final = "rest.client.socket-timeout-ms"
"""Iceberg's names of time limits of a REST catalog, in milliseconds: for a connection, for each piece of an answer."""

HIVE_ANSWER: Final = "hive.metastore.client.socket.timeout"
"""Hive's name of the time limit for its connection and each piece of an answer; in seconds where it has no unit."""

_CONNECTION_S: Final = 60.0
_ANSWER_S: Final = 300.0
"""A commit may take its time."""


class RestCatalogThatEnds(RestCatalog):
    """PyIceberg's, with an end to each wait. ConfigError for a time limit that is none."""

    def _config_headers(self, session: Session) -> None:
        # The first thing that is done to a session, before it asks for a token.
        limits = (
            _seconds(self.properties, REST_CONNECTION, "ms", _CONNECTION_S),
            _seconds(self.properties, REST_ANSWER, "ms", _ANSWER_S),
        )
        vars(session)["request"] = partial(session.request, timeout=limits)
        super()._config_headers(session)


class HiveCatalogThatEnds(HiveCatalog):
    """PyIceberg's, with an end to each wait. ConfigError for a time limit that is none."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        transport = partial(_transport, self._client, _seconds(properties, HIVE_ANSWER, "s", _ANSWER_S))
        self._client._transport = transport()  # noqa: SLF001 - PyIceberg has no other door
        vars(self._client)["_init_thrift_transport"] = transport


def _transport(client: _HiveClient, answer_s: float) -> Any:
    """The one that the client would make, over a socket with an end; Thrift's two kinds keep it under two names."""
    made = _HiveClient._init_thrift_transport(client)  # noqa: SLF001 - as above
    parts = vars(made)
    (parts.get("transport") or parts["_TBufferedTransport__trans"]).setTimeout(answer_s * 1000)
    return made


def _seconds(properties: dict[str, str], key: str, unit: str, default: float) -> float:
    """The time limit ``key`` in seconds; ``unit`` is that of a bare number. ConfigError for what is no time above 0."""
    text = properties.get(key)
    if text is None:
        return default
    found = seconds_of(f"{text}{unit}" if text.strip().isdigit() else text)
    if not found:
        raise ConfigError(f"catalog property {key} is {text!r}; a time above zero is expected, such as 60000 ms")
    return found
