"""Spark's functions that DuckDB has with the same name and meaning. Any unknown function is refused.

Place in the flow: :mod:`metastore.duck.spark_in_duckdb` checks here each function that it does not translate. Tests
decide which functions are in these lists: every example of Spark's own documentation, and calls over rows of every
type, gave Spark's values or an error (``tests/spark/test_spark_functions.py``).
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from metastore.errors import InvalidRequestError

_STRUCTURE: Final[tuple[type[exp.Expr], ...]] = (
    *(exp.Connector, exp.Array, exp.Struct, exp.VarMap, exp.Exists, exp.TimeStrToTime),
)
"""sqlglot's function classes that a reader would not call functions."""

_SAME: Final[frozenset[type[exp.Expr]]] = frozenset(
    {
        # Numbers.
        *(exp.Abs, exp.Acos, exp.Acosh, exp.Asin, exp.Asinh, exp.Atan, exp.Atan2, exp.Atanh, exp.Cbrt, exp.Cos),
        *(exp.Cosh, exp.Cot, exp.Degrees, exp.Exp, exp.Factorial, exp.Pi, exp.Pow, exp.Radians, exp.Round, exp.Sin),
        *(exp.Sinh, exp.Sqrt, exp.Tan, exp.Tanh, exp.SafeDivide, exp.EqualNull),
        # Texts and bytes.
        *(exp.Ascii, exp.ConcatWs, exp.Contains, exp.Decode, exp.Encode, exp.EndsWith, exp.FromBase64, exp.Initcap),
        *(exp.Length, exp.Lower, exp.MD5, exp.Overlay, exp.Pad, exp.RegexpExtract, exp.RegexpExtractAll),
        *(exp.RegexpLike, exp.Repeat, exp.Replace, exp.Reverse, exp.SHA, exp.SplitPart, exp.StartsWith, exp.ToBase64),
        *(exp.ToBinary, exp.Translate, exp.Trim, exp.Unhex, exp.Upper),
        # Days and times.
        *(exp.CurrentDate, exp.CurrentTimestamp, exp.DateFromUnixDate, exp.Day, exp.DayOfMonth, exp.DayOfYear),
        *(exp.Hour, exp.LastDay, exp.Minute, exp.Month, exp.NextDay, exp.Quarter, exp.Second, exp.TimestampTrunc),
        *(exp.UnixDate, exp.UnixMicros, exp.WeekOfYear, exp.Year),
        # Lists and maps.
        *(exp.ArrayAppend, exp.ArrayCompact, exp.ArrayInsert, exp.ArrayMax, exp.ArrayMin, exp.ArrayPrepend),
        *(exp.ArraySize, exp.ArraySlice, exp.ArrayToString, exp.Explode, exp.Map, exp.MapFromEntries, exp.MapKeys),
        *(exp.Posexplode, exp.JSONKeys),
        # Aggregates.
        *(exp.AnyValue, exp.ApproxDistinct, exp.ArrayAgg, exp.ArrayUniqueAgg, exp.BitwiseAndAgg, exp.BitwiseOrAgg),
        *(exp.BitwiseXorAgg, exp.Count, exp.CountIf, exp.CovarPop, exp.CovarSamp, exp.First, exp.Grouping),
        *(exp.GroupingId, exp.LogicalAnd, exp.LogicalOr, exp.PercentileCont, exp.PercentileDisc),
        *(exp.RegrAvgx, exp.RegrAvgy, exp.RegrCount, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Sum, exp.Variance),
        exp.VariancePop,
        # Windows.
        *(exp.CumeDist, exp.DenseRank, exp.FirstValue, exp.Lag, exp.LastValue, exp.Lead, exp.NthValue, exp.Ntile),
        *(exp.PercentRank, exp.Rank, exp.RowNumber),
        # Values of each run.
        exp.Uuid,
    }
)

_SAME_BY_NAME: Final = frozenset(
    {"json_array_length", "make_date", "map_concat", "map_entries", "map_values", "now", "range"}
    | {"struct_extract"}  # not a function of Spark's: the filter of scans inserts it, in DuckDB's SQL
)


def require_known(node: exp.Func) -> None:
    """Raises InvalidRequestError, naming ``node``, unless it means the same in Spark and DuckDB."""
    if isinstance(node, exp.Anonymous):
        if node.name.lower() not in _SAME_BY_NAME:
            raise refusal(f"{node.name.lower()}()")
    elif type(node) not in _SAME and not isinstance(node, _STRUCTURE):
        raise refusal(f"{node.sql_name().lower()}()")


def refusal(what: str) -> InvalidRequestError:
    """Returns the error for ``what`` if it has no counterpart in DuckDB."""
    return InvalidRequestError(
        f"DuckDB has no {what} with the same result as Spark's; run it in Spark: metastore.spark.connect(spark, conf)"
    )
