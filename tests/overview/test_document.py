"""Results as JSON: valid for every value, and nothing of it lost."""

from __future__ import annotations

import json
import math
from base64 import b64decode
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.model.identity import TableInfo
from metastore.model.vocabulary import MetadataType
from metastore.overview.document import document

VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.dates(),
    st.times(),
    st.datetimes(),
)


def _back(found: Any, value: object) -> object:
    """What ``found`` says, in the type of ``value``."""
    match value:
        case bytes():
            return b64decode(found)
        case float():
            return float(found)
        case Decimal():
            return Decimal(found)
        case datetime():
            return datetime.fromisoformat(found)
        case date():
            return date.fromisoformat(found)
        case time():
            return time.fromisoformat(found)
    return found


@given(VALUES)
def test_every_value_of_a_column_comes_back_from_json(value: object) -> None:
    """Through text that strict JSON allows, also infinities and NaN."""
    found = _back(json.loads(json.dumps(document(value), allow_nan=False)), value)
    if isinstance(value, float) and math.isnan(value):
        assert isinstance(found, float)
        assert math.isnan(found)
    else:
        assert found == value


@dataclass(frozen=True)
class Inner:
    kind: MetadataType
    names: tuple[str, ...]


@dataclass(frozen=True)
class Outer:
    table: TableInfo
    inner: Inner
    counts: dict[MetadataType, int]


def test_a_result_is_an_object_of_its_fields() -> None:
    """Nested ones too; a table is its name, a kind of metadata its word."""
    result = Outer(TableInfo("dfs", "tmp", "t"), Inner(MetadataType.FILE, ("a", "b")), {MetadataType.TABLE: 1})
    assert document(result) == {
        "table": "dfs.tmp.t",
        "inner": {"kind": "FILE", "names": ["a", "b"]},
        "counts": {"TABLE": 1},
    }
    assert type(document(result)["inner"]["kind"]) is str


def test_a_value_nobody_thought_of_is_refused() -> None:
    """A document never holds the address of an object."""
    with pytest.raises(TypeError, match="object"):
        document(object())
