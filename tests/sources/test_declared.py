"""Declared schemas: what is understood, and what is refused before a file is opened."""

from __future__ import annotations

import pyarrow as pa
import pytest

from metastore.analyze.declared_schema import declared_schema
from metastore.errors import InvalidRequestError
from metastore.lake.formats.arrow_schema import arrow_schema


@pytest.mark.parametrize("text", ["", "  ", "id", "id INT,", "id INTERVAL DAY", "id NONSENSE"])
def test_what_declares_no_columns_is_refused(text: str) -> None:
    """With our own error."""
    with pytest.raises(InvalidRequestError):
        declared_schema(text)


WRONG = ["ARRAY", "ARRAY<INT, INT>", "MAP<INT>", "MAP", "INT<INT>", "STRUCT<a INT, a DATE>"]
WRONG += ["DECIMAL(0, 0)", "DECIMAL(77, 2)", "DECIMAL(5, 7)", "DECIMAL(5, 2, 1)"]


@pytest.mark.parametrize("type_", WRONG)
@pytest.mark.parametrize("around", ["{}", "ARRAY<{}>", "STRUCT<x {}>", "MAP<VARCHAR, {}>"])
def test_a_type_that_nothing_can_be_of_is_refused(type_: str, around: str) -> None:
    """Before a file is opened, at any depth, in the words of the declaration."""
    with pytest.raises(InvalidRequestError, match="no type|more than once"):
        declared_schema(f"id {around.format(type_)}")


def test_a_column_is_declared_once() -> None:
    """Names that differ in case are two."""
    with pytest.raises(InvalidRequestError, match="names id more than once"):
        declared_schema("id INT, id VARCHAR")
    assert [column.name for column in declared_schema("id INT, ID INT").columns] == ["id", "ID"]


def test_decimals_are_spelled_as_those_of_files() -> None:
    """SQL's defaults filled in; more digits than Drill's 38 are read, since Parquet files hold them too."""
    declared = declared_schema("a DECIMAL, b DECIMAL(9), c ARRAY<DECIMAL>, d DECIMAL(50, 2)")
    assert [column.type for column in declared.columns] == [
        "DECIMAL(38, 0)",
        "DECIMAL(9, 0)",
        "ARRAY<DECIMAL(38, 0)>",
        "DECIMAL(50, 2)",
    ]
    assert arrow_schema(declared).field("d").type == pa.decimal256(50, 2)
