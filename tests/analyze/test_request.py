"""Options of ANALYZE as keyword arguments and as one value."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from support.scan_lake import TABLE, Lake

from metastore.analyze.request import AnalyzeOptions, AnalyzeRequest
from metastore.model.vocabulary import MetadataType


def test_each_field_is_a_keyword_argument() -> None:
    """Type checkers and completion know each option of a request, with its type."""
    keywords = {name: kind.__forward_arg__ for name, kind in AnalyzeOptions.__annotations__.items()}
    assert keywords == {field.name: field.type for field in fields(AnalyzeRequest)}


def test_a_request_and_keywords(tmp_path: Path) -> None:
    """A keyword replaces the field of a request; what neither names has its default."""
    lake = Lake(tmp_path)
    lake.write("a.parquet", {"a": [1, 2], "b": [3, 4]})
    lake.session.analyze(TABLE, AnalyzeRequest(columns=["a"], level="FILE"), columns=["b"])
    units = lake.session.metastore.tables.read().metadata_types(MetadataType.ALL).execute()
    assert {unit.metadata_type for unit in units} == {"TABLE", "SEGMENT", "FILE"}
    [file] = [unit for unit in units if unit.metadata_type == "FILE"]
    assert list(file.columns_statistics or {}) == ["`b`"]


def test_an_unknown_keyword(tmp_path: Path) -> None:
    """Python's own error, with the word."""
    with pytest.raises(TypeError, match="colums"):
        Lake(tmp_path).session.analyze(TABLE, colums=["a"])  # type: ignore[call-arg]
