"""What a question becomes: names resolved as Spark does, NOT at the leaves, unusable parts kept and said."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal

import pytest
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    EqualTo,
    GreaterThan,
    In,
    IsNull,
    LessThan,
    Not,
    NotEqualTo,
    NotNull,
    NotStartsWith,
    Or,
    StartsWith,
)

from metastore.errors import InvalidRequestError
from metastore.model.tuple_schema import TIME_ZONE, SchemaColumn, TupleSchema
from metastore.predicates.columns import Columns
from metastore.predicates.predicate import parse

COLUMNS = Columns(
    TupleSchema(
        (
            SchemaColumn("month", "INT"),
            SchemaColumn("s", "VARCHAR"),
            SchemaColumn("a.b", "INT"),
            SchemaColumn("a", "STRUCT<`b` INT, `C` STRUCT<`d` VARCHAR>>"),
            SchemaColumn("l", "ARRAY<STRUCT<`q` INT>>"),
            SchemaColumn("utc", "TIMESTAMP", properties={TIME_ZONE: "UTC"}),
            SchemaColumn("local", "TIMESTAMP"),
            SchemaColumn("größe", "BIGINT"),
            SchemaColumn("dec", "DECIMAL(9, 2)"),
            SchemaColumn("Twice", "INT"),
            SchemaColumn("twice", "INT"),
        )
    )
)


@pytest.mark.parametrize(
    ("question", "condition"),
    [
        ("MONTH = 6", EqualTo("`month`", 6)),
        ("6 > month", LessThan("`month`", 6)),
        ("NOT (month >= 6)", LessThan("`month`", 6)),
        ("month <=> 6", EqualTo("`month`", 6)),
        ("month <=> NULL", IsNull("`month`")),
        ("`a.b` = 1", EqualTo("`a.b`", 1)),
        ("a.b = 1", EqualTo("`a`.`b`", 1)),
        ("a.c.D = 'x'", EqualTo("`a`.`C`.`d`", "x")),
        ("GRÖSSE = 1 OR größe = 1", None),
        ("s LIKE 'x%'", StartsWith("`s`", "x")),
        ("s LIKE 'x_z'", StartsWith("`s`", "x")),
        ("s LIKE 'x!%' ESCAPE '!'", StartsWith("`s`", "x")),
        ("s NOT LIKE 'x!%' ESCAPE '#'", NotStartsWith("`s`", "x!")),
        ("s NOT LIKE 'x' ESCAPE '!'", NotEqualTo("`s`", "x")),
        ("NOT s NOT LIKE 'x' ESCAPE '!'", EqualTo("`s`", "x")),
        ("month IN (1, NULL)", EqualTo("`month`", 1)),
        ("month NOT IN (1, NULL)", AlwaysFalse()),
        ("month = NULL", AlwaysFalse()),
        ("NOT (month = NULL)", AlwaysFalse()),
        ("month = '6'", EqualTo("`month`", 6)),
        ("utc = '2020-01-01 00:00:00Z'", EqualTo("`utc`", datetime(2020, 1, 1, tzinfo=timezone.utc))),
        ("dec = CAST('1.50' AS DECIMAL(9, 1))", EqualTo("`dec`", Decimal("1.5"))),
        ("dec = CAST('-001' AS DECIMAL)", EqualTo("`dec`", Decimal(-1))),
        ("dec = 1.55BD", EqualTo("`dec`", Decimal("1.55"))),
        ("month = CAST(127 AS TINYINT)", EqualTo("`month`", 127)),
        ("local = '2020-01-01'", EqualTo("`local`", datetime(2020, 1, 1))),
    ],
)
def test_sql_becomes_a_condition(question: str, condition: object) -> None:
    """The condition names quoted paths and has no NOT; a name that no column has is an error."""
    if condition is None:
        with pytest.raises(InvalidRequestError, match="unknown column"):
            parse(question, COLUMNS)
    else:
        assert parse(question, COLUMNS).condition == condition


@pytest.mark.parametrize(
    "question",
    [
        "upper(s) = 'X'",
        "NOT (upper(s) = 'X')",
        "month / 2 = 6",
        "NOT (month % 2 = 0)",
        "coalesce(month, dec) = 1",
        "month IN (SELECT 1)",
        "l[0].q = 1",
        "twice = 1",
        "NOT (twice IS NULL)",
        "CASE WHEN month = 1 THEN TRUE END",
        # Spark folds these to TRUE or FALSE, for nulls, too.
        "month < 9223372036854775808",
        "NOT (month >= 9223372036854775808)",
        "-9223372036854775809.5 < größe",
    ],
)
def test_what_cannot_be_used_may_match(question: str) -> None:
    """Such a part excludes nothing, under NOT no more than without, and is named in a note."""
    predicate = parse(question, COLUMNS)
    assert predicate.condition == AlwaysTrue()
    assert predicate.notes[0].startswith("not usable for pruning: ")


@pytest.mark.parametrize(
    "question",
    [
        "month = `a.b`",
        "s = 6.5",
        # Without ANSI mode the least integer of a type is its own negation.
        "month > -CAST(-2147483648 AS INT)",
        "month > -(-9223372036854775808)",
        # The type of a list is common to all of it: text without ANSI mode, DOUBLE, a decimal of fewer digits.
        "month NOT IN (1.0, '5')",
        "local NOT IN ('2020-01-01')",
        "utc IN ('2020-01-01 00:00:00Z')",
        "größe IN (9007199254740993, 1e0)",
        "dec IN (123456789012345678901234567890123456, 0.001)",
        "s LIKE '%x'",
        "s NOT LIKE 'a%b'",
        r"s = 'a\\b'",
        "month = 'six'",
        "month LIKE '6'",
        "month NOT LIKE '-0'",
        "local NOT LIKE '2020-01-01'",
        "utc LIKE '2020%'",
        "s < DATE '2020-01-01'",
        "dec = CAST('1.55' AS DECIMAL(9, 1))",
        "dec = CAST('1.5' AS DECIMAL)",
        "dec = CAST('12345' AS DECIMAL(5, 1))",
        "dec = CAST('Infinity' AS DECIMAL)",
        "dec = CAST('sNaN' AS DECIMAL)",
        "dec = CAST('1_0' AS DECIMAL)",
        "dec = CAST('1e0' AS DECIMAL)",
        "dec = CAST('١' AS DECIMAL)",
        "month = CAST(300 AS TINYINT)",
        "month = CAST(-129 AS TINYINT)",
        "month = CAST(99999999999 AS INT)",
    ],
)
def test_an_unusable_comparison_still_passes_no_null(question: str) -> None:
    """Of a comparison that engines read differently, "not null" is left."""
    predicate = parse(question, COLUMNS)
    assert isinstance(predicate.condition, NotNull)
    assert len(predicate.notes) == 1


def test_an_unusable_part_does_not_spoil_the_others() -> None:
    """Beside AND the rest prunes on."""
    assert parse("upper(s) = 'X' AND month = 6", COLUMNS).condition == EqualTo("`month`", 6)


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("mnth = 3", "unknown column 'mnth' at position 1 .*did you mean month?"),
        ("s = 'x' AND upper(Mont) = 'X'", "'Mont' at position 19 .*month"),
        ("a.x = 1", r"'a\.x' .*a\.b"),
        ("TWICE = 1", "may be any of Twice, twice"),
        ("month = ", "syntax error at line 1, column 7"),
        ("month = 3 4", "syntax error at line 1, column 11"),
        ("", "one predicate is expected"),
        ("month = 1; month = 2", "one predicate is expected"),
        ("s = 'open", "quote may be open"),
    ],
)
def test_mistakes_are_shown_where_they_are(question: str, message: str) -> None:
    """Syntax errors and unknown names give the position, and names near by."""
    with pytest.raises(InvalidRequestError, match=message):
        parse(question, COLUMNS)


def test_pyiceberg_expressions_are_understood() -> None:
    """References name a whole column before a path; NOT goes to the leaves; timestamps are UTC beside such columns."""
    conditions = [
        (EqualTo("a.b", 1), EqualTo("`a.b`", 1)),
        (EqualTo("A.C.d", "x"), EqualTo("`a`.`C`.`d`", "x")),
        (Not(GreaterThan("month", 5)), parse("month <= 5", COLUMNS).condition),
        (Not(Or(In("month", [1, 2]), IsNull("s"))), parse("month NOT IN (1, 2) AND s IS NOT NULL", COLUMNS).condition),
        (EqualTo("utc", datetime(2020, 1, 1)), EqualTo("`utc`", datetime(2020, 1, 1, tzinfo=timezone.utc))),
    ]
    for expression, condition in conditions:
        assert parse(expression, COLUMNS).condition == condition


def test_a_literal_without_zone_reaches_every_zone() -> None:
    """Beside a column in UTC, without a session zone, only what no zone lets pass is excluded; with one it is exact."""
    question = "utc < TIMESTAMP '2020-01-01 00:00:00'"
    assert parse(question, COLUMNS, "Europe/Berlin").condition == LessThan(
        "`utc`", datetime(2019, 12, 31, 23, tzinfo=timezone.utc)
    )
    assert parse(question, COLUMNS).condition == LessThan("`utc`", datetime(2020, 1, 1, 18, tzinfo=timezone.utc))


def test_a_clock_change_makes_local_time_doubtful() -> None:
    """On the night that Berlin's clocks go back, a local literal is a span and not a point."""
    condition = parse("utc = TIMESTAMP '2020-10-25 02:30:00'", COLUMNS, "Europe/Berlin").condition
    assert not isinstance(condition, EqualTo)


def test_an_unknown_time_zone_is_refused() -> None:
    """The error says what a zone looks like."""
    with pytest.raises(InvalidRequestError, match="Europe/Berlin"):
        parse("month = 1", COLUMNS, "Mars")


def test_long_disjunctions_are_no_problem() -> None:
    """Hundreds of alternatives neither recurse too deeply nor come out wrong."""
    assert isinstance(parse(" OR ".join(f"month = {i}" for i in range(300)), COLUMNS).condition, Or)
