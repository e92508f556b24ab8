"""Results as JSON: fields by name, times in ISO 8601, and text for values that JSON does not have.

Promises: the document holds every field of the result, unrounded. It is valid JSON for every value that a column can
have; a bound of infinity is the text ``"Infinity"``.
"""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Protocol, runtime_checkable

from metastore.model.identity import TableInfo


@runtime_checkable
class HasDocument(Protocol):
    """A result whose document is not simply its fields."""

    def as_document(self) -> object:
        """Returns the value that becomes the document."""


class LazyList(list[Any]):
    """A list whose items become documents one by one when they are written, so that a million need little memory."""

    def __init__(self, items: Sequence[Any]) -> None:
        super().__init__()
        self._items = items

    def __iter__(self) -> Iterator[Any]:
        return map(document, self._items)

    def __len__(self) -> int:
        return len(self._items)


def document(value: Any) -> Any:
    """Returns ``value`` in types of :mod:`json`: dataclasses as objects of their public fields, bytes as base64."""
    match value:
        case Enum():
            return value.value
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else json.dumps(value)
        case Mapping():
            return {str(key): document(item) for key, item in value.items()}
        case bytes():
            return b64encode(value).decode()
        case date() | time():
            return value.isoformat()
        case Decimal() | TableInfo() | timedelta():
            return str(value)
        case HasDocument():
            return document(value.as_document())
        case _ if is_dataclass(value):
            return {field.name: document(getattr(value, field.name)) for field in fields(value)}
        case list() | tuple() | set() | frozenset():
            return [document(item) for item in value]
        case Sequence():
            return LazyList(value)
    raise TypeError(f"a result cannot hold a {type(value).__name__}")
