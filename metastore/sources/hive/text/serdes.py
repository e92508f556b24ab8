"""The way that text files encode rows, from a storage descriptor: the SerDe and its characters. Pure functions.

Three SerDes are supported: Hive's own for delimited text (LazySimpleSerDe), OpenCSVSerde, and those for JSON.
Properties are read as in Hive: a delimiter is a character or its number, and ``serialization.format`` is the default
delimiter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from hive_metastore.ttypes import StorageDescriptor

from metastore.errors import FormatError


class SerdeKind(Enum):
    """The kind of SerDe that splits a line into fields."""

    DELIMITED = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
    CSV = "org.apache.hadoop.hive.serde2.OpenCSVSerde"
    JSON = "org.apache.hive.hcatalog.data.JsonSerDe"


@dataclass(frozen=True, kw_only=True)
class TextSerde:
    """One way of reading lines. Characters are single bytes; ``escape`` or ``quote`` is None if there is none.

    ``null`` is the text of a null field. ``odd`` is set if a property changes values in an unsupported way. Lines are
    counted then, and no value is read.
    """

    rows: SerdeKind
    delimiter: bytes = b"\x01"
    escape: bytes | None = None
    quote: bytes | None = None
    null: bytes = b"\\N"
    last_takes_rest: bool = False
    encoding: str = "utf-8"
    header: int = 0
    footer: int = 0
    odd: bool = False


_JSON: Final = frozenset(
    {
        "org.apache.hive.hcatalog.data.JsonSerDe",
        "org.apache.hadoop.hive.serde2.JsonSerDe",
        "org.openx.data.jsonserde.JsonSerDe",
    }
)
_ODD: Final = ("timestamp.formats", "hive.lazysimple.extended_boolean_literal")
_DEFAULT_ESCAPE: Final = b"\\"
_QUOTE: Final = b'"'


def text_serde(descriptor: StorageDescriptor, parameters: Mapping[str, str]) -> TextSerde:
    """Returns how to read the text files of ``descriptor``; ``parameters`` are the table's.

    Raises FormatError for an unsupported SerDe, or a delimiter that is not a single byte.
    """
    name = str(descriptor.serdeInfo.serializationLib or "")
    properties = {**parameters, **(descriptor.parameters or {}), **(descriptor.serdeInfo.parameters or {})}
    header, footer = _count(properties, "skip.header.line.count"), _count(properties, "skip.footer.line.count")
    if name in _JSON:
        return TextSerde(rows=SerdeKind.JSON, header=header, footer=footer, odd=_has_mappings(properties))
    if name == SerdeKind.CSV.value:
        escape = _byte(properties.get("escapeChar"), _QUOTE)
        return TextSerde(
            rows=SerdeKind.CSV,
            delimiter=_byte(properties.get("separatorChar"), b","),
            # The property's default, a quote, means the parser's own default.
            escape=_DEFAULT_ESCAPE if escape == _QUOTE else escape,
            quote=_byte(properties.get("quoteChar"), _QUOTE),
            header=header,
            footer=footer,
        )
    if name != SerdeKind.DELIMITED.value:
        raise FormatError(f"its text is read by {name or 'no SerDe'}, which is not supported")
    if properties.get("line.delim", "\n") not in ("\n", "10"):
        raise FormatError(f"its lines end by {properties['line.delim']!r}, and Hive knows line breaks only")
    escaped = properties.get("escape.delim")
    return TextSerde(
        rows=SerdeKind.DELIMITED,
        delimiter=_byte(properties.get("field.delim", properties.get("serialization.format")), b"\x01"),
        escape=None if escaped is None else _byte(escaped, _DEFAULT_ESCAPE),
        quote=None,
        null=properties.get("serialization.null.format", "\\N").encode(),
        last_takes_rest=properties.get("serialization.last.column.takes.rest", "").lower() == "true",
        encoding=properties.get("serialization.encoding", "utf-8").lower(),
        header=header,
        footer=footer,
        odd=any(key in properties for key in _ODD),
    )


def _byte(text: str | None, default: bytes) -> bytes:
    """Returns the byte of a character, or of a character's number."""
    if not text:
        return default
    try:
        return bytes([int(text) % 256]) if -128 <= int(text) <= 127 else text[0].encode("ascii")
    except ValueError:
        pass
    try:
        return text[0].encode("ascii")
    except UnicodeEncodeError as error:
        raise FormatError(f"{text!r} delimits its text, and is no single byte") from error


def _count(properties: Mapping[str, str], name: str) -> int:
    text = properties.get(name, "0")
    if not text.isdecimal():
        raise FormatError(f"{name} is {text!r}, and no number of lines")
    return int(text)


def _has_mappings(properties: Mapping[str, str]) -> bool:
    """Returns whether columns have other names in the files."""
    return any(key.startswith("mapping.") for key in properties)
