"""Spark's functions whose name or meaning differs in DuckDB: one translation for each function, or a refusal.

Each translation takes a call in Spark's dialect and returns DuckDB's SQL. Decisions that depend on the type of a value
are made by ``typeof`` while the query runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from sqlglot import exp

from metastore.duck.floats_as_doubles import combining_floats_as_doubles, null_if_equal
from metastore.duck.mixed_kinds import guard_division, of_one_kind
from metastore.duck.nested_values import choosing_plain
from metastore.duck.spark_casts import cast_as_spark
from metastore.duck.spark_formats import moment_of_text, text_of_moment
from metastore.duck.spark_functions import refusal
from metastore.duck.spark_named_functions import FRACTIONS, OCTETS, SPELLED_OTHERWISE, TIMES, by_name, unless
from metastore.duck.value_kinds import INSTANTS, TEXTS, kind_of
from metastore.duck.words import phrase

_GROUP: Final = re.compile(r"\\(.)|\$(\d)|\\$|\$", re.DOTALL)
_MONTH: Final = ("MONTH", "MON", "MM")
_UNITS: Final = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"),
    **dict.fromkeys(_MONTH, "MONTH"),
    "QUARTER": "QUARTER",
    "WEEK": "WEEK",
}
_DATE_PARTS: Final = frozenset({"DOW", "DAYOFWEEK", "SECOND", "SECONDS", "S", "SEC", "SECS"})
_DAYS_OF_WEEK_ISO: Final = frozenset({"DOW_ISO", "DAYOFWEEK_ISO"})


def _around(template: str) -> Callable[[Any], exp.Expr]:
    """Put ``template`` around the node (``:it``) or around the node's argument (``:of``)."""

    def around(node: exp.Expr) -> exp.Expr:
        return phrase(template, it=node.copy(), of=node.this.copy())

    return around


def _day(node: exp.TsOrDsToDate) -> exp.Expr:
    """Translates ``to_date(x)``: without a format it is a cast, with one it parses texts by it."""
    if node.args.get("format") is not None:
        return moment_of_text(node, "DATE")
    return cast_as_spark(exp.Cast(this=node.this.copy(), to=exp.DataType(this=exp.DType.DATE)))


def _substring(node: exp.Substring) -> exp.Expr:
    """Positions count from 1, and Spark treats 0 as 1.

    A negative length is empty in Spark, and counts backwards in DuckDB.
    """
    words = node.copy()
    if start := words.args.get("start"):
        words.set("start", _not(start, "= 0", "1"))
    if length := words.args.get("length"):
        words.set("length", _not(length, "< 0", "0"))
    return words


def _first_or_last(node: exp.Left | exp.Right) -> exp.Expr:
    words = node.copy()
    words.set("expression", _not(words.expression, "< 0", "0"))
    return words


def _not(number: exp.Expr, condition: str, instead: str) -> exp.Expr:
    """Returns ``number``, but ``instead`` if ``condition`` holds for it."""
    if isinstance(number, exp.Literal) and number.name.strip("0"):
        return number.copy()
    return phrase(f"CASE WHEN :it {condition} THEN {instead} ELSE :it END", it=number.copy())


def _regexp_replace(node: exp.RegexpReplace) -> exp.Expr:
    """In Spark's replacement, ``$1`` is a group and a backslash quotes; in DuckDB's, a backslash marks a group."""
    replacement = node.args.get("replacement")
    if not isinstance(replacement, exp.Literal) or not replacement.is_string:
        raise refusal("regexp_replace with a replacement that is no constant")
    text = replacement.name
    if any(match.group() in ("\\", "$") for match in _GROUP.finditer(text)):
        raise refusal(f"regexp_replace with the replacement {text!r}")
    words = node.copy()
    words.set("replacement", exp.Literal.string(_GROUP.sub(_group, text)))
    return words


def _group(match: re.Match[str]) -> str:
    if match.group(2) is not None:
        return f"\\{match.group(2)}"
    return "\\\\" if match.group(1) == "\\" else match.group(1)


def _extract(node: exp.Extract) -> exp.Expr:
    part = node.this.name.upper()
    if part in _DAYS_OF_WEEK_ISO:
        return phrase("isodow(:of)", of=node.expression.copy())
    if part in _DATE_PARTS:
        if part not in ("DOW", "DAYOFWEEK"):
            raise refusal(f"EXTRACT({part} FROM …)")
        return phrase("isodow(:of) % 7 + 1", of=node.expression.copy())
    return node


