"""Converts raw fields of a column to values by Hive's type, if every release of Hive reads them alike; else unknown.

A text in the type's plain form is that value. An empty text, or one that begins with a letter, is null if the type has
no letters. Releases and engines read all other texts (spaces around a number, more digits than a decimal has, the 31st
of February) differently: a column with such a text is unknown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from metastore.lake.formats.facts import GREGORIAN
from metastore.model.statistics import ColumnStatistics
from metastore.sources.hive.text.fields import Raw
from metastore.sources.hive.text.serdes import SerdeKind, TextSerde
from metastore.sources.hive.types import HiveType, drill_type
from metastore.sources.provided_tables import Measures, column_statistics

_CLOCKS_APART: Final = timedelta(days=1)
"""Maximum difference between readings of a local time that daylight saving or the date line skips."""

_WHOLE: Final = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
_FLOATING: Final = {"float": pa.float32(), "double": pa.float64()}
_NUMBER: Final = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?$"
_LETTER: Final = r"^[A-Za-z_]"
_DAY: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
_MOMENT: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"


@dataclass(frozen=True)
class Values:
    """One column of a batch: its values in Arrow, and their number of nulls; each is None if unknown."""

    values: Any = None
    nulls: int | None = None


class _OpenError(Exception):
    """The text has several readings."""


def measure_column(raw: Raw | None, type_: HiveType, serde: TextSerde, rows: int) -> ColumnStatistics:
    """Returns the certain statistics of one column of a batch of ``rows`` rows; the column is not nested."""
    try:
        found = _typed_values(raw, type_, serde)
    except (_OpenError, pa.ArrowException, UnicodeError):
        found = Values()
    low, high = _bounds(found.values)
    if isinstance(low, date) and (low.date() if isinstance(low, datetime) else low) < GREGORIAN:
        low = high = None
    exact = type_.name != "timestamp"
    if isinstance(high, datetime):
        high = high + _CLOCKS_APART if high.year < date.max.year else None
    return column_statistics(str(drill_type(type_)), rows, Measures(low, high, found.nulls, exact=exact), whole=True)


def _typed_values(raw: Raw | None, type_: HiveType, serde: TextSerde) -> Values:
    if raw is None or serde.odd:
        raise _OpenError
    if serde.rows is SerdeKind.JSON:
        return _of_json(raw, type_)
    if type_.is_nested or type_.name in ("binary", "timestamptz"):
        return Values(None, raw.null_count)
    # CSV holds text, which readers convert to the table's type: in more than one way, except for plain numbers.
    _require(serde.rows is not SerdeKind.CSV or type_.name in (*_WHOLE, *_FLOATING, "string", "varchar", "char"))
    return _of_text(_decode_fields(raw, serde), type_)


def _decode_fields(raw: Raw, serde: TextSerde) -> Any:
    """Returns the fields as text. Raises _OpenError for bytes beyond ASCII in an encoding other than UTF-8."""
    text = pc.cast(raw, pa.string())
    if (
        serde.encoding.replace("_", "-") not in ("utf-8", "utf8", "us-ascii")
        and not pc.all(pc.string_is_ascii(text)).as_py()
    ):
        raise _OpenError
    return text


def _of_text(text: Any, type_: HiveType) -> Values:
    if type_.name == "char":
        # Some readers pad it, so its order is unknown.
        return Values(None, text.null_count)
    if (convert := _CONVERTERS.get(type_.name)) is None:
        raise _OpenError
    values = convert(text, type_)
    return Values(values, values.null_count)


def _string(text: Any, type_: HiveType) -> Any:
    if type_.arguments and (longest := pc.max(pc.utf8_length(text)).as_py()) is not None:
        _require(longest <= type_.arguments[0])
    return text


def _integer(text: Any, type_: HiveType) -> Any:
    known = _not_null(text)
    _require_all(known, r"^[+-]?[0-9]{1,18}$")
    return _without_plus(known).cast(_WHOLE[type_.name])


def _floating(text: Any, type_: HiveType) -> Any:
    known = _empty_is_null(text)
    _require_all(known, _NUMBER)
    values = _without_plus(known).cast(_FLOATING[type_.name])
    _require(bool(pc.all(pc.is_finite(values)).as_py() is not False))
    return values


def _boolean(text: Any, _type: HiveType) -> Any:
    lower = pc.ascii_lower(text)
    is_true = pc.equal(lower, pa.scalar("true"))
    known = pc.or_(is_true, pc.equal(lower, pa.scalar("false")))
    return pc.if_else(known, is_true, None)


def _date(text: Any, _type: HiveType) -> Any:
    known = _not_null(text)
    _require_all(known, _DAY)
    return known.cast(pa.date32())


def _timestamp(text: Any, _type: HiveType) -> Any:
    known = _not_null(text)
    _require_all(known, _MOMENT)
    return known.cast(pa.timestamp("us"))


def _decimal(text: Any, type_: HiveType) -> Any:
    precision, scale = type_.arguments
    known = _not_null(text)
    before = rf"[0-9]{{1,{precision - scale}}}" if precision > scale else "0"
    after = rf"(\.[0-9]{{1,{scale}}})?" if scale else ""
    _require_all(known, rf"^[+-]?{before}{after}$")
    return _without_plus(known).cast(pa.decimal128(precision, scale))


def _of_json(raw: list[Any], type_: HiveType) -> Values:
    given = [value for value in raw if value is not None]
    if type_.is_nested:
        raise _OpenError
    if type_.name in _WHOLE:
        _require(all(type(value) is int for value in given))
        return _arrow(raw, _WHOLE[type_.name])
    if type_.name in _FLOATING:
        _require(all(type(value) in (int, float) and math.isfinite(value) for value in given))
        return _arrow([None if value is None else float(value) for value in raw], pa.float64())
    if type_.name == "boolean":
        _require(all(isinstance(value, bool) for value in given))
        return _arrow(raw, pa.bool_())
    _require(type_.name in ("string", "varchar", "char") and all(isinstance(value, str) for value in given))
    return _of_text(pa.array(raw, pa.string()), type_)


def _arrow(raw: list[Any], type_: pa.DataType) -> Values:
    try:
        values = pa.array(raw, type_)
    except (OverflowError, ValueError) as error:
        raise _OpenError from error
    return Values(values, values.null_count)


def _bounds(values: Any) -> tuple[Any, Any]:
    if values is None or len(values) == values.null_count:
        return None, None
    found: dict[str, Any] = pc.min_max(values).as_py()  # type: ignore[assignment] # the stubs say a list
    low, high = found["min"], found["max"]
    return (low, high) if not isinstance(low, Decimal) or low.is_finite() else (None, None)


def _empty_is_null(text: Any) -> Any:
    return pc.if_else(pc.equal(text, pa.scalar("")), None, text)


def _not_null(text: Any) -> Any:
    """Returns the texts with nulls for empty ones and for words."""
    known = _empty_is_null(text)
    return pc.if_else(pc.match_substring_regex(known, _LETTER), None, known)


def _require_all(text: Any, pattern: str) -> None:
    _require(pc.all(pc.match_substring_regex(text, pattern)).as_py() is not False)


def _require(certain: bool) -> None:
    if not certain:
        raise _OpenError


def _without_plus(text: Any) -> Any:
    return pc.replace_substring_regex(text, r"^\+", "")


_CONVERTERS: Final[Mapping[str, Callable[[Any, HiveType], Any]]] = {
    "string": _string,
    "varchar": _string,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
    "decimal": _decimal,
    **dict.fromkeys(_WHOLE, _integer),
    **dict.fromkeys(_FLOATING, _floating),
}
