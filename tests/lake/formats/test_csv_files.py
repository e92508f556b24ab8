"""Delimited text, with every option, against what Python's csv and Spark's rules make of it."""

from __future__ import annotations

import csv
import datetime as dt
import io
import math
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.opened_data import opened_data

from metastore.analyze.declared_schema import declared_schema
from metastore.errors import FormatError, InvalidRequestError
from metastore.lake.formats.text.text_options import TextOptions
from metastore.lake.formats.text.text_streams import PlainText, plain_pieces


def read(text: str | bytes, declared: str | None = None, **options: Any) -> pa.Table:
    """All columns of a file."""
    content = text.encode() if isinstance(text, str) else text
    schema = declared_schema(declared) if declared else None
    data = opened_data("CSV", lambda: io.BytesIO(content), schema, **options)
    found = list(data.batches(data.schema.names))
    return pa.Table.from_batches(found, None if found else data.schema)


def rows_without_columns(text: str, declared: str | None = None, **options: Any) -> int:
    """How many rows batches of no columns say there are."""
    schema = declared_schema(declared) if declared else None
    data = opened_data("CSV", lambda: io.BytesIO(text.encode()), schema, **options)
    return sum(batch.num_rows for batch in data.batches([]))


def spark_text(value: str) -> str:
    """A text as Spark writes it: in quotes where it needs them, quotes and backslashes before them escaped."""
    if not any(each in value for each in ',"\n\r') and value:
        return value
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


TEXT = st.text(st.sampled_from('ab,"\\\n;é'), max_size=6)


@given(rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5), size=st.sampled_from([1, 3, 7, 1000]))
def test_what_spark_writes_is_read_back(rows: list[tuple[str, str]], size: int) -> None:
    """Escapes within quotes are resolved wherever a piece of the file ends; those without quotes stay."""
    text = "a,b\n" + "".join(f"{spark_text(a)},{spark_text(b)}\n" for a, b in rows)

    class Slow(io.BytesIO):
        def read(self, count: int | None = -1) -> bytes:
            return super().read(size if count is None or count < 0 else min(count, size))

    data = opened_data("CSV", lambda: Slow(text.encode()), declared_schema("a VARCHAR, b VARCHAR"))
    found = pa.Table.from_batches(list(data.batches(data.schema.names)), data.schema).to_pylist()
    assert [(row["a"] or "", row["b"] or "") for row in found] == rows


@given(rows=st.lists(st.tuples(TEXT, TEXT), min_size=1, max_size=5))
def test_what_python_writes_is_read_back(rows: list[tuple[str, str]]) -> None:
    """RFC 4180 as Python's csv has it, whose backslashes are texts: ``escape`` is the quote itself."""
    sink = io.StringIO()
    csv.writer(sink, quoting=csv.QUOTE_ALL, lineterminator="\n").writerows([("a", "b"), *rows])
    found = read(sink.getvalue(), "a VARCHAR, b VARCHAR", escape='"').to_pylist()
    assert [(row["a"], row["b"]) for row in found] == rows


