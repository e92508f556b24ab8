r"""Converts texts to values as Spark does: macros of DuckDB, two for each type, with the grammar of Spark's casts.

Place in the flow: a connection that runs Spark's SQL has these macros; :mod:`metastore.duck.spark_in_duckdb` calls them
wherever a text becomes a value. ``spark_date(x)`` is CAST in ANSI mode: an error for a text that is not a date.
``try_spark_date(x)`` is ``try_cast``: NULL for such a text. The argument is a VARCHAR.

Both raise an error for a text whose value depends on the current time or on names of places (``now``, ``10:30``, ``…
Europe/Paris``), and for a hexadecimal number: Spark has a value for it that DuckDB cannot reproduce.
"""

from __future__ import annotations

from typing import Any, Final

from sqlglot import exp

_BLANK: Final = r"[\x00-\x20\x7f]*"
"""The characters that Spark trims at both ends of a text: blanks and control characters."""

_BLANK_OF_NUMBERS: Final = r"[\x00-\x20]*"
"""The characters that Java trims at the ends of a number with a point or an exponent."""

_DAY: Final = r"([+-]?)(\d{{4,{digits}}})(?:-(\d{{1,2}})(?:-(\d{{1,2}}){rest})?)?"
_CLOCK: Final = r"([01]?\d|2[0-3])(?::([0-5]?\d)(?::([0-5]?\d)(?:\.(\d*))?"

_DATE: Final = f"(?s)^{_BLANK}{_DAY.format(digits=7, rest='(?:[ T].*)?')}{_BLANK}$"
_LOCAL: Final = f"(?s)^{_BLANK}{_DAY.format(digits=6, rest=f'(?:[ T]{_CLOCK}(.*?))?)?)?')}{_BLANK}$"
_OFFSET: Final = r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::(\d{1,2})|(?:(\d\d)))?"
_NUMBER: Final = (
    rf"^{_BLANK_OF_NUMBERS}([+-]?)(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?{_BLANK_OF_NUMBERS}$"  # as Java's own parser
)
_DIGITS: Final = rf"^{_BLANK_OF_NUMBERS}([+-]?)(\d*)\.?(\d*)(?:[eE]([+-]?\d+))?{_BLANK_OF_NUMBERS}$"
_INFINITE: Final = rf"(?i){_BLANK_OF_NUMBERS}\+?inf(inity)?{_BLANK_OF_NUMBERS}"
_BELOW_ALL: Final = rf"(?i){_BLANK_OF_NUMBERS}-inf(inity)?{_BLANK_OF_NUMBERS}"
_NAN: Final = rf"{_BLANK_OF_NUMBERS}((?i:nan)|[+-]NaN){_BLANK_OF_NUMBERS}"

_MOMENT: Final = rf"(?is){_BLANK}(?:(?:epoch|now|today|tomorrow|yesterday)\b|[+-]?[1-9]\d"
_OF_MOMENT_OR_FAR: Final = {digits: f"{_MOMENT}{{{digits - 1}}}).*" for digits in (6, 7)}
"""Words that depend on the current time, and years long enough to reach the ends of DuckDB's calendar."""

_WITHOUT_DAY: Final = rf"(?s){_BLANK}(T\d|\d{{1,2}}:).*"
_HEXADECIMAL: Final = rf"(?i){_BLANK_OF_NUMBERS}[+-]?0x.*"

_INTEGERS: Final = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_FLOATS: Final = {"DOUBLE": "DOUBLE", "FLOAT": "FLOAT"}


def _function(name: str, arguments: str, body: str) -> str:
    return f"CREATE OR REPLACE MACRO {name}({arguments}) AS {body}"


def _refusing(name: str, pattern: str, why: str, body: str) -> str:
    """``try_spark_<name>``: ``body``, but an error for texts to which DuckDB cannot give Spark's value."""
    refusal = (
        f"error('Spark reads the text ''' || x || ''' as {why}, which DuckDB cannot; run it in Spark: "
        f"metastore.spark.connect(spark, conf)')"
    )
    return _function(
        f"try_spark_{name}", "x", f"CASE WHEN regexp_full_match(x, '{pattern}') THEN {refusal} ELSE {body} END"
    )


