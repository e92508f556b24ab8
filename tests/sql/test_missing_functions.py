"""Functions and operators of Spark, Trino and Drill that DuckDB lacks: the error names the way, which runs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import duckdb
import pytest

from metastore.config.settings import Settings
from metastore.duck.missing_functions import INSTEAD, TYPES
from metastore.errors import InvalidRequestError
from metastore.session import Session, connect

ROW: Final = (
    "SELECT TIMESTAMP '2024-03-05 06:07:08' AS t, DATE '2024-03-05' AS first, DATE '2024-04-05' AS last, "
    "'YWJj' AS text, '%Y' AS pattern, 7 AS x, 2 AS y, 2.5::DOUBLE AS d, 86400 AS seconds, 86400000 AS milliseconds, "
    "[1, 2] AS list, [2, 3] AS other, MAP {1: 2} AS map, '{\"a\": 1}' AS json, 'abc'::BLOB AS bytes"
)
OWN_ROWS: Final = {"2024-03-05": "strptime", "7.00": "DECIMAL"}
"""Texts that the way with this word can read."""
ERRORS: Final = {
    "datediff(DATE '2024-01-02', DATE '2024-01-01')": "datediff(…) has another form here: write date_diff('day', ",
    "div(5, 2)": "div(…) has another form here: write x // y",
    "'abc' RLIKE 'a.*'": "RLIKE has another form here: write regexp_matches(text, pattern)",
    "'abc' NOT REGEXP 'a.*'": "REGEXP has another form here: write regexp_matches(text, pattern)",
    "1 DIV 2": "DIV has another form here: write x // y",
    "TRUE XOR FALSE": "XOR has another form here: write x <> y of conditions",
    "'a' LIKE ANY ('a', 'b')": "LIKE has another form here: write one LIKE for each pattern",
    "exists([1, 2], x -> x > 1)": "EXISTS has another form here: write list_bool_or(",
    "1 <=> 1": "Other forms of it are written x IS NOT DISTINCT FROM y",
    "!TRUE": "there is no such function !; write NOT x",
    "date_sub(DATE '2024-01-01', 1)": "Other forms of it are written t - INTERVAL 1 DAY",
    "to_date('2024-01-01', 'yyyy-MM-dd')": "there is no such function to_date; write CAST(strptime(",
    "to_unixtime(1, 2)": "to_unixtime does not take these arguments; SHOW FUNCTIONS lists all",
    "sequence(1)": "sequence does not take these arguments; SHOW FUNCTIONS lists all",
    "filter([1, 2], x -> x > 1)": "a lambda is written lambda x: x + 1",
    "count(DISTINCT 1, 2)": "Other forms of it are written count(DISTINCT (x, y))",
    "10L": "numbers have no suffix here: write CAST(10 AS …)",
    "1.5D": "numbers have no suffix here: write CAST(1.5 AS …)",
    "int('1')": "a type is no function here: write CAST(… AS INT)",
    "timestamp('2024-01-01')": "a type is no function here: write CAST(… AS TIMESTAMP)",
    "CAST(1 AS NUMBER)": "there is no type NUMBER; write DECIMAL(38, 9)",
    "CAST(1 AS NOTHING)": "there is no type NOTHING",
    "CAST('a' AS char(3)) OOPS 1": 'syntax error at or near "1"',
}


@pytest.fixture(scope="module")
def ms(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A session without tables."""
    folder: Path = tmp_path_factory.mktemp("md")
    with connect(Settings.from_mapping({"drill.metastore.iceberg.location.base_path": str(folder)}, environ={})) as ms:
        yield ms


@pytest.mark.parametrize("text", ERRORS, ids=str)
def test_the_error_names_the_way(ms: Session, text: str) -> None:
    """With the place in the text."""
    with pytest.raises(InvalidRequestError) as raised:
        ms.sql(f"SELECT {text} AS result")
    assert str(raised.value).startswith("line 1, column ")
    assert ERRORS[text] in str(raised.value)
    assert ("has another form" in str(raised.value)) is ("has another form" in ERRORS[text])


def test_each_way_runs_in_duckdb() -> None:
    """The words of the ways are columns of a row."""
    with duckdb.connect() as engine:
        for name, way in INSTEAD.items():
            if way.startswith("the column") or name == "raise_error":
                continue
            text = next((own for own, word in OWN_ROWS.items() if word in way), None)
            row = ROW if text is None else ROW.replace("'YWJj'", f"'{text}'")
            row = row.replace("7 AS x", "TRUE AS x") if way == "NOT x" else row
            assert len(engine.execute(f"SELECT {way} FROM ({row})").fetchall()) == 1, name
        for type_ in TYPES.values():
            engine.execute(f"SELECT CAST(1 AS {type_})")