def _translate_trunc(node: exp.DateTrunc) -> exp.Expr:
    unit = _UNITS.get(node.text("unit").upper())
    if unit is None:
        raise refusal("trunc() by that unit")
    return phrase(f"CAST(date_trunc('{unit}', CAST(:of AS DATE)) AS DATE)", of=node.this.copy())


def _logarithm(node: exp.Ln | exp.Log) -> exp.Expr:
    """Translates a logarithm: NULL in Spark where it is undefined."""
    number, base = (node.this, None) if node.args.get("expression") is None else (node.expression, node.this)
    if base is None:
        return phrase("CASE WHEN :of > 0 THEN :it END", of=number.copy(), it=node.copy())
    return phrase("CASE WHEN :of > 0 AND :base > 0 THEN :it END", of=number.copy(), base=base.copy(), it=node.copy())


def _difference(node: exp.DateDiff | exp.TimestampDiff) -> exp.Expr:
    unit = node.args.get("unit")
    if unit is not None and (isinstance(node, exp.TimestampDiff) or unit.name.upper() != "DAY"):
        raise refusal(f"difference in whole {unit.name.lower()}s")
    return node


def _sha2(node: exp.SHA2) -> exp.Expr:
    length = node.args.get("length")
    if length is not None and length.name not in ("0", "256"):
        raise refusal("sha2() of other lengths than 256")
    return node


def _not_nan(node: exp.Nanvl) -> exp.Expr:
    return phrase(
        "CASE WHEN isnan(CAST(:a AS DOUBLE)) THEN CAST(:b AS DOUBLE) ELSE CAST(:a AS DOUBLE) END",
        a=node.this.copy(),
        b=node.expression.copy(),
    )


def _seconds(node: exp.StrToUnix) -> exp.Expr:
    """Translates seconds since 1970 of an instant; texts are refused, because engines differ in their formats."""
    if kind_of(node.this) not in INSTANTS | {exp.DType.DATE}:
        raise refusal("unix_timestamp() of a text, or of what may be one,")
    return phrase("CAST(floor(epoch_us(CAST(:a AS TIMESTAMPTZ)) / 1000000) AS BIGINT)", a=node.this.copy())


def _except_for(*types: str) -> Callable[[Any], exp.Expr]:
    def guard(node: exp.Func) -> exp.Expr:
        words = node.copy()
        value = words.this.expressions[0] if isinstance(words.this, exp.Distinct) else words.this
        value.replace(phrase(unless(*types, what=node.sql_name().lower()), a=value.copy()))
        return words

    return guard


def _translate_rounding(node: exp.Ceil | exp.Floor) -> exp.Expr:
    """Translates rounding: Spark turns NaN and infinity into whole numbers."""
    number = phrase(
        "CASE WHEN NOT isfinite(CAST(:of AS DOUBLE)) THEN error('NaN and infinity cannot be rounded to a "
        "whole number') ELSE :of END",
        of=node.this.copy(),
    )
    words = node.copy()
    words.set("this", number)
    return words


def _written_time(node: exp.TimeToStr) -> exp.Expr:
    given = node.this.this if isinstance(node.this, exp.TimeStrToTime) else node.this
    return text_of_moment(node, cast_as_spark(exp.Cast(this=given.copy(), to=exp.DataType(this=exp.DType.TIMESTAMP))))


def _written_seconds(node: exp.UnixToStr) -> exp.Expr:
    seconds = cast_as_spark(exp.Cast(this=node.this.copy(), to=exp.DataType(this=exp.DType.BIGINT)))
    return text_of_moment(node, phrase("to_timestamp(:it)", it=seconds))


def _months(node: exp.MonthsBetween) -> exp.Expr:
    """Whole months if both are the same day of a month, or its last day; else with parts of 31 days. See the macro."""
    timestamp = exp.DataType(this=exp.DType.TIMESTAMP)
    later, earlier = (
        phrase("CAST(:it AS TIMESTAMP)", it=cast_as_spark(exp.Cast(this=each.copy(), to=timestamp.copy())))
        for each in (node.this, node.expression)
    )
    template = "spark_months_between(:later, :earlier)"
    if (off := node.args.get("roundoff")) is None or off.this is not False:
        template = f"floor({template} * 1e8 + 0.5) / 1e8"
    return phrase(template, later=later, earlier=earlier)


