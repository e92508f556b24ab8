"""Texts become values in DuckDB as they do in Spark, by a table of what Spark said of hundreds of them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

import duckdb
import numpy as np
import pytest
from sqlglot import exp
from support.spark_texts import known_answers

from metastore.duck.session import connection
from metastore.duck.spark_texts import define_what, text_as

ANSWERS: Final = known_answers()

_AS_SPARK_SHOWS: Final = {
    "DATE": "{} - DATE '1970-01-01'",
    "TIMESTAMP": "epoch_us({})",
    "TIMESTAMP_NTZ": "epoch_us({})",
}

_REFUSAL: Final = "run it in Spark: metastore.spark.connect(spark, conf)"


def values(engine: Any, texts: list[str], type_: str, *, safe: bool) -> list[str | None]:
    """What DuckDB makes of ``texts``, as Spark shows it; None where it is an error, too."""
    words = said("x", type_, safe=safe)
    query = f"SELECT ({words})::VARCHAR FROM (SELECT unnest($1::VARCHAR[]) AS x, unnest($2::INT[]) AS n) ORDER BY n"
    try:
        return [value for (value,) in engine.execute(query, [texts, list(range(len(texts)))]).fetchall()]
    except duckdb.Error:
        if len(texts) == 1:
            return [None]
        half = len(texts) // 2
        return [*values(engine, texts[:half], type_, safe=safe), *values(engine, texts[half:], type_, safe=safe)]


def said(text: str, type_: str, *, safe: bool) -> str:
    """The words for a cast of ``text``."""
    words = text_as(text, exp.DataType.build(type_, dialect="spark"), safe=safe)
    assert words is not None
    return _AS_SPARK_SHOWS.get(type_, "{}").format(words)


def error_of(engine: Any, text: str, type_: str, *, safe: bool) -> str:
    """What the cast of ``text`` says; empty where it is no error."""
    try:
        engine.execute(f"SELECT {said('$1::VARCHAR', type_, safe=safe)}", [text]).fetchone()
    except duckdb.Error as error:
        return str(error)
    return ""


def comparable(value: str | None, type_: str) -> Any:
    """A spelling of either engine as a value of the type."""
    if value is None:
        return None
    if type_ == "FLOAT":
        return str(np.float32(value))
    if type_ == "DOUBLE":
        return repr(float(value))
    return Decimal(value) if type_.startswith("DECIMAL") else value.lower()


@pytest.mark.parametrize(
    ("text", "type_", "expected"),
    [
        ("1.0029999999999999", "DECIMAL(10,4)", "1.0030"),
        ("1.0029999999999999", "DECIMAL(18,4)", "1.0030"),
        ("1.7976931348623158E308", "DOUBLE", "1.7976931348623157e308"),
        ("1.79769313486231581E308", "DOUBLE", "inf"),
        ("00123d", "DOUBLE", "123.0"),
        ("123f", "DOUBLE", "123.0"),
        ("\x01true\x01", "BOOLEAN", "true"),
        ("\u3000true", "BOOLEAN", None),
        ("\u30001.5", "DOUBLE", None),
        ("\n\nN", "BOOLEAN", "false"),
        ("123.5", "INT", None),
    ],
)
def test_values_of_public_reports(text: str, type_: str, expected: str | None) -> None:
    """Texts that other engines once read in another way than Spark, with what Spark says in the reports."""
    with connection(ZoneInfo("UTC")) as engine:
        define_what("spark_", engine)
        (value,) = values(engine, [text], type_, safe=True)
    assert comparable(value, type_) == comparable(expected, type_)


@pytest.mark.parametrize("key", sorted(ANSWERS))
def test_every_text_is_what_spark_says_or_is_refused(key: str) -> None:
    """With ``try_cast`` NULL where Spark has no value, with CAST an error, never another value."""
    type_, _, zone = key.partition(" in ")
    texts = list(ANSWERS[key])
    with connection(ZoneInfo(zone or "UTC")) as engine:
        define_what("spark_", engine)
        found = values(engine, texts, type_, safe=True)
        present = [(text, value) for text, value in zip(texts, found, strict=True) if value is not None]
        assert values(engine, [text for text, _ in present], type_, safe=False) == [value for _, value in present]
        for text, value in zip(texts, found, strict=True):
            expected = ANSWERS[key][text][0]
            if comparable(value, type_) != comparable(expected, type_):
                assert value is None, (text, value, expected)
                assert _REFUSAL in error_of(engine, text, type_, safe=True), (text, expected)
        without = [text for text in texts if ANSWERS[key][text][0] is None]
        for text in without[:8]:
            assert error_of(engine, text, type_, safe=False), text


def test_almost_no_text_is_refused() -> None:
    """Refused are names of zones, offsets with seconds, words for moments, and hexadecimal numbers."""
    refused = total = 0
    with connection(ZoneInfo("UTC")) as engine:
        define_what("spark_", engine)
        for key, answers in ANSWERS.items():
            type_, _, zone = key.partition(" in ")
            with_value = [text for text, (ansi, _) in answers.items() if ansi is not None and not zone]
            total += len(with_value)
            refused += values(engine, with_value, type_, safe=True).count(None)
    assert total > 700
    assert refused < total / 16
