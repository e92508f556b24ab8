"""Partition values and names: what they mean, how they are escaped, and that the two ways agree."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.errors import FormatError, InvalidRequestError
from metastore.sources.directory_values import NULL_DIRECTORY
from metastore.sources.hive.partitions import folder_value, has_values, partition_name, typed_value
from metastore.sources.hive.types import parse


@pytest.mark.parametrize(
    ("text", "type_", "expected"),
    [
        (NULL_DIRECTORY, "int", None),
        (NULL_DIRECTORY, "string", None),
        ("007", "int", 7),
        ("-128", "tinyint", -128),
        ("true", "boolean", True),
        ("1.5", "double", 1.5),
        ("1e-3", "double", 0.001),
        ("-Infinity", "double", -math.inf),
        ("0.1", "float", 0.10000000149011612),
        ("1.1", "decimal(5,2)", Decimal("1.10")),
        ("1e2", "decimal(5,2)", Decimal("100.00")),
        ("12345678901234567890123456789.5", "decimal(38,2)", Decimal("12345678901234567890123456789.50")),
        ("2024-02-29", "date", date(2024, 2, 29)),
        ("2024-01-01 10:00:00.5", "timestamp", datetime(2024, 1, 1, 10, 0, 0, 500_000)),
        ("2024-01-01", "timestamp", datetime(2024, 1, 1)),
        (" x ", "string", " x "),
    ],
)
def test_what_a_value_means(text: str, type_: str, expected: Any) -> None:
    """By the type of its column."""
    found = typed_value(text, parse(type_))
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("", "int"),
        ("1.0", "int"),
        ("128", "tinyint"),
        ("yes", "boolean"),
        ("nan", "double"),
        ("1_0", "double"),
        ("１２", "double"),
        ("1e40", "float"),
        ("1.234", "decimal(5,2)"),
        ("1_0", "decimal(5,2)"),
        ("1000", "decimal(5,2)"),
        ("NaN", "decimal(5,2)"),
        ("2024-1-1", "date"),
        ("2024-W01-1", "date"),
        ("2024-02-30", "date"),
        ("2024-01-01 10:00:00.1234567", "timestamp"),
    ],
)
def test_what_means_nothing(text: str, type_: str) -> None:
    """Hive would say null, and Iceberg cannot keep a value that is none."""
    with pytest.raises(FormatError, match=type_.partition("(")[0]):
        typed_value(text, parse(type_))


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_a_folder_leads_back_to_its_value(value: str) -> None:
    """Whatever the value, its folder is one level, and is unescaped to it."""
    folder = partition_name({"k": value})
    assert "/" not in folder
    assert folder_value(folder) == ("k", value)


def test_folders_as_hive_calls_them() -> None:
    """Spaces and unicode stay; what a path or a shell would take for its own does not, but for a closing brace."""
    name = partition_name({"a": "x/y z=%:é", "b": "", "c": "{}"})
    assert name == "a=x%2Fy z%3D%25%3Aé/b=__HIVE_DEFAULT_PARTITION__/c=%7B}"


def test_choosing_partitions() -> None:
    """By some of the columns, whose names have no case."""
    values = {"p": "1", "q": "x"}
    assert has_values(values, {"P": "1"})
    assert not has_values(values, {"p": "1", "q": "y"})
    with pytest.raises(InvalidRequestError, match="the table has p, q"):
        has_values(values, {"r": "1"})