def _sequence(node: exp.GenerateSeries) -> exp.Expr:
    """Translates a sequence of two whole numbers and all between; Spark counts down if the first is the larger one."""
    if node.args.get("step") is not None:
        raise refusal("sequence() with a step")
    return phrase(
        "CASE WHEN :first <= :last THEN generate_series(CAST(:first AS BIGINT), CAST(:last AS BIGINT)) "
        "ELSE generate_series(CAST(:first AS BIGINT), CAST(:last AS BIGINT), -1) END",
        first=node.args["start"].copy(),
        last=node.args["end"].copy(),
    )


def _translate_concat(node: exp.Concat) -> exp.Expr:
    """Translates a concatenation of texts, or of values that both engines format alike.

    A single value is refused, because it would keep its own type.
    """
    if len(node.expressions) < 2:
        raise refusal("concat() of one value")
    words = node.copy()
    template = unless(*SPELLED_OTHERWISE, what="concat")
    for value in words.expressions:
        if kind_of(value) not in TEXTS:
            value.replace(phrase(template, a=value.copy()))
    return words


def _translate_listagg(node: exp.GroupConcat) -> exp.Expr:
    """Translates ``listagg``; without a delimiter, nothing separates the texts."""
    words = node.copy()
    if words.args.get("separator") is None:
        words.set("separator", exp.Literal.string(""))
    value = words.this.this if isinstance(words.this, (exp.Order, exp.Distinct)) else words.this
    if isinstance(value, exp.Column):
        value.replace(phrase(unless(*SPELLED_OTHERWISE, what="listagg"), a=value.copy()))
    return words


def _position(node: exp.StrPosition) -> exp.Expr:
    start = node.args.get("position")
    if node.args.get("occurrence") is not None or not (start is None or _is_positive(start)):
        raise refusal("instr() or locate() with such a place to begin at")
    if start is None:
        return node
    if not isinstance(node.args["substr"], exp.Literal) or not node.args["substr"].name:
        raise refusal("locate() of what is no constant, from a place on")
    return phrase(
        "CASE WHEN length(:text) < :start THEN 0 ELSE :it END",
        text=node.this.copy(),
        start=start.copy(),
        it=node.copy(),
    )


def _whole_quotient(node: exp.IntDiv) -> exp.Expr:
    """Translates ``div`` of whole numbers."""
    words = guard_division(node).copy()
    words.this.replace(phrase(unless(*FRACTIONS, what="div"), a=words.this.copy()))
    return words


def _is_positive(number: exp.Expr) -> bool:
    return isinstance(number, exp.Literal) and number.name.isdecimal() and bool(number.name.strip("0"))


def _bits(node: exp.BitLength) -> exp.Expr:
    return phrase(f"8 * {OCTETS}", a=node.this.copy())


def _split(node: exp.RegexpSplit) -> exp.Expr:
    pattern, limit = node.expression, node.args.get("limit")
    if not isinstance(pattern, exp.Literal) or not pattern.name or limit is not None:
        raise refusal("split() with a limit, or by what is no constant")
    return node


def _in_json(node: exp.JSONExtractScalar) -> exp.Expr:
    if node.expression.find(exp.JSONPathWildcard) is not None or not isinstance(node.expression, exp.JSONPath):
        raise refusal("get_json_object() with such a path")
    return phrase("CASE WHEN json_valid(:of) THEN :it END", of=node.this.copy(), it=node.copy())


def _in_other_zone(_node: exp.Expr) -> exp.Expr:
    raise refusal("from_utc_timestamp() or to_utc_timestamp()")


def _random(node: exp.Rand) -> exp.Expr:
    if node.this is not None:
        raise refusal("rand() with a seed")
    return node


def _with_one_parameter(node: exp.Transform | exp.ArrayFilter) -> exp.Expr:
    """Translates functions whose second parameter is a position in a list: from 0 in Spark, from 1 in DuckDB."""
    if len(node.expression.expressions) != 1:
        raise refusal(f"{node.sql_name().lower()}() with the places of a list")
    return node


def _translate_array_sort(node: exp.ArraySort) -> exp.Expr:
    if node.args.get("expression") is not None:
        raise refusal("array_sort() by a function")
    return node


