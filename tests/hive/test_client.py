"""The client without a service: what it is told, and answers that are none."""

from __future__ import annotations

import getpass

import pytest

from metastore.errors import InvalidRequestError
from metastore.hive.client import HiveClient


@pytest.mark.parametrize("uri", ["", "http://h:1", "thrift://", "thrift://h:abc", "thrift://h:99999", "thrift://[::1"])
def test_what_is_no_uri(uri: str) -> None:
    """It is refused by name, whatever is wrong with it."""
    with pytest.raises(InvalidRequestError, match="thrift://host:port is expected"):
        HiveClient(uri)


def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run under numbers that nobody has entered: a client is made all the same."""

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert HiveClient("thrift://h").uri == "thrift://h"
