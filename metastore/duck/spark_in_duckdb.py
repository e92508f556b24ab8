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

from metastore.errors import InvalidRequestError

_Tree = TypeVar("_Tree", bound=exp.Expr)

_INTEGERS: Final = frozenset({exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT})
_WHOLE_NUMBER: Final = r"^\s*([+-]?\d+)(\.\d*)?\s*$"
_GROUP: Final = re.compile(r"\\(.)|\$(\d)|\\$|\$", re.DOTALL)
_OFFSET: Final = r"[+-]\d\d(:\d\d)*$"
_MONTH: Final = ("MONTH", "MON", "MM")
_UNITS: Final = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "YEAR"),
    **dict.fromkeys(_MONTH, "MONTH"),
    "QUARTER": "QUARTER",
    "WEEK": "WEEK",
}
_DATE_PARTS: Final = frozenset({"DOW", "DAYOFWEEK", "SECOND", "SECONDS", "S", "SEC", "SECS"})
_DAYS_OF_WEEK_ISO: Final = frozenset({"DOW_ISO", "DAYOFWEEK_ISO"})


def in_duckdbs_words(tree: _Tree) -> _Tree:
    """``tree``, of Spark's dialect, such that DuckDB makes of it what Spark does; itself stays as it is.

    Raises InvalidRequestError for what DuckDB is known to take for something else and has no words for.
    """
    said: Any = tree.copy()
    # From below, so that what is put around a part is not looked at again.
    for node in reversed(list(said.bfs())):
        say = _WORDS.get(type(node))
        words = node if say is None else say(node)
        if words is not node:
            node.replace(words)
            said = words if node is said else said
    result: _Tree = said
    return result


def _refused(what: str) -> InvalidRequestError:
    return InvalidRequestError(f"DuckDB has no {what} that means what Spark's does; Spark can: connect with it")


def _sql(template: str, **parts: exp.Expr) -> exp.Expr:
    """``template`` in DuckDB's words, with ``parts`` in the places of their names."""
    return exp.replace_placeholders(exp.maybe_parse(template, dialect="duckdb"), **parts)


def _refuse(what: str) -> Callable[[Any], exp.Expr]:
    def refuse(_node: exp.Expr) -> exp.Expr:
        raise _refused(what)

    return refuse


def _around(template: str) -> Callable[[Any], exp.Expr]:
    """Put ``template`` around the node, which is its ``:it``, or around what the node is of, its ``:of``."""

    def around(node: exp.Expr) -> exp.Expr:
        return _sql(template, it=node.copy(), of=node.this.copy())

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
    return _sql(
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


def _cast(node: exp.Cast) -> exp.Expr:
    """Spark cuts fractions off where DuckDB rounds, and its DECIMAL has ten digits, none of them behind the point."""
    if node.to.this in _INTEGERS:
        return _whole(node)
    if node.to.this is exp.DType.TEXT and not node.this.is_string:
        return _text_of(node.this.copy())
    if node.to.this is exp.DType.DECIMAL and len(node.to.expressions) < 2:
        precision = node.to.expressions[0].name if node.to.expressions else "10"
        words = node.copy()
        words.set("to", exp.DataType.build(f"DECIMAL({precision}, 0)"))
        return words
    return node


def _whole(node: exp.Cast) -> exp.Expr:
    target = node.to.sql(dialect="duckdb")
    # A number beyond the type is an error in Spark, and another number without ANSI mode; NULL is neither.
    cast = "TRY_CAST" if node.args.get("safe") else "CAST"
    if isinstance(node.this, exp.Literal) and not node.this.is_string and node.this.name.isdecimal():
        return _sql(f"{cast}(:it AS {target})", it=node.this.copy())
    return _sql(
        f"CASE WHEN typeof(:it) IN ('DOUBLE', 'FLOAT') THEN {cast}(trunc(TRY_CAST(:it AS DOUBLE)) AS {target}) "
        f"WHEN typeof(:it) LIKE 'DECIMAL%' "
        f"THEN {cast}(regexp_extract(CAST(:it AS TEXT), '{_WHOLE_NUMBER}', 1) AS {target}) "
        f"WHEN typeof(:it) = 'VARCHAR' "
        f"THEN TRY_CAST(regexp_extract(CAST(:it AS TEXT), '{_WHOLE_NUMBER}', 1) AS {target}) "
        f"ELSE {cast}(:it AS {target}) END",
        it=node.this.copy(),
    )


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
    return _sql(f"CASE WHEN :it {condition} THEN {instead} ELSE :it END", it=number.copy())


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
        return _sql("isodow(:of)", of=node.expression.copy())
    if part in _DATE_PARTS:
        if part not in ("DOW", "DAYOFWEEK"):
            raise _refused(f"EXTRACT({part} FROM …)")
        return _sql("isodow(:of) % 7 + 1", of=node.expression.copy())
    return node


def _truncated(node: exp.DateTrunc) -> exp.Expr:
    unit = _UNITS.get(node.text("unit").upper())
    if unit is None:
        raise _refused("trunc() by that unit")
    return _sql(f"CAST(date_trunc('{unit}', CAST(:of AS DATE)) AS DATE)", of=node.this.copy())


def _logarithm(node: exp.Ln | exp.Log) -> exp.Expr:
    """NULL to Spark where there is none."""
    number, base = (node.this, None) if node.args.get("expression") is None else (node.expression, node.this)
    if base is None:
        return _sql("CASE WHEN :of > 0 THEN :it END", of=number.copy(), it=node.copy())
    return _sql("CASE WHEN :of > 0 AND :base > 0 THEN :it END", of=number.copy(), base=base.copy(), it=node.copy())


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


def _unknown(node: exp.Anonymous) -> exp.Expr:
    name = node.name.lower()
    if name == "weekday" and len(node.expressions) == 1:
        return _sql("isodow(:of) - 1", of=node.expressions[0].copy())
    if name == "date_part" and node.expressions:
        part = node.expressions[0]
        return _extract(exp.Extract(this=exp.var(part.name), expression=node.expressions[1]))
    if name in _OTHER_MEANINGS:
        raise _refused(f"{name}()")
    return node


_OTHER_MEANINGS: Final = frozenset({"hash", "printf", "url_encode", "to_char", "char", "getbit"})
"""Functions that both have, and that differ."""

_WORDS: Final[Mapping[type[exp.Expr], Callable[[Any], exp.Expr]]] = {
    exp.Like: _like,
    exp.ILike: _like,
    exp.Cast: _cast,
    exp.TryCast: _cast,
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
    exp.Anonymous: _unknown,
    exp.ArrayPosition: _refuse("array_position()"),
    exp.ArrayDistinct: _refuse("array_distinct()"),
    exp.ArrayExcept: _refuse("array_except()"),
    exp.ArrayRemove: _refuse("array_remove()"),
    exp.Flatten: _refuse("flatten()"),
    exp.BitwiseCount: _refuse("bit_count()"),
    exp.Format: _refuse("format_string()"),
    exp.Levenshtein: _refuse("levenshtein()"),
    exp.Typeof: _refuse("typeof()"),
    exp.UnixSeconds: _refuse("unix_seconds()"),
    exp.UnixMillis: _refuse("unix_millis()"),
}
