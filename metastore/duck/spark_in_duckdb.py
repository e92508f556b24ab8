"""Spark's expressions for DuckDB: the same meaning in other words, or a refusal.

Place in the flow: whatever is asked in Spark's words and run by DuckDB passes here before it is printed: ``where`` of
scans, views in ``ms.sql``, queries of materialized views. sqlglot translates names and forms; here stands where the
same name means something else. What is known to differ and cannot be said otherwise is an InvalidRequestError; a
query is never answered with another engine's meaning where that is known.

DuckDB's types are not known here, so what depends on them is decided by ``typeof`` while the query runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.generators.duckdb import DuckDBGenerator

from metastore.duck.mixed_kinds import SYMBOLS, between, chosen, compared, computed, contained, of_one_kind, unified
from metastore.duck.spark_texts import text_as
from metastore.duck.value_kinds import INSTANTS, TEXTS, WHOLE, kind_of, mark_as
from metastore.duck.words import AS_DUCKDB, phrase
from metastore.errors import InvalidRequestError


class SparkInDuckDb(DuckDB):
    """DuckDB's dialect for trees of Spark's: casts that sqlglot puts around days and times follow Spark's grammar."""

    class Generator(DuckDBGenerator):
        """Prints such trees."""

        def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
            """A cast in DuckDB's words as it is; another one as Spark means it."""
            if expression.meta.get(AS_DUCKDB) or expression.to.this not in _DAYS_AND_TIMES:
                as_it_is: str = super().cast_sql(expression, safe_prefix=safe_prefix)
                return as_it_is
            as_spark: str = self.sql(cast_as_spark(expression))
            return as_spark


_Tree = TypeVar("_Tree", bound=exp.Expr)

_WHOLE_NUMBER: Final = r"^\s*([+-]?\d+)(\.\d*)?\s*$"
_GROUP: Final = re.compile(r"\\(.)|\$(\d)|\\$|\$", re.DOTALL)
_MISSING: Final = re.compile(r'Function with name "?(\w+)"? does not exist')
_OFFSET: Final = r"[+-]\d\d(:\d\d)*$"
_MONTH: Final = ("MONTH", "MON", "MM")
_UNITS: Final = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"),
    **dict.fromkeys(_MONTH, "MONTH"),
    "QUARTER": "QUARTER",
    "WEEK": "WEEK",
}
_DAYS_AND_TIMES: Final = INSTANTS | {exp.DType.DATE, exp.DType.TIMESTAMPNTZ}
_DATE_PARTS: Final = frozenset({"DOW", "DAYOFWEEK", "SECOND", "SECONDS", "S", "SEC", "SECS"})
_DAYS_OF_WEEK_ISO: Final = frozenset({"DOW_ISO", "DAYOFWEEK_ISO"})


def in_duckdbs_words(tree: _Tree) -> _Tree:
    """``tree``, of Spark's dialect, rewritten so that DuckDB's result is Spark's; ``tree`` itself does not change.

    Raises InvalidRequestError for what DuckDB is known to take for something else and has no words for.
    """
    said: Any = tree.copy()
    # From below, so that what is put around a part is not looked at again.
    for node in reversed(list(said.bfs())):
        say = _WORDS.get(type(node))
        words = node if say is None else say(node)
        if words is not node:
            mark_as(words, node)
            node.replace(words)
            said = words if node is said else said
    result: _Tree = said
    return result


def missing_function(said: str) -> InvalidRequestError | None:
    """The error for a function of Spark's that DuckDB said it lacks; None where it ``said`` something else."""
    found = _MISSING.search(said)
    return None if found is None else _refused(f"{found[1]}()")


def _refused(what: str) -> InvalidRequestError:
    return InvalidRequestError(f"DuckDB has no {what} that means what Spark's does; Spark can: connect with it")


def _refuse(what: str) -> Callable[[Any], exp.Expr]:
    def refuse(_node: exp.Expr) -> exp.Expr:
        raise _refused(what)

    return refuse


def _around(template: str) -> Callable[[Any], exp.Expr]:
    """Put ``template`` around the node, which is its ``:it``, or around what the node is of, its ``:of``."""

    def around(node: exp.Expr) -> exp.Expr:
        return phrase(template, it=node.copy(), of=node.this.copy())

    return around


