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
)

_CALLED: Final = re.compile(
    r"\b(approx_distinct|(try_)?parse_json|(pos)?explode(_outer)?|entries(_outer)?|current_(schema|catalog|database))\b",
    re.IGNORECASE,
)


def define_typed(query: str, engine: Any, current: Sequence[str] = ()) -> None:
    """Create the macros in the DuckDB connection ``engine``, if ``query`` may call one of them.

    ``current`` is what USE has chosen: nothing, a catalog, or a catalog and a schema.
    """
    if _CALLED.search(query):
        catalog, schema = (text_constant(part) if part else "NULL::VARCHAR" for part in (*current, "", "")[:2])
        of_session = (("schema", schema), ("catalog", catalog), ("database", schema))
        for definition in (*MACROS, *(f"current_{name}() AS {value}" for name, value in of_session)):
            engine.execute(f"CREATE OR REPLACE MACRO {definition}")