def test_numbers_are_those_of_spark() -> None:
    """Signs, integers beyond 64 bits, NaN and infinities keep a column a number."""
    found = read("i,d,x,y\n+5,18446744073709551616,NaN,1\n-7,+1,Infinity,1.5\n1,2,-Inf,9007199254740993\n")
    assert list(map(str, found.schema.types)) == ["int64", "decimal128(20, 0)", "double", "double"]
    assert found["i"].to_pylist() == [5, -7, 1]
    assert found["d"].to_pylist() == [Decimal(2**64), 1, 2]
    assert math.isnan(found["x"][0].as_py())
    assert found["x"].to_pylist()[1:] == [math.inf, -math.inf]


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("a;b\n1;2\n", {"delimiter": ";"}, [{"a": 1, "b": 2}]),
        ("a|b\n1|2\n", {"sep": "|"}, [{"a": 1, "b": 2}]),
        ("a\tb\n1\t2\n", {"fieldDelimiter": "\\t"}, [{"a": 1, "b": 2}]),
        ("a,b\n'x,y',2\n", {"quote": "'"}, [{"a": "x,y", "b": 2}]),
        ('a,b\n"x""y",2\n', {"quote": ""}, [{"a": '"x""y"', "b": 2}]),
        ('a,b\n"x^"y",2\n', {"escape": "^"}, [{"a": 'x"y', "b": 2}]),
        ("#no\na,b\n#1,2\n3,4\n", {"comment": "#"}, [{"a": 3, "b": 4}]),
        ('a,b\n"x\n#y",2\n', {"comment": "#"}, [{"a": "x\n#y", "b": 2}]),
        ("made today\nby me\na,b\n1,2\n", {"skip_lines": 2}, [{"a": 1, "b": 2}]),
        ("made today\na,b\n1,2\n", {"skipFirstLine": True}, [{"a": 1, "b": 2}]),
        ("a,b\nNA,2\n", {"nullValue": "NA"}, [{"a": None, "b": 2}]),
        ("d\n24.12.2020\n", {"dateFormat": "dd.MM.yyyy"}, [{"d": dt.date(2020, 12, 24)}]),
        (
            "t\n24/12/2020 10:11:12.5\n",
            {"timestampFormat": "dd/MM/yyyy HH:mm:ss.S"},
            [{"t": dt.datetime(2020, 12, 24, 10, 11, 12, 500_000)}],
        ),
        (
            "t\n2020-12-24T10:11\n",
            {"timestampFormat": "yyyy-MM-dd'T'HH:mm"},
            [{"t": dt.datetime(2020, 12, 24, 10, 11)}],
        ),
        ("1,x\n2,\n", {"header": "false"}, [{"columns": ["1", "x"]}, {"columns": ["2", ""]}]),
        ("a,b", {}, []),
        ("", {}, []),
        ("\n", {}, []),
        ("a,b\n1,2", {}, [{"a": 1, "b": 2}]),
        ("\ufeffa,b\n1,2\n", {}, [{"a": 1, "b": 2}]),
    ],
)
def test_options_of_spark_and_drill(text: str, options: dict[str, Any], expected: list[dict[str, Any]]) -> None:
    """Each option, under the names that Spark and Drill have for it."""
    assert read(text, **options).to_pylist() == expected


@pytest.mark.parametrize("encoding", ["UTF-16", "UTF-16LE", "ISO-8859-1", "windows-1252", "utf-8"])
def test_encodings_are_read(encoding: str) -> None:
    """Texts of other encodings; bytes that are not of the encoding are an error."""
    assert read("naïve\né\n".encode(encoding), encoding=encoding).to_pylist() == [{"naïve": "é"}]


def test_bytes_of_another_encoding_are_refused() -> None:
    """Half a character at the end of UTF-16."""
    with pytest.raises(FormatError, match="not text in UTF-16"):
        read("a\nb\n".encode("UTF-16") + b"x", encoding="UTF-16")


def test_headerless_files_have_the_declared_columns() -> None:
    """In their order; a file with fewer fields lacks the last ones, one with more has its others left out."""
    assert read("1,x\n", "a INT, b VARCHAR", header=False).to_pylist() == [{"a": 1, "b": "x"}]
    assert read("1\n", "a INT, b VARCHAR", header=False).to_pylist() == [{"a": 1}]
    assert read("1,x,y\n", "a INT, b VARCHAR", header=False).to_pylist() == [{"a": 1, "b": "x"}]


@pytest.mark.parametrize("declared", [None, "z INT"])
def test_rows_count_without_columns(declared: str | None) -> None:
    """A batch of no columns says how many rows it stands for, whatever is declared."""
    assert rows_without_columns("a,b\n1,2\n3,4\n", declared) == 2
    assert rows_without_columns("1,2\n3,4\n", None, header=False) == 2


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"delimeter": ";"}, "no option 'delimeter'"),
        ({"sep": ";", "delimiter": ";"}, "given twice"),
        ({"delimiter": ""}, "one character"),
        ({"delimiter": "||"}, "one character"),
        ({"header": "maybe"}, "true or false"),
        ({"skip_lines": "x"}, "number of lines"),
        ({"encoding": "klingon"}, "an encoding"),
        ({"dateFormat": "EEE"}, "'EEE', which is not supported"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], told: str) -> None:
    """By name, with what is expected."""
    with pytest.raises(InvalidRequestError, match=told):
        TextOptions.of(options)


def test_options_are_kept_as_json() -> None:
    """Those that are not the defaults, and they come back."""
    options = TextOptions.of({"sep": ";", "header": False, "nullValue": "NA"})
    assert TextOptions.from_json(options.to_json()) == options
    assert TextOptions().to_json() == ""
    assert TextOptions.from_json("") == TextOptions()


def test_text_without_escapes_passes_as_it_is() -> None:
    """Nothing is copied or changed where there is nothing to resolve."""
    text = b'a,b\n"x ""y""",2\n' * 10
    pieces = plain_pieces(io.BytesIO(text), ",", TextOptions())
    assert PlainText(pieces).read() == text