def _like(node: exp.Like | exp.ILike) -> exp.Expr:
    """Spark's LIKE has the backslash for an escape character, DuckDB's has none unless it is named; and wants text."""
    words = node.copy()
    if isinstance(words.expression, (exp.Any, exp.All)):
        patterns = words.expression.this.unnest()
        each = [node.copy() for _ in patterns.expressions]
        for one, pattern in zip(each, patterns.expressions, strict=True):
            one.set("expression", pattern.copy())
        return exp.paren((exp.or_ if isinstance(words.expression, exp.Any) else exp.and_)(*map(_like, each)))
    if not words.this.is_type(exp.DType.TEXT) and not words.this.is_string:
        words.set("this", exp.Paren(this=_text_of(words.this)))
    if isinstance(node.parent, exp.Escape):
        return words
    return exp.Escape(this=words, expression=exp.Literal.string("\\"))


def _text_of(node: exp.Expr) -> exp.Expr:
    """CAST to STRING: DuckDB spells floats and bytes in another way, and moments with their offset."""
    return phrase(
        "CASE WHEN typeof(:it) IN ('DOUBLE', 'FLOAT', 'BLOB') "
        "THEN error('Spark spells a ' || typeof(:it) || ' as a text in another way than DuckDB; Spark can: "
        "connect with it') "
        f"WHEN typeof(:it) = 'TIMESTAMP WITH TIME ZONE' THEN regexp_replace(CAST(:it AS TEXT), '{_OFFSET}', '') "
        "ELSE CAST(:it AS TEXT) END",
        it=node,
    )


def _grouping(node: exp.Group) -> exp.Expr:
    """WITH CUBE and WITH ROLLUP are of all that is grouped by; DuckDB has them in brackets alone."""
    for part, kind in (("cube", exp.Cube), ("rollup", exp.Rollup)):
        if any(not each.expressions for each in node.args.get(part) or ()):
            return exp.Group(expressions=[kind(expressions=[each.copy() for each in node.expressions])])
    return node


def cast_as_spark(node: exp.Cast) -> exp.Expr:
    """A cast: of a text by Spark's grammar, of a number without DuckDB's rounding; an error is one, unless it is safe.

    Of a value whose kind is unknown DuckDB decides while the query runs, by its ``typeof``.
    """
    if node.meta.get(AS_DUCKDB):
        return node
    kind, safe = kind_of(node.this), bool(node.args.get("safe"))
    if node.to.this in TEXTS:
        return node.copy() if kind in TEXTS else _text_of(node.this.copy())
    of_text = text_as("CAST(:it AS TEXT)" if kind is None else ":it", _type_of(node.to), safe=safe)
    of_others = _cast_of_others(node, kind, "TRY_CAST" if safe else "CAST")
    if of_text is None or (kind is not None and kind not in TEXTS):
        return phrase(of_others, it=node.this.copy())
    if kind in TEXTS:
        return phrase(of_text, it=node.this.copy())
    return phrase(f"CASE WHEN typeof(:it) = 'VARCHAR' THEN {of_text} ELSE {of_others} END", it=node.this.copy())


def _type_of(to: exp.DataType) -> exp.DataType:
    """Spark's type as DuckDB has it: its DECIMAL has ten digits, none behind the point, its TIMESTAMP is an instant."""
    if to.this in INSTANTS:
        return exp.DataType(this=exp.DType.TIMESTAMPTZ)
    if to.this is exp.DType.DECIMAL and len(to.expressions) < 2:
        precision = to.expressions[0].name if to.expressions else "10"
        return exp.DataType.build(f"DECIMAL({precision}, 0)")
    return to


def _cast_of_others(node: exp.Cast, kind: exp.DType | None, cast: str) -> str:
    """A cast of anything but a text. Spark cuts fractions off where DuckDB rounds."""
    target = _type_of(node.to).sql(dialect="duckdb")
    plain = f"{cast}(:it AS {target})"
    if node.to.this not in WHOLE or kind in WHOLE | {exp.DType.BOOLEAN}:
        return plain
    return (
        f"CASE WHEN typeof(:it) IN ('DOUBLE', 'FLOAT') THEN {cast}(trunc(TRY_CAST(:it AS DOUBLE)) AS {target}) "
        f"WHEN typeof(:it) LIKE 'DECIMAL%' "
        f"THEN {cast}(regexp_extract(CAST(:it AS TEXT), '{_WHOLE_NUMBER}', 1) AS {target}) "
        f"ELSE {plain} END"
    )


