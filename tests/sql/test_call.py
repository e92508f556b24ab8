"""CALL: what can be written, how it meets the declared arguments, and what is said, and where, when it does not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metastore.errors import InvalidRequestError, MetastoreError, NotFoundError
from metastore.session import Session

CONSTANTS = {
    "text => 'it''s'": '["it\'s"]',
    "text => ''": "['']",
    "flag => true": "[True]",
    "small => -7": "[-7]",
    "small => +7": "[7]",
    "big => 9223372036854775807": "[9223372036854775807]",
    "big => -9223372036854775808": "[-9223372036854775808]",
    "real => 1": "[1.0]",
    "real => 1.25": "[1.25]",
    "real => -1.5E-3": "[-0.0015]",
    "exact => 12.30": "[Decimal('12.30')]",
    "wide => 123456789012345678901234567890123456.78": "[Decimal('123456789012345678901234567890123456.78')]",
    "wide => -123456789012345678901234567890123456.78": "[Decimal('-123456789012345678901234567890123456.78')]",
    "exact => DECIMAL '-1.5'": "[Decimal('-1.5')]",
    "day => DATE '2026-01-31'": "[datetime.date(2026, 1, 31)]",
    "day => '2026-01-31'": "[datetime.date(2026, 1, 31)]",
    "moment => TIMESTAMP '2026-01-01 00:00:00 UTC'": (
        "[datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)]"
    ),
    "moment => '2026-01-01 01:00 +01:00'": "[datetime.datetime(2026, 1, 1, 0, 0, tzinfo=datetime.timezone.utc)]",
    "numbers => ARRAY[]": "[[]]",
    "numbers => array [1, -2]": "[[1, -2]]",
    "options => MAP()": "[{}]",
    "options => MAP(ARRAY['a', 'b'], ARRAY[ARRAY['x'], ARRAY[]])": "[{'a': ['x'], 'b': []}]",
    "text => NULL, small => 1": "[1]",
    "TEXT => 'x', Small => 1": "['x', 1]",
    "\"text\" => 'x', `small` => 1": "['x', 1]",
    "small => 1 /* one */ -- the end": "[1]",
    "": "[]",
}


@pytest.mark.parametrize(("arguments", "got"), CONSTANTS.items())
def test_constants(bare: Session, arguments: str, got: str) -> None:
    """Constants of every type, by name, in any case and order."""
    assert bare.sql(f"CALL lake.system.all({arguments}\n)")["given"].to_pylist() == [got]


@pytest.mark.parametrize(
    "text",
    [
        "CALL lake.system.two('a', 1)",
        "call LAKE.System.TWO('a', 1);",
        'CALL "lake"."system"."two"(\'a\', 1)',
        "CALL lake . system . two ( 'a' , 1 )",
        "CALL lake.system.two(second => 1, first => 'a')",
        "CALL lake.system.two(first => 'a', second => 1, \"Third\" => 'x') ;;",
        "CALL lake.system.two(first => 'a', second => 1, third => 'x')",
    ],
)
def test_names_in_any_case_and_quotes(bare: Session, text: str) -> None:
    """By position or by name; the default stands in for what is not given."""
    assert bare.sql(text)["given"].to_pylist() == ["('a', 1, 'x')"]


ERRORS: dict[str, tuple[str, str]] = {
    # How arguments meet the declared ones
    "mixed": ("CALL lake.system.two('a', second => 1)", "1:27 Named and positional arguments cannot be mixed"),
    "mixed, named first": (
        "CALL lake.system.two(first => 'a', 1)",
        "1:36 Named and positional arguments cannot be mixed",
    ),
    "twice": (
        "CALL lake.system.two(first => 'a',\n  FIRST => 'b', second => 1)",
        "2:3 Duplicate procedure argument: FIRST",
    ),
    "unknown": (
        "CALL lake.system.two(fourth => 1)",
        "1:22 Unknown argument name: fourth; the procedure is system.two(",
    ),
    "unknown, exact": ("CALL lake.system.two(\"First\" => 'a')", "1:22 Unknown argument name: First; "),
    "too many": (
        "CALL lake.system.two('a', 1, 'x', 2, 3)",
        "1:35 Too many arguments for procedure: system.two(first varchar, second bigint, Third varchar)",
    ),
    "missing": ("CALL lake.system.two('a')", "1:6 Required procedure argument 'second' is missing"),
    "missing, named": ("CALL\n lake.system.two(second => 1)", "2:2 Required procedure argument 'first' is missing"),
    "null": ("CALL lake.system.two(NULL, 1)", "1:22 Procedure argument cannot be null: first"),
    "null for a default": (
        "CALL lake.system.two('a', 1, NULL)",
        "1:30 Procedure argument cannot be null: Third",
    ),
    "a cast": ("CALL lake.system.two(7, 1)", "1:22 argument 'first': Cannot cast type integer to varchar"),
    "a cast within": (
        "CALL lake.system.all(numbers => ARRAY[1, 'b'])",
        "1:22 argument 'numbers': Cannot cast type varchar to bigint",
    ),
    "out of range": (
        "CALL lake.system.all(small => 2147483648)",
        "1:22 argument 'small': 2147483648 is out of range for integer",
    ),
    # Names
    "no such procedure": (
        "CALL lake.system.rollback_to_snapshto('a')",
        "1:6 Procedure not registered: lake.system.rollback_to_snapshto; did you mean system.rollback_to_snapshot",
    ),
    "no such catalog": ("CALL lak.system.two()", "1:6 catalog lak does not exist; did you mean lake?"),
    "no such schema": ("CALL lake.sys.two()", "1:6 Procedure not registered: lake.sys.two"),
    "only a name": ("CALL two()", "1:6 'two' does not name a procedure: catalog.schema.name is expected"),
    "the only catalog": ("CALL system.two()", "1:6 Required procedure argument 'first' is missing"),
    "too many parts": ("CALL a.b.c.d()", "1:6 'a.b.c.d' does not name a procedure: "),
    # Constants
    "no date": ("CALL lake.system.all(day => DATE 'today')", "1:34 'today' is not a date such as '2026-01-31'"),
    "no decimal": ("CALL lake.system.all(exact => DECIMAL 'x')", "1:39 'x' is not a decimal number"),
    "too long": (f"CALL lake.system.all(big => {'9' * 39})", "1:29 a number has at most 38 digits"),
    "too long, with a point": (f"CALL lake.system.all(wide => -{'9' * 38}.1)", "1:31 a number has at most 38 digits"),
    "too large": ("CALL lake.system.all(real => 1e400)", "1:30 1e400 is out of range for double"),
    "too small": ("CALL lake.system.all(real => -1e400)", "1:31 -1e400 is out of range for double"),
    "null in an array": (
        "CALL lake.system.all(numbers => ARRAY[1, NULL])",
        "1:22 argument 'numbers': an element of an array cannot be NULL",
    ),
    "null in a map": (
        "CALL lake.system.all(options => MAP(ARRAY['a'], ARRAY[NULL]))",
        "1:22 argument 'options': a value of a map cannot be NULL",
    ),
    "too deep": (
        f"CALL lake.system.all(numbers => {'ARRAY[' * 20})",
        "1:135 a constant is nested deeper than 16 levels",
    ),
    "uneven map": (
        "CALL lake.system.all(options => MAP(ARRAY['a'], ARRAY[]))",
        "1:33 a map of 1 keys has 0 values",
    ),
    "a key twice": (
        "CALL lake.system.all(options => MAP(ARRAY['a', 'a'], ARRAY[1, 2]))",
        "1:33 a key of a map is given twice",
    ),
    "a key that is none": (
        "CALL lake.system.all(options => MAP(ARRAY[ARRAY[]], ARRAY[1]))",
        "1:33 a key of a map is a plain constant",
    ),
    "no constant": ("CALL lake.system.two(a, 1)", "1:22 a constant is expected, not a"),
    "an expression": ("CALL lake.system.two('a', 1 + 1)", "1:29 , or ) is expected, not +"),
    "a minus of a text": ("CALL lake.system.two('a', -'b')", "1:28 a number is expected, not 'b'"),
    # Syntax
    "no name": ("CALL", "1:5 the name of a procedure is expected, not the end"),
    "no parentheses": ("CALL lake.system.two", "1:21 ( is expected, not the end"),
    "not closed": ("CALL lake.system.two('a', 1", "1:28 , or ) is expected, not the end"),
    "a comma too many": ("CALL lake.system.two('a', 1,)", "1:29 a constant is expected, not )"),
    "something after": ("CALL lake.system.two('a', 1) AND", "1:30 the end of the statement is expected, not AND"),
    "an open quote": ("CALL lake.system.two('a", "1:24 the text ends within a quote or comment"),
    "two statements": (
        "CALL lake.system.two('a', 1); CALL x()",
        "1:29 one statement at a time is expected, not several",
    ),
    "nothing": ("  \n ", "1:1 a statement is expected"),
    "not a statement": ("HELLO world", "1:1 no statement begins with HELLO WORLD; did you mean "),
    "an exact first word": ('"CALL" lake.system.two()', '1:1 no statement begins with "CALL" LAKE; did you mean '),
    "explain": ("EXPLAIN CALL lake.system.two()", "1:14 Required procedure argument 'first' is missing"),
    "show": ("SHOW PROCEDURES FROM lak", "1:22 catalog lak does not exist; did you mean lake?"),
    "show what": ("SHOW PROCEDURES WHERE x", "1:17 the end of the statement is expected, not WHERE"),
    "describe": ("DESCRIBE PROCEDURE lake.system.tow", "1:20 Procedure not registered: lake.system.tow; did you mean "),
}


@pytest.mark.parametrize(("text", "said"), ERRORS.values(), ids=ERRORS)
def test_every_error_says_what_and_where(bare: Session, text: str, said: str) -> None:
    """The line and the column, both from 1, of what is wrong."""
    place, _, words = said.partition(" ")
    line, _, column = place.partition(":")
    with pytest.raises((InvalidRequestError, NotFoundError)) as raised:
        bare.sql(text)
    assert str(raised.value).startswith(f"line {line}, column {column}: {words}")


def test_the_same_rules_in_python(bare: Session) -> None:
    """Arguments of a Python call are matched and cast alike; there is no text to point into."""
    name = "lake.system.two"
    assert bare.call(name, "a", 1)["given"].to_pylist() == ["('a', 1, 'x')"]
    assert bare.procedures.call(name, FIRST="a", second=1)["given"].to_pylist() == ["('a', 1, 'x')"]
    for values, named, said in (
        (("a",), {"second": 1}, "Named and positional arguments cannot be mixed"),
        ((), {"first": "a", "First": "b"}, "Duplicate procedure argument: First"),
        ((), {"zeroth": 1}, "Unknown argument name: zeroth; the procedure is "),
        ((1, 2, 3, 4), {}, "Too many arguments for procedure: "),
        (("a",), {}, "Required procedure argument 'second' is missing"),
        (("a", "b"), {}, "argument 'second': Cannot cast type varchar to bigint"),
        (("a", None), {}, "Procedure argument cannot be null: second"),
    ):
        given: dict[str, Any] = named
        with pytest.raises(InvalidRequestError) as raised:
            bare.call(name, *values, **given)
        assert str(raised.value).startswith(said)


def test_show_and_describe(bare: Session) -> None:
    """What there is: of one catalog or of all; and of one procedure its arguments and the columns of its rows."""
    shown = bare.sql("SHOW PROCEDURES FROM LAKE").to_pylist()
    assert shown == [row for row in bare.sql("SHOW PROCEDURES").to_pylist() if row["catalog"] == "lake"]
    [two] = [row for row in shown if row["name"] == "two"]
    assert (two["schema"], two["kind"]) == ("system", "normal")
    assert two["arguments"] == "first varchar, second bigint, Third varchar"
    assert bare.sql("DESC PROCEDURE lake.system.two").to_pylist() == [
        {"part": "argument", "name": "first", "type": "VARCHAR", "required": True, "default": None},
        {"part": "argument", "name": "second", "type": "BIGINT", "required": True, "default": None},
        {"part": "argument", "name": "Third", "type": "VARCHAR", "required": False, "default": '"x"'},
        {"part": "result", "name": "given", "type": "string", "required": None, "default": None},
    ]


WORDS = st.sampled_from(
    [
        "CALL",
        "EXPLAIN",
        "SHOW",
        "PROCEDURES",
        "DESCRIBE",
        "PROCEDURE",
        "FROM",
        "lake",
        ".",
        "system",
        "all",
        "two",
        "(",
        ")",
        "[",
        "]",
        ",",
        "=>",
        "=",
        "-",
        "+",
        ";",
        "'",
        "''",
        '"',
        "`",
        "--",
        "/*",
        "*/",
        "ARRAY",
        "MAP",
        "DATE",
        "TIMESTAMP",
        "DECIMAL",
        "NULL",
        "TRUE",
        "first",
        "text",
        "numbers",
        "options",
        "'a'",
        "'2026-01-01",
        "UTC'",
        "1",
        "1.5",
        "1e400",
        "0x",
        "1e",
        "9e999999",
        ":x",
        "?",
        "$1",
        "@",
        "\\",
        "é",
        "日本",
        "\n",
        "\t",
        "{",
        "}",
        "%",
        "&",
        "|",
        "^",
        "~",
        "#",
        "!",
        "²",
        "٣",
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    st.one_of(
        st.text(max_size=60),
        st.lists(WORDS, max_size=25).map(" ".join),
        st.lists(WORDS, max_size=25).map("".join),
        st.lists(WORDS, max_size=20).map(lambda words: f"CALL lake.system.all({' '.join(words)})"),
        st.text(max_size=40).map(lambda text: f"CALL lake.system.all(text => {text})"),
    )
)
def test_any_text_is_run_or_refused(bare: Session, text: str) -> None:
    """Whatever is written, nothing but an error of ours comes out, and that of a wrong text has its place."""
    if text.lstrip().upper().startswith(("SELECT", "WITH", "ANALYZE", "CREATE", "DROP", "ALTER")):
        return
    try:
        bare.sql(text)
    except NotFoundError:
        return  # a name that nothing has
    except InvalidRequestError as error:
        assert str(error).startswith("line "), text  # noqa: PT017 - most texts are refused
    except MetastoreError as error:
        raise AssertionError(text) from error


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.text(max_size=30), st.integers(-(2**63), 2**63 - 1), st.lists(st.integers(-99, 99), max_size=4))
def test_what_is_written_arrives(bare: Session, text: str, big: int, numbers: list[int]) -> None:
    """Any text with its quotes doubled, any integer, any list."""
    listed = ", ".join(map(str, numbers))
    quoted = text.replace("'", "''")
    sql = f"CALL lake.system.all(text => '{quoted}', big => {big}, numbers => ARRAY[{listed}])"
    assert bare.sql(sql)["given"].to_pylist() == [repr([text, big, numbers])]
