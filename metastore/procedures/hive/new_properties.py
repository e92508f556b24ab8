"""Properties that a call gives to a new Iceberg table: ``format-version`` chooses its version, others are stored."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Literal

from metastore.errors import InvalidRequestError

FORMAT_VERSION: Final = "format-version"

_DEFAULT: Final = "2"

NewVersion = Literal[2, 3]


def new_properties(
    given: Mapping[str, str | None] | None, own: Collection[str]
) -> tuple[NewVersion, Mapping[str, str]]:
    """Return the format version, and the properties to store. ``own`` are properties that the procedure sets itself.

    Raises InvalidRequestError for another version, a property of ``own``, and a value that is missing.
    """
    properties = dict(given or {})
    text = properties.pop(FORMAT_VERSION, _DEFAULT)
    if text not in ("2", "3"):
        raise InvalidRequestError(f"property {FORMAT_VERSION} is {text!r}; new tables have format version 2 or 3")
    if taken := sorted(properties.keys() & set(own)):
        raise InvalidRequestError(f"property {', '.join(taken)} is set by the procedure itself; leave it out")
    stored = {key: value for key, value in properties.items() if key and value is not None}
    if missing := sorted(properties.keys() - stored.keys()):
        raise InvalidRequestError(f"property {', '.join(map(repr, missing))} has no name or no value")
    return 3 if text == "3" else 2, stored