def _strict(name: str) -> str:
    """``spark_<name>``: an error where ``try_spark_<name>`` has no value."""
    refusal = f"error('the text ''' || x || ''' is no {name.upper()} as Spark reads it; try_cast returns NULL for it')"
    return _function(f"spark_{name}", "x", f"coalesce(try_spark_{name}(x), CASE WHEN x IS NOT NULL THEN {refusal} END)")


def _number(type_: str) -> str:
    parts = f"regexp_extract(x, '{_NUMBER}', ['sign', 'digits', 'exponent'])"
    return (
        f"CASE WHEN regexp_full_match(x, '{_INFINITE}') THEN '+Infinity'::{type_} "
        f"WHEN regexp_full_match(x, '{_BELOW_ALL}') THEN '-Infinity'::{type_} "
        f"WHEN regexp_full_match(x, '{_NAN}') THEN 'NaN'::{type_} "
        f"ELSE TRY_CAST({parts}.sign || {parts}.digits || {parts}.exponent AS {type_}) END"
    )


def _whole(digits: str, default: str) -> str:
    """Returns the number of ``digits``, or ``default`` if the text has none."""
    return f"coalesce(TRY_CAST({digits} AS INT), {default})"


def _once(value: str, name: str, body: str) -> str:
    """Returns ``body`` with ``name`` for ``value``, so that ``value`` is computed once.

    DuckDB expands a macro's argument as text, and would compute it at each use.
    """
    return f"list_transform([{value}], lambda {name}: {body})[1]"


def _canonical_or(pattern: str, type_: str, body: str) -> str:
    """Returns ``body``, but DuckDB's own, far faster cast for texts of the ``pattern``, which both read alike."""
    return f"CASE WHEN regexp_full_match(x, '{pattern}') THEN TRY_CAST(x AS {type_}) ELSE {body} END"


_MONTH_AND_DAY: Final = f"{_whole('p.month', '1')}, {_whole('p.day', '1')}"
_DAY_TEXT: Final = _function(
    "spark_day_text",
    "p",
    # Spark counts years through 0, which is the year 1 BC.
    "CASE WHEN p.sign = '-' OR TRY_CAST(p.year AS INT) = 0 "
    f"THEN printf('%04d-%02d-%02d (BC)', TRY_CAST(p.year AS INT) + 1, {_MONTH_AND_DAY}) "
    f"ELSE printf('%04d-%02d-%02d', TRY_CAST(p.year AS INT), {_MONTH_AND_DAY}) END",
)

_DATE_PARTS: Final = f"regexp_extract(x, '{_DATE}', ['sign', 'year', 'month', 'day'])"
_LOCAL_PARTS: Final = (
    f"regexp_extract(x, '{_LOCAL}', ['sign', 'year', 'month', 'day', 'hour', 'minute', 'second', 'fraction', 'zone'])"
)

_LOCAL_OF_PARTS: Final = _function(
    "spark_local_of_parts",
    "p",
    f"TRY_CAST(spark_day_text(p) || ' ' || printf('%02d:%02d:%02d', {_whole('p.hour', '0')}, "
    f"{_whole('p.minute', '0')}, {_whole('p.second', '0')}) || '.' || rpad(left(p.fraction, 6), 6, '0') AS TIMESTAMP)",
)

_DAY_BEFORE: Final = "(CAST(l AS TIMESTAMPTZ) - INTERVAL 24 HOURS)"
_BY_ITS_OFFSET: Final = f"timezone('UTC', l - (CAST({_DAY_BEFORE} AS TIMESTAMP) - timezone('UTC', {_DAY_BEFORE})))"
_INSTANT_OF_LOCAL: Final = _function(
    "spark_instant_of_local",
    "local",
    # If a local time occurs twice, Java takes the earlier and DuckDB the later: the previous day's offset decides.
    "CASE WHEN current_setting('TimeZone') = 'UTC' THEN timezone('UTC', local) ELSE "
    + _once(
        "local",
        "l",
        f"CASE WHEN CAST({_BY_ITS_OFFSET} AS TIMESTAMP) = l THEN {_BY_ITS_OFFSET} ELSE CAST(l AS TIMESTAMPTZ) END",
    )
    + " END",
)

