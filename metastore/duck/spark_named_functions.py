"""Spark's functions that sqlglot has no class for, by name, with their translations for DuckDB.

Place in the flow: :mod:`metastore.duck.spark_function_words` calls this module for a function that has only a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sqlglot import exp

from metastore.duck.spark_functions import require_known
from metastore.duck.words import phrase

FRACTIONS: Final = ("DOUBLE", "FLOAT", "DECIMAL")
TIMES: Final = ("TIMESTAMP", "DATE", "TIME", "INTERVAL")
SPELLED_OTHERWISE: Final = ("DOUBLE", "FLOAT", "BLOB", "TIMESTAMP WITH TIME ZONE")
OCTETS: Final = (
    "octet_length(CASE WHEN typeof(:a) = 'BLOB' THEN CAST(:a AS BLOB) "
    "WHEN typeof(:a) IN ('DOUBLE', 'FLOAT', 'TIMESTAMP WITH TIME ZONE') "
    "THEN error('Spark spells this value in another way than DuckDB: cast it to a text first') "
    "ELSE encode(CAST(:a AS TEXT)) END)"
)


def unless(*types: str, what: str) -> str:
    """Returns ``:a``, but an error if it is of one of DuckDB's ``types``, which Spark treats differently."""
    tests = " OR ".join(f"typeof(:a) LIKE '{type_}%'" for type_ in types)
    why = f"DuckDB has no {what}() of such a value with the same result as Spark''s: cast it first"
    return f"CASE WHEN {tests} THEN error('{why}') ELSE :a END"


_FUNCTIONS: Final[Mapping[tuple[str, int], str]] = {
    ("weekday", 1): "isodow(:a) - 1",
    ("isnull", 1): "(:a IS NULL)",
    ("isnotnull", 1): "(:a IS NOT NULL)",
    # As Java's %: the sum of two remainders keeps the divisor's sign only if the first one has the other sign.
    ("pmod", 2): "CASE WHEN :b = 0 AND :a IS NOT NULL THEN error('division by zero') "
    "WHEN :a % :b < 0 THEN (:a % :b + :b) % :b ELSE :a % :b END",
    ("octet_length", 1): OCTETS,
    ("try_to_date", 1): "CASE WHEN typeof(:a) = 'VARCHAR' THEN try_spark_date(CAST(:a AS TEXT)) "
    "ELSE TRY_CAST(:a AS DATE) END",
    ("positive", 1): unless("VARCHAR", what="positive"),
    ("bin", 1): f"bin({unless(*FRACTIONS, 'VARCHAR', 'BLOB', what='bin')})",
    ("mean", 1): f"avg({unless('VARCHAR', *TIMES, what='mean')})",
    ("percentile", 2): "quantile_cont(CAST(:a AS DOUBLE), :b)",
    ("cardinality", 1): "cardinality(:a)",
    ("timestamp_seconds", 1): "to_timestamp(:a)",
    ("unix_date", 1): "CAST(:a AS DATE) - DATE '1970-01-01'",
    ("unix_micros", 1): "epoch_us(:a)",
}
"""Translations of functions that sqlglot does not know, by name and number of arguments."""


def by_name(node: exp.Anonymous) -> exp.Expr:
    """Returns the call ``node`` in DuckDB's SQL, unchanged if both mean the same.

    Raises InvalidRequestError otherwise.
    """
    template = _FUNCTIONS.get((node.name.lower(), len(node.expressions)))
    if template is None:
        require_known(node)
        return node
    return phrase(template, **{place: each.copy() for place, each in zip("abc", node.expressions, strict=False)})