def _day(node: exp.TsOrDsToDate) -> exp.Expr:
    """``to_date(x)``, a cast; with a format it reads texts by that."""
    if node.args.get("format") is not None:
        return node
    return cast_as_spark(exp.Cast(this=node.this.copy(), to=exp.DataType(this=exp.DType.DATE)))


def _substring(node: exp.Substring) -> exp.Expr:
    """Places count from 1, and 0 is 1 to Spark; a length below 0 is none to it, and counts backwards for DuckDB."""
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
    """``number``, but ``instead`` where ``condition`` holds of it."""
    if isinstance(number, exp.Literal) and number.name.strip("0"):
        return number.copy()
    return phrase(f"CASE WHEN :it {condition} THEN {instead} ELSE :it END", it=number.copy())


def _regexp_replace(node: exp.RegexpReplace) -> exp.Expr:
    """Spark's replacement names groups by ``$1`` and takes a backslash off; DuckDB's names them by a backslash."""
    replacement = node.args.get("replacement")
    if not isinstance(replacement, exp.Literal) or not replacement.is_string:
        raise _refused("regexp_replace with a replacement that is no constant")
    text = replacement.name
    if any(match.group() in ("\\", "$") for match in _GROUP.finditer(text)):
        raise _refused(f"regexp_replace with the replacement {text!r}")
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
            raise _refused(f"EXTRACT({part} FROM …)")
        return phrase("isodow(:of) % 7 + 1", of=node.expression.copy())
    return node


def _truncated(node: exp.DateTrunc) -> exp.Expr:
    unit = _UNITS.get(node.text("unit").upper())
    if unit is None:
        raise _refused("trunc() by that unit")
    return phrase(f"CAST(date_trunc('{unit}', CAST(:of AS DATE)) AS DATE)", of=node.this.copy())


def _logarithm(node: exp.Ln | exp.Log) -> exp.Expr:
    """NULL to Spark where there is none."""
    number, base = (node.this, None) if node.args.get("expression") is None else (node.expression, node.this)
    if base is None:
        return phrase("CASE WHEN :of > 0 THEN :it END", of=number.copy(), it=node.copy())
    return phrase("CASE WHEN :of > 0 AND :base > 0 THEN :it END", of=number.copy(), base=base.copy(), it=node.copy())


def _difference(node: exp.DateDiff | exp.TimestampDiff) -> exp.Expr:
    unit = node.args.get("unit")
    if unit is not None and (isinstance(node, exp.TimestampDiff) or unit.name.upper() != "DAY"):
        raise _refused(f"difference in whole {unit.name.lower()}s")
    return node


def _sha2(node: exp.SHA2) -> exp.Expr:
    length = node.args.get("length")
    if length is not None and length.name not in ("0", "256"):
        raise _refused("sha2() of other lengths than 256")
    return node


def _not_nan(node: exp.Nanvl) -> exp.Expr:
    return phrase(
        "CASE WHEN isnan(CAST(:a AS DOUBLE)) THEN CAST(:b AS DOUBLE) ELSE CAST(:a AS DOUBLE) END",
        a=node.this.copy(),
        b=node.expression.copy(),
    )


def _seconds(node: exp.StrToUnix) -> exp.Expr:
    """Seconds since 1970 of a moment; texts have a grammar of formats, in which engines differ."""
    if kind_of(node.this) not in INSTANTS | {exp.DType.DATE}:
        raise _refused("unix_timestamp() of a text, or of what may be one,")
    return phrase("CAST(floor(epoch_us(CAST(:a AS TIMESTAMPTZ)) / 1000000) AS BIGINT)", a=node.this.copy())


def _unknown(node: exp.Anonymous) -> exp.Expr:
    name, given = node.name.lower(), node.expressions
    if name == "date_part" and given:
        return _extract(exp.Extract(this=exp.var(given[0].name), expression=given[1]))
    if name in _OTHER_MEANINGS:
        raise _refused(f"{name}()")
    template = _FUNCTIONS.get((name, len(given)))
    if template is None:
        return node
    return phrase(template, **{place: each.copy() for place, each in zip("abc", given, strict=False)})


