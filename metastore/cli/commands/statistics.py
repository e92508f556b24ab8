"""Parses the options of ``analyze`` into a request."""

from __future__ import annotations

from collections.abc import Sequence

from metastore.analyze.request import AnalyzeRequest
from metastore.errors import InvalidRequestError
from metastore.lake.formats.bounds_from_data import SOURCES

_ALL = "*"


def request(  # noqa: PLR0913, PLR0917 - one for each option of the command
    columns: str | None,
    level: str,
    statistics: str | None,
    sample: float | None,
    format_: str | None,
    schema: str | None,
    options: Sequence[str] = (),
    case_sensitive: bool | None = None,
    bounds: str | None = None,
) -> AnalyzeRequest:
    """Returns the request. A sample without columns, and ``*``, ask for statistics of all columns."""
    if statistics is None:
        described: list[str] | bool = sample is not None
    else:
        described = True if statistics.strip() == _ALL else names(statistics)
    chosen = None if columns is None else names(columns)
    return AnalyzeRequest(
        columns=chosen,
        level=level.upper(),
        statistics=described,
        sample=sample,
        format=format_,
        schema=schema,
        options=_pairs(options) or None,
        bounds=_bounds(bounds),
        case_sensitive=case_sensitive,
    )


def _bounds(text: str | None) -> str | list[str] | None:
    """Parses ``auto``, ``footers``, ``data``, or names of columns."""
    return text if text is None or text.lower() in SOURCES else names(text)


def _pairs(options: Sequence[str]) -> dict[str, str]:
    """Parses ``name=value`` options. Raises InvalidRequestError for one without a value."""
    found = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals:
            raise InvalidRequestError(f"{option!r} is no option; write name=value, such as delimiter=';'")
        found[name] = value
    return found


def names(text: str) -> list[str]:
    """Returns the parts between commas."""
    return [each.strip() for each in text.split(",") if each.strip()]
