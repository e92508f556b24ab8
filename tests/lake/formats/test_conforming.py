"""Columns of files in the types of their tables: extension types of Arrow."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest

from metastore.errors import FormatError
from metastore.lake.formats.conforming import conform_array

IDS: Any = [UUID(int=1), None]


def test_a_uuid_is_one_as_stored_and_as_read() -> None:
    """Files hold sixteen bytes; Arrow reads them as such, or as its own type."""
    uuids: Any = pa.array([None if each is None else each.bytes for each in IDS], pa.binary(16))
    for held in (uuids, pa.ExtensionArray.from_storage(pa.uuid(), uuids)):
        assert conform_array(held, pa.uuid(), "u").to_pylist() == IDS
        assert conform_array(held, pa.binary(16), "u").equals(uuids)
    listed: Any = pa.array([[None if each is None else each.bytes for each in IDS]], pa.list_(pa.binary(16)))
    assert conform_array(listed, pa.list_(pa.uuid()), "l").to_pylist() == [IDS]
    with pytest.raises(FormatError, match="column u is int64 in it"):
        conform_array(pa.array([1]), pa.uuid(), "u")
