"""Types of columns in SQL, as Iceberg's types: ``DECIMAL(9, 2)``, ``ARRAY(ROW(a BIGINT, b VARCHAR NOT NULL))``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from sqlglot import TokenType

from metastore.lake.iceberg.columns.type_spellings import VariantType
from metastore.sql.statement import Cursor

_PLAIN: Final[Mapping[str, type[PrimitiveType]]] = {
    "BOOLEAN": BooleanType,
    "INT": IntegerType,
    "INTEGER": IntegerType,
    "BIGINT": LongType,
    "LONG": LongType,
    "REAL": FloatType,
    "FLOAT": FloatType,
    "DOUBLE": DoubleType,
    "DATE": DateType,
    "TIMESTAMPTZ": TimestamptzType,
    "TIMESTAMP_NS": TimestampNanoType,
    "TIMESTAMPTZ_NS": TimestamptzNanoType,
    "VARCHAR": StringType,
    "STRING": StringType,
    "VARBINARY": BinaryType,
    "BINARY": BinaryType,
    "BLOB": BinaryType,
    "UUID": UUIDType,
    "VARIANT": VariantType,
}
_WIDER: Final[Mapping[str, type[PrimitiveType]]] = {
    "TINYINT": IntegerType,
    "BYTE": IntegerType,
    "SMALLINT": IntegerType,
    "SHORT": IntegerType,
    "CHAR": StringType,
    "CHARACTER": StringType,
    "TEXT": StringType,
}
"""Types that Iceberg lacks, and what every engine keeps instead."""
_MICROSECONDS: Final = 6
_NANOSECONDS: Final = 9
_DEEPEST: Final = 32
_LONGEST: Final = 2**31 - 1
"""The most bytes of a FIXED; Arrow and Java count no further, and could not read a table with a longer one."""
_NO_ID: Final = -1
"""A placeholder: nested fields get their ids when the column is added."""


def column_type(cursor: Cursor, depth: int = 0) -> IcebergType:
    """Read one type.

    Raises InvalidRequestError, with its place, for an unknown type and for a type that Iceberg lacks.
    """
    token = cursor.token
    if depth > _DEEPEST:
        raise cursor.statement.error(f"a type is nested deeper than {_DEEPEST} levels", token)
    if token is not None and cursor.statement.source(token).upper().split() == ["DOUBLE", "PRECISION"]:
        cursor.advance()  # the tokenizer makes one word of it
        return DoubleType()
    word = cursor.name("a type").text.upper()
    if word in _PLAIN or word in _WIDER:
        return _simple_type(cursor, word)
    if word == "TIME":
        return _time(cursor)
    if word == "TIMESTAMP":
        return _timestamp(cursor)
    if word == "DECIMAL":
        precision, scale = _decimal(cursor)
        if not (0 < precision <= 38 and 0 <= scale <= precision):
            raise cursor.statement.error(
                f"DECIMAL({precision}, {scale}) is not possible: at most 38 digits, of which at most all are decimals",
                token,
            )
        return DecimalType(precision, scale)
    if word == "FIXED":
        cursor.expect(TokenType.L_PAREN, "(")
        length = _number(cursor)
        cursor.expect(TokenType.R_PAREN, ")")
        if not 0 < length <= _LONGEST:
            raise cursor.statement.error(f"FIXED({length}) is not between 1 and {_LONGEST} bytes long", token)
        return FixedType(length)
    if word in ("ARRAY", "MAP", "ROW", "STRUCT"):
        return _read_nested_type(cursor, word, depth)
    raise cursor.statement.error(
        f"{word} is no type of an Iceberg column; there are {', '.join(sorted((*_PLAIN, 'TIME')))}", token
    )


def _simple_type(cursor: Cursor, word: str) -> PrimitiveType:
    """Read the length of a text. Iceberg has no lengths and no short numbers: a note of ``cursor`` says so."""
    kind = (_PLAIN.get(word) or _WIDER[word])()
    written = word
    if isinstance(kind, StringType) and cursor.accept(TokenType.L_PAREN):
        written = f"{word}({_number(cursor)})"
        cursor.expect(TokenType.R_PAREN, ")")
    if written != word or (word in _WIDER and word != "TEXT"):
        stored = "VARCHAR of any length" if isinstance(kind, StringType) else "INT"
        cursor.notes.append(f"{written} is kept as {stored}")
    return kind


def _time(cursor: Cursor) -> PrimitiveType:
    if cursor.accept(TokenType.L_PAREN):
        token = cursor.token
        if _number(cursor) != _MICROSECONDS:
            raise cursor.statement.error("times of day of Iceberg tables have microseconds: TIME(6)", token)
        cursor.expect(TokenType.R_PAREN, ")")
    return TimeType()


def _timestamp(cursor: Cursor) -> IcebergType:
    """TIMESTAMP with what follows; without digits or a zone, microseconds in local time."""
    digits = _MICROSECONDS
    if cursor.accept(TokenType.L_PAREN):
        token = cursor.token
        digits = _number(cursor)
        if digits not in (_MICROSECONDS, _NANOSECONDS):
            raise cursor.statement.error(
                "times of Iceberg tables have microseconds, TIMESTAMP(6), or nanoseconds, TIMESTAMP(9)", token
            )
        cursor.expect(TokenType.R_PAREN, ")")
    zoned = cursor.accept_words("WITH", "TIME", "ZONE")
    if not zoned:
        cursor.accept_words("WITHOUT", "TIME", "ZONE")
    if digits == _NANOSECONDS:
        return TimestamptzNanoType() if zoned else TimestampNanoType()
    return TimestamptzType() if zoned else TimestampType()


def _decimal(cursor: Cursor) -> tuple[int, int]:
    if not cursor.accept(TokenType.L_PAREN):
        return 38, 0
    precision = _number(cursor)
    scale = _number(cursor) if cursor.accept(TokenType.COMMA) else 0
    cursor.expect(TokenType.R_PAREN, ")")
    return precision, scale


def _read_nested_type(cursor: Cursor, word: str, depth: int) -> IcebergType:
    """Read nested types, in round brackets (Trino) or angle brackets (Spark)."""
    angular = cursor.ahead(TokenType.LT)
    cursor.expect(TokenType.LT if angular else TokenType.L_PAREN, "(")
    below = depth + 1
    found: IcebergType
    if word == "ARRAY":
        found = ListType(_NO_ID, column_type(cursor, below), element_required=False)
    elif word == "MAP":
        key = column_type(cursor, below)
        cursor.expect(TokenType.COMMA, ",")
        found = MapType(_NO_ID, key, _NO_ID, column_type(cursor, below), value_required=False)
    else:
        found = StructType(*cursor.list_of(lambda: _field(cursor, below)))
    cursor.expect(TokenType.GT if angular else TokenType.R_PAREN, ">" if angular else ")")
    return found


def _field(cursor: Cursor, depth: int) -> NestedField:
    name = cursor.name("the name of a field").text
    cursor.accept(TokenType.COLON)
    kind = column_type(cursor, depth)
    required = cursor.accept_word("NOT")
    if required:
        cursor.expect_word("NULL")
    doc = cursor.expect(TokenType.STRING, "a comment in quotes").text if cursor.accept_word("COMMENT") else None
    return NestedField(_NO_ID, name, kind, required=required, doc=doc)


def _number(cursor: Cursor) -> int:
    token = cursor.expect(TokenType.NUMBER, "a number")
    if not token.text.isdecimal():
        raise cursor.statement.error(f"a whole number is expected, not {token.text}", token)
    return int(token.text)
