"""Casts with Spark's meaning, in DuckDB's SQL. For a value of unknown kind, ``typeof`` decides while the query runs."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from metastore.duck.spark_texts import text_as
from metastore.duck.value_kinds import INSTANTS, TEXTS, WHOLE, kind_of
from metastore.duck.words import AS_DUCKDB, phrase

_WHOLE_NUMBER: Final = r"^\s*([+-]?\d+)(\.\d*)?\s*$"
_OFFSET: Final = r"[+-]\d\d(:\d\d)*$"


def text_of(node: exp.Expr) -> exp.Expr:
    """Returns CAST to STRING: DuckDB formats floats and bytes differently, and instants with their offset."""
    return phrase(
        "CASE WHEN typeof(:it) IN ('DOUBLE', 'FLOAT', 'BLOB') "
        "THEN error('Spark spells a ' || typeof(:it) || ' as a text in another way than DuckDB; run it in Spark: "
        "metastore.spark.connect(spark, conf)') "
        "WHEN typeof(:it) IN ('TIMESTAMP WITH TIME ZONE', 'TIMESTAMPTZ_NS') "
        f"THEN regexp_replace(CAST(:it AS TEXT), '{_OFFSET}', '') "
        "ELSE CAST(:it AS TEXT) END",
        it=node,
    )


def cast_as_spark(node: exp.Cast) -> exp.Expr:
    """Returns a cast: a text by Spark's grammar, a number without DuckDB's rounding.

    It fails on errors unless it is safe. For a value of unknown kind, DuckDB decides while the query runs, by its
    ``typeof``.
    """
    if node.meta.get(AS_DUCKDB):
        return node
    kind, safe = kind_of(node.this), bool(node.args.get("safe"))
    if node.to.this in TEXTS:
        return node.copy() if kind in TEXTS else text_of(node.this.copy())
    of_text = text_as("CAST(:it AS TEXT)" if kind is None else ":it", _type_of(node.to), safe=safe)
    of_others = _cast_of_others(node, kind, "TRY_CAST" if safe else "CAST")
    if of_text is None or (kind is not None and kind not in TEXTS):
        return phrase(of_others, it=node.this.copy())
    if kind in TEXTS:
        return phrase(of_text, it=node.this.copy())
    return phrase(f"CASE WHEN typeof(:it) = 'VARCHAR' THEN {of_text} ELSE {of_others} END", it=node.this.copy())


def _type_of(to: exp.DataType) -> exp.DataType:
    """Returns Spark's type in DuckDB: a plain DECIMAL has ten digits and no fraction, a TIMESTAMP is an instant."""
    if to.this in INSTANTS:
        return exp.DataType(this=exp.DType.TIMESTAMPTZ)
    if to.this is exp.DType.DECIMAL and len(to.expressions) < 2:
        precision = to.expressions[0].name if to.expressions else "10"
        return exp.DataType.build(f"DECIMAL({precision}, 0)")
    return to


def _cast_of_others(node: exp.Cast, kind: exp.DType | None, cast: str) -> str:
    """Returns a cast of any value but a text. Spark truncates fractions where DuckDB rounds."""
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