_FUNCTIONS: Final[Mapping[tuple[str, int], str]] = {
    ("weekday", 1): "isodow(:a) - 1",
    ("isnull", 1): "(:a IS NULL)",
    ("isnotnull", 1): "(:a IS NOT NULL)",
    # As Java's %: the sum of two remainders keeps the sign of the divisor only where the first one has another.
    ("pmod", 2): "CASE WHEN :a % :b < 0 THEN (:a % :b + :b) % :b ELSE :a % :b END",
    ("octet_length", 1): "octet_length(CASE WHEN typeof(:a) = 'BLOB' THEN CAST(:a AS BLOB) "
    "ELSE encode(CAST(:a AS TEXT)) END)",
    ("bit_length", 1): "8 * octet_length(CASE WHEN typeof(:a) = 'BLOB' THEN CAST(:a AS BLOB) "
    "ELSE encode(CAST(:a AS TEXT)) END)",
    ("try_to_date", 1): "CASE WHEN typeof(:a) = 'VARCHAR' THEN try_spark_date(CAST(:a AS TEXT)) "
    "ELSE TRY_CAST(:a AS DATE) END",
    ("positive", 1): ":a",
    ("unix_date", 1): "CAST(:a AS DATE) - DATE '1970-01-01'",
    ("unix_micros", 1): "epoch_us(:a)",
}
"""Functions that sqlglot does not know, by their name and number of arguments: what they are in DuckDB."""

_OTHER_MEANINGS: Final = frozenset({"hash", "printf", "url_encode", "to_char", "char", "getbit", "bround"})
"""Functions that both have, and that differ."""

_WORDS: Final[Mapping[type[exp.Expr], Callable[[Any], exp.Expr]]] = {
    exp.Like: _like,
    exp.ILike: _like,
    exp.Cast: cast_as_spark,
    exp.TryCast: cast_as_spark,
    exp.TsOrDsToDate: _day,
    **dict.fromkeys(SYMBOLS, compared),
    exp.In: contained,
    exp.Between: between,
    exp.Case: chosen,
    exp.Coalesce: of_one_kind("coalesce()"),
    exp.Greatest: of_one_kind("greatest()"),
    exp.Least: of_one_kind("least()"),
    exp.Nullif: of_one_kind("nullif()"),
    exp.If: of_one_kind("if()"),
    exp.Nvl2: of_one_kind("nvl2()"),
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.IntDiv, exp.Mod), computed),
    **dict.fromkeys((exp.Union, exp.Intersect, exp.Except), unified),
    exp.Substring: _substring,
    exp.Left: _first_or_last,
    exp.Right: _first_or_last,
    exp.RegexpReplace: _regexp_replace,
    exp.DayOfWeek: _around("isodow(:of) % 7 + 1"),
    exp.Extract: _extract,
    exp.DateTrunc: _truncated,
    exp.TsOrDsAdd: _around("CAST(:it AS DATE)"),
    exp.AddMonths: _around("CAST(:it AS DATE)"),
    exp.Dayname: _around("left(:it, 3)"),
    exp.Monthname: _around("left(:it, 3)"),
    exp.IsNan: _around("coalesce(:it, FALSE)"),
    exp.Sign: _around("CASE WHEN isnan(:of) THEN :of ELSE :it END"),
    exp.Group: _grouping,
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
    exp.UnixSeconds: _around("CAST(floor(epoch_us(:of) / 1000000) AS BIGINT)"),
    exp.Anonymous: _unknown,
    exp.Chr: _refuse("char()"),
    exp.ToChar: _refuse("to_char()"),
    exp.Getbit: _refuse("getbit()"),
    exp.ArrayPosition: _refuse("array_position()"),
    exp.ArrayDistinct: _refuse("array_distinct()"),
    exp.ArrayExcept: _refuse("array_except()"),
    exp.ArrayRemove: _refuse("array_remove()"),
    exp.Flatten: _refuse("flatten()"),
    exp.BitwiseCount: _refuse("bit_count()"),
    exp.Format: _refuse("format_string()"),
    exp.Levenshtein: _refuse("levenshtein()"),
    exp.Typeof: _refuse("typeof()"),
    exp.UnixMillis: _refuse("unix_millis()"),
}
