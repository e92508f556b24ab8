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

CONNECT_S: Final = 60.0
"""How long is waited for a REST server's connection."""

ANSWER_S: Final = 300.0
"""How long is waited for each piece of an answer, and for Hive's connection: a commit may take its time."""


class RestCatalogThatEnds(RestCatalog):
    """PyIceberg's, with an end to each wait."""

    def _config_headers(self, session: Session) -> None:
        # The first thing that is done to a session, before it asks for a token.
        vars(session)["request"] = partial(session.request, timeout=(CONNECT_S, ANSWER_S))
        super()._config_headers(session)


class HiveCatalogThatEnds(HiveCatalog):
    """PyIceberg's, with an end to each wait."""

    def __init__(self, name: str, **properties: str) -> None:
        super().__init__(name, **properties)
        self._client._transport = _transport(self._client)  # noqa: SLF001 - PyIceberg has no other door
        vars(self._client)["_init_thrift_transport"] = partial(_transport, self._client)


def _transport(client: _HiveClient) -> Any:
    """The one that the client would make, over a socket with an end; Thrift's two kinds keep it under two names."""
    made = _HiveClient._init_thrift_transport(client)  # noqa: SLF001 - as above
    parts = vars(made)
    (parts.get("transport") or parts["_TBufferedTransport__trans"]).setTimeout(ANSWER_S * 1000)
    return made
