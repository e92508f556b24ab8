"""What ``analyze`` is asked for, from the texts of the command line."""

from __future__ import annotations

from metastore.analyze.run import Request

_ALL = "*"


def request(
    columns: str | None,
    level: str,
    statistics: str | None,
    sample: float | None,
    format_: str | None,
    schema: str | None,
    case_sensitive: bool | None,
) -> Request:
    """The request; a sample alone asks for statistics of all columns, and so does ``*``."""
    if statistics is None:
        described: list[str] | bool = sample is not None
    else:
        described = True if statistics.strip() == _ALL else names(statistics)
    chosen = None if columns is None else names(columns)
    return Request(chosen, level.upper(), described, sample, format_, schema, case_sensitive)


def names(text: str) -> list[str]:
    """The parts between commas."""
    return [each.strip() for each in text.split(",") if each.strip()]
