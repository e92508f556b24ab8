"""Functions that people type as Spark and Trino have them, as macros of DuckDB: a query gets those that it calls.

=========================  ==================================================================================
function                   is
=========================  ==================================================================================
``explode(list)``          ``unnest``; after FROM a table with the column ``col``
``posexplode(list)``       after FROM, also ``pos``, the element's place from 0
``entries(map)``           after FROM, ``key`` and ``value``: Spark's ``explode`` of a map
``…_outer(…)``             the same, with a row of NULL for a value that is empty or NULL
``approx_distinct(x)``     ``approx_count_distinct``
``parse_json(text)``       the text's value as a VARIANT; ``try_parse_json``: NULL for what is no JSON
``current_schema()``       what USE has chosen, or NULL; ``current_catalog()``, ``current_database()`` as well
others                     DuckDB's function of another name, where it means the same
=========================  ==================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from metastore.ground.quoting import text_constant

_OUTER: Final = "{0}_outer({1}) AS TABLE SELECT {2} FROM (SELECT 1 AS one) LEFT JOIN {0}({1}) ON TRUE"

MACROS: Final = (
    "approx_distinct(x) AS approx_count_distinct(x)",
    "explode(l) AS unnest(l)",
    "explode_outer(l) AS unnest(CASE WHEN len(l) > 0 THEN l ELSE [NULL] END)",
    "explode(l) AS TABLE SELECT unnest(l) AS col",
    "posexplode(l) AS TABLE SELECT i - 1 AS pos, l[i] AS col FROM (SELECT unnest(range(1, len(l) + 1)) AS i)",
    "entries(m) AS TABLE SELECT unnest(map_keys(m)) AS key, unnest(map_values(m)) AS value",
    "parse_json(x) AS CAST(CAST(x AS JSON) AS VARIANT)",
    "try_parse_json(x) AS CAST(TRY_CAST(x AS JSON) AS VARIANT)",
    _OUTER.format("explode", "l", "col"),
    _OUTER.format("posexplode", "l", "pos, col"),
    _OUTER.format("entries", "m", "key, value"),
    "nan() AS 'NaN'::DOUBLE",
    "infinity() AS 'Infinity'::DOUBLE",
    "is_nan(x) AS isnan(x)",
    "is_finite(x) AS isfinite(x)",
    "is_infinite(x) AS isinf(x)",
    "truncate(x) AS trunc(x)",
    "rand() AS random()",
    "bitwise_and(x, y) AS x & y",
    "bitwise_or(x, y) AS x | y",
    "bitwise_xor(x, y) AS xor(x, y)",
    "sequence(x, y) AS generate_series(x, y, if(x <= y, 1, -1)), (x, y, z) AS generate_series(x, y, z)",
    "array_join(l, s) AS array_to_string(l, s)",
    "approx_percentile(x, p) AS approx_quantile(x, p)",
    "percentile_approx(x, p) AS approx_quantile(x, p)",
    "collect_list(x) AS coalesce(list(x) FILTER (x IS NOT NULL), [])",
    "collect_set(x) AS coalesce(list(DISTINCT x) FILTER (x IS NOT NULL), [])",
    "nvl(x, y) AS coalesce(x, y)",
    "nvl2(x, y, z) AS CASE WHEN x IS NOT NULL THEN y ELSE z END",
    "regexp_like(s, p) AS regexp_matches(s, p)",
    "locate(p, s) AS strpos(s, p)",
    "levenshtein_distance(x, y) AS levenshtein(x, y)",
    "to_unixtime(t) AS epoch(t)",
    "to_date(x) AS CAST(x AS DATE)",
    "from_iso8601_date(x) AS CAST(x AS DATE)",
    "from_iso8601_timestamp(x) AS CAST(x AS TIMESTAMPTZ)",
    "add_months(d, n) AS CAST(CAST(d AS DATE) + to_months(n) AS DATE)",
    "day_of_week(d) AS isodow(d)",
    "day_of_year(d) AS dayofyear(d)",
    "week_of_year(d) AS weekofyear(d)",
    "year_of_week(d) AS isoyear(d)",
    "last_day_of_month(d) AS last_day(d)",
    "json_parse(x) AS CAST(x AS JSON)",
    "json_format(x) AS CAST(x AS VARCHAR)",
    "json_extract_scalar(x, p) AS if(json_type(x, p) IN ('OBJECT', 'ARRAY'), NULL, json_extract_string(x, p))",
    "get_json_object(x, p) AS json_extract_string(x, p)",
)

_OF_SESSION: Final = ("current_schema", "current_catalog", "current_database")
NAMES: Final = frozenset(each.partition("(")[0] for each in MACROS) | frozenset(_OF_SESSION)
"""The functions that are defined here, for SHOW FUNCTIONS."""

_CALLED: Final = re.compile(rf"\b({'|'.join(sorted(NAMES))})\b", re.IGNORECASE)


def define_typed(query: str, engine: Any, current: Sequence[str] = ()) -> None:
    """Create the macros in the DuckDB connection ``engine`` that ``query`` may call.

    ``current`` is what USE has chosen: nothing, a catalog, or a catalog and a schema.
    """
    called = {each.lower() for each in _CALLED.findall(query)}
    called |= {each.removesuffix("_outer") for each in called}
    catalog, schema = (text_constant(part) if part else "NULL::VARCHAR" for part in (*current, "", "")[:2])
    of_session = (f"{name}() AS {catalog if name == 'current_catalog' else schema}" for name in _OF_SESSION)
    for definition in (*MACROS, *of_session):
        if definition.partition("(")[0] in called:
            engine.execute(f"CREATE OR REPLACE MACRO {definition}")
