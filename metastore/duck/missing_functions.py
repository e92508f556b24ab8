"""Functions and operators of Spark, Trino and Drill that DuckDB lacks or has otherwise, and what to write instead.

Place in the flow: an error of a query names the way from here. Nothing is translated, because the forms differ in what
they take or return. Names that mean the same everywhere are macros (:mod:`metastore.duck.typed_functions`).

In the ways, ``t`` is a TIMESTAMP, ``x`` and ``y`` are numbers, ``d`` is a DOUBLE, ``list`` and ``map`` are of these
types.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_DAY: Final = "'%Y-%m-%d'"

INSTEAD: Final[Mapping[str, str]] = {
    **dict.fromkeys(("date_format", "to_char", "format_datetime"), f"strftime(t, {_DAY})"),
    **dict.fromkeys(("date_parse", "parse_datetime", "to_timestamp"), f"strptime(text, {_DAY})"),
    "to_date": f"CAST(strptime(text, {_DAY}) AS DATE)",
    **dict.fromkeys(("from_unixtime", "timestamp_seconds"), "to_timestamp(seconds)"),
    "timestamp_millis": "epoch_ms(milliseconds)",
    "unix_timestamp": "epoch(t)",
    "unix_millis": "epoch_ms(t)",
    "unix_date": "date_diff('day', DATE '1970-01-01', t)",
    "date_from_unix_date": "DATE '1970-01-01' + x",
    **dict.fromkeys(("date_add", "dateadd", "timestampadd"), "t + INTERVAL 1 DAY"),
    "date_sub": "t - INTERVAL 1 DAY",
    **dict.fromkeys(("datediff", "timestampdiff"), "date_diff('day', first, last)"),
    "next_day": "date_trunc('week', t) + INTERVAL 7 DAY",
    "months_between": "date_sub('month', first, last)",
    "trunc": "date_trunc('month', t)",
    **dict.fromkeys(("current_timestamp", "getdate", "sysdate"), "now()"),
    "current_timezone": "current_setting('TimeZone')",
    "from_utc_timestamp": "t AT TIME ZONE 'UTC' AT TIME ZONE 'Europe/Berlin'",
    "to_utc_timestamp": "t AT TIME ZONE 'Europe/Berlin' AT TIME ZONE 'UTC'",
    **dict.fromkeys(("at_timezone", "with_timezone"), "t AT TIME ZONE 'Europe/Berlin'"),
    "dow": "dayofweek(t)",
    "doy": "dayofyear(t)",
    "yow": "isoyear(t)",
    "input_file_name": 'the column "$path"',
    "monotonically_increasing_id": "row_number() OVER () - 1",
    **dict.fromkeys(("size", "array_size"), "len(list)"),
    "element_at": "list[1]",
    "slice": "list[1:2]",
    "struct": "struct_pack(a := x)",
    "transform": "list_transform(list, lambda x: x + 1)",
    **dict.fromkeys(("aggregate", "reduce"), "list_reduce(list, lambda a, x: a + x)"),
    **dict.fromkeys(("all_match", "forall"), "list_bool_and(list_transform(list, lambda x: x > 1))"),
    "any_match": "list_bool_or(list_transform(list, lambda x: x > 1))",
    "none_match": "NOT list_bool_or(list_transform(list, lambda x: x > 1))",
    "zip_with": "list_transform(list_zip(list, other), lambda z: z[1] + z[2])",
    "arrays_zip": "list_zip(list, other)",
    "array_union": "list_distinct(list_concat(list, other))",
    "array_except": "list_filter(list, lambda x: NOT list_contains(other, x))",
    "array_remove": "list_filter(list, lambda x: x <> 1)",
    "array_compact": "list_filter(list, lambda x: x IS NOT NULL)",
    "array_max": "list_max(list)",
    "array_min": "list_min(list)",
    "sort_array": "list_sort(list)",
    **dict.fromkeys(("array_repeat", "repeat"), "list_transform(range(3), lambda i: x)"),
    "map_from_arrays": "map(list, other)",
    "str_to_map": "map(regexp_extract_all(text, '(\\w+):', 1), regexp_extract_all(text, ':(\\w+)', 1))",
    "map_agg": "map(list(x), list(y))",
    "map_contains_key": "map_contains(map, 1)",
    "map_filter": "map_from_entries(list_filter(map_entries(map), lambda e: e.value > 0))",
    "transform_values": "map(map_keys(map), list_transform(map_values(map), lambda v: v + 1))",
    "transform_keys": "map(list_transform(map_keys(map), lambda k: k + 1), map_values(map))",
    "kvgen": "map_entries(map)",
    "json_object_keys": "json_keys(json)",
    "json_tuple": "json_extract_string(json, ['$.a', '$.b'])",
    "from_json": 'json_transform(json, \'{"a": "INTEGER"}\')',
    "schema_of_json": "json_structure(json)",
    **dict.fromkeys(("rlike", "regexp"), "regexp_matches(text, pattern)"),
    **dict.fromkeys(("like", "ilike"), "text LIKE pattern"),
    "regexp_count": "len(regexp_extract_all(text, pattern))",
    "regexp_split": "regexp_split_to_array(text, pattern)",
    "regexp_substr": "regexp_extract(text, pattern)",
    "regexp_position": "strpos(text, regexp_extract(text, pattern))",
    "charindex": "strpos(text, pattern)",
    "initcap": "array_to_string(list_transform(string_split(text, ' '), lambda w: upper(w[1]) || lower(w[2:])), ' ')",
    "substring_index": "array_to_string(string_split(text, '.')[:2], '.')",
    "parse_url": "regexp_extract(text, '://([^/:]+)', 1)",
    "find_in_set": "list_position(string_split(text, ','), pattern)",
    "lpad": "lpad(text, 3, ' ')",
    "rpad": "rpad(text, 3, ' ')",
    "btrim": "trim(text)",
    "space": "repeat(' ', 3)",
    "format_string": "printf('%d', x)",
    "format_number": "format('{:,.2f}', d)",
    "normalize": "nfc_normalize(text)",
    "codepoint": "unicode(text)",
    **dict.fromkeys(("to_utf8", "convert_to"), "encode(text)"),
    **dict.fromkeys(("from_utf8", "convert_from"), "decode(bytes)"),
    "unbase64": "from_base64(text)",
    "conv": "to_base(x, 2)",
    "sha": "sha1(text)",
    "sha2": "sha256(text)",
    **dict.fromkeys(("string", "to_varchar"), "CAST(x AS VARCHAR)"),
    "double": "CAST(x AS DOUBLE)",
    "to_number": "CAST(text AS DECIMAL(18, 2))",
    "try_to_number": "TRY_CAST(text AS DECIMAL(18, 2))",
    "try_add": "TRY(x + y)",
    "try_subtract": "TRY(x - y)",
    "try_multiply": "TRY(x * y)",
    "try_divide": "x / nullif(y, 0)",
    "decode": "CASE x WHEN 1 THEN 'a' ELSE 'b' END",
    "nanvl": "if(isnan(x), y, x)",
    "isnull": "x IS NULL",
    "isnotnull": "x IS NOT NULL",
    "iff": "if(x > 1, 'a', 'b')",
    "zeroifnull": "coalesce(x, 0)",
    "nullifzero": "nullif(x, 0)",
    "div": "x // y",
    "pmod": "((x % y) + y) % y",
    **dict.fromkeys(("bround", "rint"), "round_even(d, 0)"),
    "log1p": "ln(1 + x)",
    "expm1": "exp(x) - 1",
    "width_bucket": "greatest(0, least(4, 1 + floor((d - 0) / (10 - 0) * 3)))",
    "signum": "sign(x)",
    "e": "exp(1)",
    **dict.fromkeys(("shiftleft", "bitwise_left_shift"), "x << y"),
    **dict.fromkeys(("shiftright", "bitwise_right_shift"), "x >> y"),
    "bitwise_not": "~x",
    "rand": "random()",
    "every": "bool_and(x > 1)",
    "std": "stddev(x)",
    "percentile": "quantile_cont(x, 0.5)",
    "count": "count(DISTINCT (x, y))",
    "raise_error": "error('…')",
    "<=>": "x IS NOT DISTINCT FROM y",
    "!": "NOT x",
}
"""What to write, by the name that people type in lower case."""

TYPES: Final[Mapping[str, str]] = {"number": "DECIMAL(38, 9)", "byte": "TINYINT"}
"""Types that DuckDB lacks, and one of its own."""

_OPERATORS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("rlike", "regexp"), INSTEAD["rlike"]),
    "div": INSTEAD["div"],
    "xor": "x <> y of conditions, xor(x, y) of numbers",
    "symmetric": "the smaller value first",
    "exists": INSTEAD["any_match"],
    "like": "one LIKE for each pattern, joined by OR or AND",
    "ignore": "first_value(x IGNORE NULLS) OVER (…), or any_value(x)",
}
_WORD: Final = re.compile(r"[\w.]+")
_LAST_WORD: Final = re.compile(r"[\w.]+\s*\(?\s*$")
_SUFFIXED: Final = re.compile(r"[0-9.]+[LSYDF]", re.IGNORECASE)
_CALL: Final = re.compile(r"\b(\w+)\s*\(")
_TYPE_CALLED: Final = re.compile(
    r"(?<!AS )\b(int|bigint|smallint|tinyint|boolean|float|timestamp|char)\s*(\([^()]*\)\s*)?$", re.IGNORECASE
)


def way_beside(line: str, column: int) -> str | None:
    """What to write for the operator, type or number at ``column`` of ``line``, or right before it, if it is known."""
    before, at = _LAST_WORD.search(line[:column]), _WORD.match(line, column)
    for found in (before, at):
        word = "" if found is None else found[0].strip(" (\t").lower()
        if word in _OPERATORS:
            return f"{word.upper()} has another form here: write {_OPERATORS[word]}"
        if _SUFFIXED.fullmatch(word):
            return f"numbers have no suffix here: write CAST({word[:-1]} AS …)"
    called = _TYPE_CALLED.search(line[:column])
    return None if called is None else f"a type is no function here: write CAST(… AS {called[1].upper()})"


def way_of_calls(text: str) -> str | None:
    """What to write for the first call in ``text`` that has another form here; None if there is none."""
    names = (name.lower() for name in _CALL.findall(text))
    return next((f"{name}(…) has another form here: write {INSTEAD[name]}" for name in names if name in INSTEAD), None)