_OFFSET_PARTS: Final = f"regexp_extract(zone, '^{_OFFSET}$', ['sign', 'hours', 'minutes', 'more'])"
_MINUTE: Final = "coalesce(TRY_CAST(o.minutes || o.more AS INT), 0)"
_MINUTES: Final = f"(CASE o.sign WHEN '-' THEN -1 ELSE 1 END) * (TRY_CAST(o.hours AS INT) * 60 + {_MINUTE})"
_UNKNOWN_ZONE: Final = (
    "error('Spark looks up the time zone ''' || zone || ''' of a text, which DuckDB cannot; "
    "run it in Spark: metastore.spark.connect(spark, conf)')"
)
_OFFSET_MINUTES: Final = _function(
    "spark_offset_minutes",
    "zone",
    f"CASE WHEN zone IN ('Z', 'UTC', 'GMT', 'UT') THEN 0 WHEN regexp_full_match(zone, '{_OFFSET}') THEN "
    + _once(
        _OFFSET_PARTS,
        "o",
        f"CASE WHEN {_MINUTE} < 60 AND abs({_MINUTES}) <= {18 * 60} THEN {_MINUTES} ELSE {_UNKNOWN_ZONE} END",
    )
    + f" ELSE {_UNKNOWN_ZONE} END",
)

_CANONICAL_DAY: Final = r"\d{4}-\d\d-\d\d"
_CANONICAL_TIME: Final = rf"{_CANONICAL_DAY}([ T]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{{1,6}})?)?"


def _local() -> str:
    """Reads a local time: a zone in the text must be valid, and is dropped."""
    checked = "CASE WHEN spark_offset_minutes(trim(p.zone)) IS NOT NULL THEN spark_local_of_parts(p) END"
    named = f"WHEN spark_local_of_parts(p) IS NOT NULL THEN {checked}"
    body = _once(_LOCAL_PARTS, "p", f"CASE WHEN trim(p.zone) = '' THEN spark_local_of_parts(p) {named} END")
    return _canonical_or(_CANONICAL_TIME, "TIMESTAMP", body)


def _instant() -> str:
    with_zone = (
        "CASE WHEN trim(p.zone) = '' THEN spark_instant_of_local(spark_local_of_parts(p)) "
        "WHEN spark_local_of_parts(p) IS NOT NULL "
        "THEN timezone('UTC', spark_local_of_parts(p) - to_minutes(spark_offset_minutes(trim(p.zone)))) END"
    )
    return (
        f"CASE WHEN regexp_full_match(x, '{_CANONICAL_TIME}') THEN spark_instant_of_local(TRY_CAST(x AS TIMESTAMP)) "
        f"ELSE {_once(_LOCAL_PARTS, 'p', with_zone)} END"
    )


_FILLED: Final = _function("spark_filled", "digits, least", "lpad(digits, greatest(length(digits), least)::INT, '0')")
_SHIFTED: Final = _function(
    "spark_shifted_digits",
    "whole, fraction, power",
    # The digits of a number with an exponent, with the point moved by the exponent.
    "CASE WHEN power >= 0 "
    "THEN whole || rpad(left(fraction, power), power::INT, '0') || '.' || substr(fraction, power + 1) "
    "ELSE left(spark_filled(whole, -power), greatest(length(whole) + power, 0)) || '.' "
    "|| right(spark_filled(whole, -power), -power) || fraction END",
)


def _decimal() -> str:
    """Returns a number in plain digits as text, which DuckDB rounds as Spark does; NULL if it is not a number."""
    parts = f"regexp_extract(x, '{_DIGITS}', ['sign', 'whole', 'fraction', 'power'])"
    power = f"coalesce(TRY_CAST(nullif({parts}.power, '') AS INT), 0)"
    return (
        f"CASE WHEN {parts}.whole || {parts}.fraction = '' THEN NULL "
        f"WHEN {power} BETWEEN -400 AND 400 "
        f"THEN {parts}.sign || '0' || spark_shifted_digits({parts}.whole, {parts}.fraction, {power}) "
        "ELSE error('the exponent of the text ''' || x || ''' is too large for DuckDB; "
        "run it in Spark: metastore.spark.connect(spark, conf)') END"
    )


