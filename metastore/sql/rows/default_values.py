"""Default values of columns in SQL: the constant after DEFAULT, as a value of the column's type, and as text again.

::

    DEFAULT {NULL | TRUE | FALSE | [-] number | 'text' | X'bytes' | {DATE | TIME | TIMESTAMP | UUID | DECIMAL} 'text'}

A value that does not fit the type exactly is refused. Dates, times and UUIDs may be texts. A timestamp with time zone
takes a zone, and is in UTC without one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Any, Final
from uuid import UUID

import numpy as np
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from sqlglot import Token, TokenType

from metastore.errors import InvalidRequestError
from metastore.ground.quoting import text_constant
from metastore.procedures.framework.types import parse_date, parse_timestamp
from metastore.sql.statement import Cursor, Statement

_ZONED: Final = (TimestamptzType, TimestamptzNanoType)
_OF_MICROSECONDS: Final = (TimestampType, TimestamptzType)
_PREFIXES: Final[Mapping[str, tuple[type[IcebergType], ...]]] = {
    "DATE": (DateType,),
    "TIME": (TimeType,),
    "TIMESTAMP": (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType),
    "TIMESTAMP_NTZ": (TimestampType, TimestampNanoType),
    "TIMESTAMP_LTZ": _ZONED,
    "UUID": (UUIDType,),
    "DECIMAL": (DecimalType,),
}
"""Words before a text, with the types of columns that take such a constant."""

_AS_TEXT: Final[tuple[type[IcebergType], ...]] = (StringType, DateType, TimeType, UUIDType, *_PREFIXES["TIMESTAMP"])
"""Types of columns that take a text without a word before it."""

_NUMBERS: Final = (IntegerType, LongType, FloatType, DoubleType, DecimalType)
_CLOCK: Final = re.compile(r"(\d{2}:\d{2}(?::\d{2})?)(?:\.(\d{1,6}))?")
_MOMENT: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ](\d{2}:\d{2}(?::\d{2})?)(?:\.(\d{1,9}))?)?(?: ?([^\d. ].*))?")
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)
_DIGITS: Final = Context(prec=100, traps=[Inexact, InvalidOperation])
_LARGEST_FLOAT: Final = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Constant:
    """A constant of a statement. ``word`` is the upper-case word before a text; it is empty for a number or a text."""

    statement: Statement
    token: Token
    shown: str
    word: str
    content: str | bool | bytes | None

    def value(self, kind: IcebergType) -> Any:
        """Returns the constant as PyIceberg's Python value of type ``kind``; None for NULL.

        Raises InvalidRequestError, at the constant, if it is no value of that type.
        """
        if self.content is None:
            return None
        made = None
        try:
            if self._is_of(kind):
                made = _VALUES[type(kind)](kind, self.content)
        except (ValueError, OverflowError, DecimalException, InvalidRequestError):
            pass  # the message below says more
        if made is None:
            raise self.statement.error(f"{self.shown} is no value of type {_name_of_type(kind)}", self.token)
        return made

    def _is_of(self, kind: IcebergType) -> bool:
        if isinstance(self.content, bool):
            return isinstance(kind, BooleanType)
        if isinstance(self.content, bytes):
            return isinstance(kind, (BinaryType, FixedType))
        if self.word:
            return isinstance(kind, _PREFIXES[self.word])
        if self.token.token_type is TokenType.STRING:
            return isinstance(kind, _AS_TEXT)
        return isinstance(kind, _NUMBERS)


def constant(cursor: Cursor) -> Constant:
    """Read one constant. Raises InvalidRequestError, with its place, for anything else, such as an expression."""
    token, statement = cursor.token, cursor.statement
    if token is None:
        raise cursor.expectation_error("a constant")
    word, content = _content(cursor)
    following = cursor.token
    if following and not (cursor.word or cursor.ahead(TokenType.COMMA) or cursor.ahead(TokenType.R_PAREN)):
        raise _no_constant(cursor, token)
    shown = statement.text[token.start : following.start if following else len(statement.text)].strip()
    return Constant(statement, token, shown, word, content)


def _content(cursor: Cursor) -> tuple[str, str | bool | bytes | None]:
    """Read the tokens of a constant; returns its word, and its text, boolean or bytes; None for NULL."""
    token = cursor.token
    assert token is not None
    if cursor.ahead(TokenType.STRING):
        return "", cursor.advance().text
    if cursor.word and cursor.ahead(TokenType.STRING, by=1):
        word = cursor.word
        if word == "X":
            cursor.advance()
            return "", _bytes(cursor, token)
        if word in _PREFIXES:
            cursor.advance()
            return word, cursor.advance().text
    if cursor.word in ("TRUE", "FALSE"):
        return "", cursor.advance().text.upper() == "TRUE"
    if cursor.accept_word("NULL"):
        return "", None
    sign = "-" if cursor.accept(TokenType.DASH) else ""
    if not sign:
        cursor.accept(TokenType.PLUS)
    if cursor.ahead(TokenType.NUMBER):
        return "", sign + cursor.advance().text
    raise _no_constant(cursor, token)


def _bytes(cursor: Cursor, token: Token) -> bytes:
    text = cursor.advance().text
    if len(text) % 2 or re.search(r"[^0-9a-fA-F]", text):
        raise cursor.statement.error(f"X'{text}' is not bytes: an even number of hexadecimal digits is expected", token)
    return bytes.fromhex(text)


def _no_constant(cursor: Cursor, token: Token) -> InvalidRequestError:
    return cursor.statement.error(
        "a default value is one constant, such as 5, 'text', TRUE, X'00ff', DATE '2026-01-31' or NULL, and no "
        "expression, function or column",
        token,
    )


def constant_text(kind: IcebergType, value: Any) -> str:
    """Returns ``value``, which PyIceberg has for ``kind``, as the text of a constant that reads as the same value."""
    match value:
        case bool():
            return str(value).upper()
        case int() if isinstance(kind, (TimestampNanoType, TimestamptzNanoType)):
            moment = str(np.datetime64(value, "ns")).replace("T", " ")
            return f"TIMESTAMP '{moment}{' UTC' if isinstance(kind, _ZONED) else ''}'"
        case Decimal():
            return f"{value:f}"
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            moment = value.replace(tzinfo=None).isoformat(" ")
            return f"TIMESTAMP '{moment}{' UTC' if isinstance(kind, _ZONED) else ''}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case time():
            return f"TIME '{value.isoformat()}'"
        case UUID():
            return f"UUID '{value}'"
        case str():
            return text_constant(value)
    return repr(value)


def _name_of_type(kind: IcebergType) -> str:
    if type(kind) in _VALUES:
        return str(kind)
    name = str(kind) if kind.is_primitive else type(kind).__name__.removesuffix("Type").lower()
    return f"{name}: columns of this type have no other default than NULL"


def _whole(bits: int) -> Callable[[Any, str], int | None]:
    def value(_kind: Any, text: str) -> int | None:
        found = int(text)  # refuses a point and an exponent
        return found if -(2 ** (bits - 1)) <= found < 2 ** (bits - 1) else None

    return value


def _real(largest: float) -> Callable[[Any, str], float | None]:
    def value(_kind: Any, text: str) -> float | None:
        found = float(text)
        return found if abs(found) <= largest else None

    return value


def _decimal(kind: DecimalType, text: str) -> Decimal | None:
    found = Decimal(text).quantize(Decimal(1).scaleb(-kind.scale), context=_DIGITS)
    return found if len(found.as_tuple().digits) <= kind.precision else None


def _clock(_kind: Any, text: str) -> time | None:
    found = _CLOCK.fullmatch(text)
    if found is None:
        return None
    return time.fromisoformat(found[1]).replace(microsecond=int((found[2] or "0").ljust(6, "0")))


def _moment(kind: IcebergType, text: str) -> datetime | int | None:
    found = _MOMENT.fullmatch(text)
    if found is None or (found[4] and not isinstance(kind, _ZONED)):
        return None
    whole = parse_timestamp(f"{found[1]} {found[2] or '00:00'} {found[4] or 'UTC'}")
    nanoseconds = int((found[3] or "0").ljust(9, "0"))
    if isinstance(kind, _OF_MICROSECONDS):
        micros, rest = divmod(nanoseconds, 1000)
        moment = whole + timedelta(microseconds=micros)
        return None if rest else moment if isinstance(kind, _ZONED) else moment.replace(tzinfo=None)
    total = (whole - _EPOCH) // timedelta(seconds=1) * 10**9 + nanoseconds
    return total if -(2**63) < total < 2**63 else None  # the least number is Arrow's and NumPy's "no time"


_VALUES: Final[Mapping[type[IcebergType], Callable[[Any, Any], Any]]] = {
    BooleanType: lambda _kind, content: content,
    IntegerType: _whole(32),
    LongType: _whole(64),
    FloatType: _real(_LARGEST_FLOAT),
    DoubleType: _real(float(np.finfo(np.float64).max)),
    DecimalType: _decimal,
    StringType: lambda _kind, text: text,
    BinaryType: lambda _kind, content: content,
    FixedType: lambda kind, content: content if len(content) == len(kind) else None,
    UUIDType: lambda _kind, text: UUID(text) if _UUID.fullmatch(text) else None,
    DateType: lambda _kind, text: parse_date(text),
    TimeType: _clock,
    TimestampType: _moment,
    TimestamptzType: _moment,
    TimestampNanoType: _moment,
    TimestamptzNanoType: _moment,
}
