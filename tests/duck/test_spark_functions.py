"""Spark's functions that DuckDB cannot say: each that the guide names is refused, by its name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from metastore.duck.spark_in_duckdb import in_duckdbs_words, missing_function
from metastore.errors import InvalidRequestError
from metastore.sql.views.text import parse_query

GUIDE: Final = Path(__file__).parents[2] / "docs" / "guide" / "spark-functions.md"

_CALLS: Final = {
    "bround": "bround(a, 1)",
    "timestampdiff": "timestampdiff(HOUR, a, b)",
    "format_string": "format_string('%d', a)",
    "printf": "printf('%d', a)",
}
"""Calls of functions that take more than two columns, or others."""

_OF_TWO: Final = frozenset({"levenshtein", "getbit", "to_char", "array_position", "array_except", "array_remove"}) | {
    "convert_timezone",
    "corr",
    "from_utc_timestamp",
    "regexp_count",
    "regexp_instr",
    "regr_slope",
    "to_utc_timestamp",
}


def refused_by_guide() -> list[str]:
    """The functions that the guide lists as refused."""
    _, _, refused = GUIDE.read_text(encoding="utf-8").partition("## Refused functions")
    return re.findall(r"`(\w+)`(?! with several)", refused)


@pytest.mark.parametrize("name", refused_by_guide())
def test_a_function_that_the_guide_calls_refused_is_refused(name: str) -> None:
    """Before the query runs, with what to do."""
    call = _CALLS.get(name, f"{name}(a, b)" if name in _OF_TWO else f"{name}(a)")
    with pytest.raises(InvalidRequestError, match=r"run it in Spark: metastore\.spark\.connect"):
        in_duckdbs_words(parse_query(f"SELECT {call} AS c FROM t"))


def test_a_function_that_duckdb_lacks_is_named() -> None:
    """Where DuckDB says so."""
    said = "Catalog Error: Scalar Function with name soundex does not exist!"
    assert "no soundex() with the same result as Spark's" in str(missing_function(said))
    assert missing_function("Conversion Error: no") is None