def _of_one_row(node: exp.ArgMax | exp.ArgMin) -> exp.Expr:
    if node.args.get("count") is not None:
        raise refusal("max_by() and min_by() of several rows")
    return node


def _in_query(node: exp.Exists) -> exp.Expr:
    if isinstance(node.expression, exp.Lambda):
        raise refusal("exists() of a list")
    return node


def _translate_reduce(node: exp.Reduce) -> exp.Expr:
    if node.args.get("finish") is not None:
        raise refusal("aggregate() with a last function")
    return node


def _call_by_name(node: exp.Anonymous) -> exp.Expr:
    if node.name.lower() in ("date_part", "datepart") and len(node.expressions) == 2:
        part, of = node.expressions
        return _extract(exp.Extract(this=exp.var(part.name), expression=of))
    return by_name(node)


FUNCTION_WORDS: Final[Mapping[type[exp.Expr], Callable[[Any], exp.Expr]]] = {
    exp.TsOrDsToDate: _day,
    exp.Coalesce: combining_floats_as_doubles(of_one_kind("coalesce()")),
    exp.Greatest: combining_floats_as_doubles(choosing_plain(of_one_kind("greatest()"))),
    exp.Least: combining_floats_as_doubles(choosing_plain(of_one_kind("least()"))),
    **dict.fromkeys((exp.Max, exp.Min), choosing_plain()),
    exp.Nullif: null_if_equal(of_one_kind("nullif()")),
    exp.If: combining_floats_as_doubles(of_one_kind("if()")),
    exp.Nvl2: combining_floats_as_doubles(of_one_kind("nvl2()")),
    exp.Substring: _substring,
    exp.Left: _first_or_last,
    exp.Right: _first_or_last,
    exp.RegexpReplace: _regexp_replace,
    exp.DayOfWeek: _around("isodow(:of) % 7 + 1"),
    exp.Extract: _extract,
    exp.DateTrunc: _translate_trunc,
    exp.TsOrDsAdd: _around("CAST(:it AS DATE)"),
    exp.AddMonths: _around("CAST(:it AS DATE)"),
    exp.Dayname: _around("left(:it, 3)"),
    exp.Monthname: _around("left(:it, 3)"),
    exp.IsNan: _around("coalesce(:it, FALSE)"),
    exp.Sign: _around("CASE WHEN isnan(:of) THEN :of ELSE :it END"),
    exp.Ln: _logarithm,
    exp.Log: _logarithm,
    exp.DateDiff: _difference,
    exp.TimestampDiff: _difference,
    exp.ArrayContains: _around(
        "CASE WHEN :it THEN TRUE WHEN len(:of) = list_count(:of) THEN :it END",
    ),
    exp.SHA2: _sha2,
    exp.Nanvl: _not_nan,
    exp.Negative: _around("-(:of)"),
    exp.StrToUnix: _seconds,
    exp.StrToTime: partial(moment_of_text, type_="TIMESTAMPTZ"),
    exp.TimeToStr: _written_time,
    exp.UnixToStr: _written_seconds,
    exp.MonthsBetween: _months,
    exp.GenerateSeries: _sequence,
    exp.Concat: _translate_concat,
    exp.GroupConcat: _translate_listagg,
    exp.StrPosition: _position,
    exp.IntDiv: _whole_quotient,
    exp.BitLength: _bits,
    exp.RegexpSplit: _split,
    exp.JSONExtractScalar: _in_json,
    exp.Rand: _random,
    **dict.fromkeys((exp.Transform, exp.ArrayFilter), _with_one_parameter),
    exp.ArraySort: _translate_array_sort,
    **dict.fromkeys((exp.ArgMax, exp.ArgMin), choosing_plain(_of_one_row)),
    exp.Reduce: _translate_reduce,
    exp.Exists: _in_query,
    **dict.fromkeys((exp.Ceil, exp.Floor), _translate_rounding),
    exp.Space: _except_for(*FRACTIONS),
    exp.Hex: _except_for(*FRACTIONS),
    **dict.fromkeys((exp.Avg, exp.Median), _except_for("VARCHAR", *TIMES)),
    **dict.fromkeys((exp.AtTimeZone, exp.FromTimeZone), _in_other_zone),
    exp.UnixSeconds: _around("CAST(floor(epoch_us(:of) / 1000000) AS BIGINT)"),
    exp.Anonymous: _call_by_name,
}
"""The translations, by sqlglot's class of the call."""