MACROS: Final = (
    *(
        each
        for type_ in _INTEGERS
        for each in (
            _function(
                f"try_spark_{type_.lower()}",
                "x",
                f"TRY_CAST(regexp_extract(x, '^{_BLANK}([+-]?[0-9]+){_BLANK}$', 1) AS {type_})",
            ),
            _strict(type_.lower()),
        )
    ),
    *(
        each
        for type_ in _FLOATS
        for each in (
            _refusing(type_.lower(), _HEXADECIMAL, "a number in hexadecimal digits", _number(type_)),
            _strict(type_.lower()),
        )
    ),
    _FILLED,
    _SHIFTED,
    _refusing("decimal", r"(?s).*[^\x00-\x7f].*", "digits other than 0 to 9", _decimal()),
    _strict("decimal"),
    _function(
        "try_spark_boolean",
        "x",
        f"CASE WHEN regexp_full_match(x, '(?i){_BLANK}(t|true|y|yes|1){_BLANK}') THEN TRUE "
        f"WHEN regexp_full_match(x, '(?i){_BLANK}(f|false|n|no|0){_BLANK}') THEN FALSE END",
    ),
    _strict("boolean"),
    _DAY_TEXT,
    _refusing(
        "date",
        _OF_MOMENT_OR_FAR[7],
        "a day of the moment or at the end of the calendar",
        _canonical_or(_CANONICAL_DAY, "DATE", _once(_DATE_PARTS, "p", "TRY_CAST(spark_day_text(p) AS DATE)")),
    ),
    _strict("date"),
    _LOCAL_OF_PARTS,
    _INSTANT_OF_LOCAL,
    _OFFSET_MINUTES,
    _refusing("timestamp_ntz", _OF_MOMENT_OR_FAR[6], "a time of the moment or at the end of the calendar", _local()),
    _strict("timestamp_ntz"),
    _refusing(
        "timestamp",
        f"{_OF_MOMENT_OR_FAR[6]}|{_WITHOUT_DAY}",
        "a time of the moment or at the end of the calendar",
        _instant(),
    ),
    _strict("timestamp"),
    _function(
        "spark_months_between",
        "a, b",
        "12 * (year(a) - year(b)) + month(a) - month(b) + CASE "
        "WHEN day(a) = day(b) OR (CAST(a AS DATE) = last_day(a) AND CAST(b AS DATE) = last_day(b)) "
        "THEN CAST(0 AS DOUBLE) "
        "ELSE ((day(a) - day(b)) * 86400 + epoch(date_trunc('second', a) - date_trunc('day', a)) "
        "- epoch(date_trunc('second', b) - date_trunc('day', b))) / 2678400 END",
    ),
)
"""Statements that create the macros in a new connection, in the order of their dependencies."""

_NAMES: Final = {
    exp.DType.TINYINT: "tinyint",
    exp.DType.SMALLINT: "smallint",
    exp.DType.INT: "int",
    exp.DType.BIGINT: "bigint",
    exp.DType.DOUBLE: "double",
    exp.DType.FLOAT: "float",
    exp.DType.BOOLEAN: "boolean",
    exp.DType.DATE: "date",
    exp.DType.TIMESTAMP: "timestamp",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.TIMESTAMPLTZ: "timestamp",
    exp.DType.TIMESTAMPNTZ: "timestamp_ntz",
}


def text_as(text: str, type_: exp.DataType, *, safe: bool) -> str | None:
    """Returns DuckDB's SQL for the value of ``text``, SQL for a VARCHAR, as Spark's ``type_``; None for other types.

    With ``safe``, a text without a value is NULL, else an error.
    """
    if (name := _NAMES.get(type_.this)) is not None:
        return f"{'try_' if safe else ''}spark_{name}({text})"
    if type_.this in (exp.DType.BINARY, exp.DType.VARBINARY):
        return f"encode({text})"
    if type_.this is exp.DType.DECIMAL:
        cast = "TRY_CAST" if safe else "CAST"
        digits = f"{'try_' if safe else ''}spark_decimal({text})"
        return f"{cast}({digits} AS {type_.sql(dialect='duckdb')})"
    return None


def define_what(query: str, engine: Any) -> None:
    """Create the macros in the DuckDB connection ``engine``, if ``query`` needs them and they do not exist."""
    if "spark_" not in query.lower():
        return
    for statement in MACROS:
        engine.execute(statement)
