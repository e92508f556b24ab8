"""Numbers in the properties of a table, which its owner or another engine may have set to anything."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from metastore.errors import InvalidRequestError


def number_property(properties: Mapping[str, str], key: str, default: int, least: int = 1) -> int:
    """Return the whole number at ``key``. InvalidRequestError if it is not one, or below ``least``."""
    text = properties.get(key)
    if text is None:
        return default
    if not text.strip().isdecimal() or int(text) < least:
        raise InvalidRequestError(f"table property {key} is {text!r}, and must be a whole number of at least {least}")
    return int(text)


@contextmanager
def properties_checked() -> Iterator[None]:
    """Raise PyIceberg's complaint about a property's value as InvalidRequestError."""
    try:
        yield
    except ValueError as error:
        raise InvalidRequestError(f"a table property has a wrong value: {error}") from error
