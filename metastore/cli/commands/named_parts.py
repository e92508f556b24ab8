"""The parts of a table that ``analyze`` looks at, from the texts of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from metastore.errors import InvalidRequestError
from metastore.sources.path_lists import paths_in


def arguments(partitions: Sequence[str], since: str | None, paths: str | None) -> dict[str, Any]:
    """The arguments of :meth:`Session.analyze` for these options; empty without any.

    Raises InvalidRequestError for a partition without a value, and as
    :func:`metastore.sources.path_lists.paths_in`.
    """
    found: dict[str, Any] = {}
    if partitions:
        found["partitions"] = [_values(each) for each in partitions]
    if since is not None:
        found["since"] = _values(since)
    if paths is not None:
        found["paths"] = tuple(paths_in(paths))
    return found


def _values(text: str) -> dict[str, str]:
    """``column=value`` of each level, by column."""
    levels = [level.partition("=") for level in text.strip("/").split("/")]
    if not all(name and equals for name, equals, _ in levels):
        raise InvalidRequestError(f"{text!r} is not a partition; write column=value, such as day=2026-11-24")
    return {name: value for name, _, value in levels}
