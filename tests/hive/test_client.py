"""The client without a service: what it is told, and answers that are none."""

from __future__ import annotations

import pytest

from metastore.errors import InvalidRequestError
from metastore.hive.client import HiveClient


@pytest.mark.parametrize("uri", ["", "http://h:1", "thrift://", "thrift://h:abc", "thrift://h:99999", "thrift://[::1"])
def test_what_is_no_uri(uri: str) -> None:
    """It is refused by name, whatever is wrong with it."""
    with pytest.raises(InvalidRequestError, match="thrift://host:port is expected"):
        HiveClient(uri)
