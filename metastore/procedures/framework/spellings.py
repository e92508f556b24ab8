"""Translates arguments in the spelling of Spark, Trino and Presto into ours, before arguments are bound.

Spark names a table by one string, ``'db.t'``; here, as in Presto, schema and name are two arguments. A foreign name is
translated only if the procedure has no argument of that name itself. Unknown names stay as given; the binding then
refuses them by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from typing import Any, Final

from metastore.config.units import parse_duration
from metastore.errors import InvalidRequestError
from metastore.procedures.framework.binding import GivenArgument
from metastore.procedures.framework.model import BaseProcedure

_NAMES: Final[Mapping[str, tuple[str, ...]]] = {
    "schema": ("schema_name",),
    "schema_name": ("schema",),
    "where": ("filter",),
    "tag_name": ("tag",),
    "branch_name": ("branch",),
    "sort_order": ("sorted_by",),
    "retention_threshold": ("older_than",),
}
"""Argument names of other engines, each with our names of the same meaning."""

_PART: Final = re.compile(r"`((?:[^`]|``)+)`|\"((?:[^\"]|\"\")+)\"|([^.`\"]+)")
_FORMATS: Final = ("parquet", "orc", "avro")
_COMMA: Final = re.compile(r",(?![^(]*\))")
_DURATION: Final = re.compile(r"\s*\d+(\.\d+)?\s*[a-zA-Z]+\s*")


def in_our_words(
    procedure: BaseProcedure, catalog: str, given: Sequence[GivenArgument], now_ms: Callable[[], int]
) -> list[GivenArgument]:
    """Returns ``given`` with the argument names of ``procedure``. Durations count back from ``now_ms``.

    A table name may begin with ``catalog``. Raises InvalidRequestError if a table name has no schema.
    """
    names = {argument.name for argument in procedure.arguments}
    if given and given[0].name is None:
        return _by_position(procedure, catalog, given)
    return [each for argument in given for each in _by_name(names, catalog, argument, now_ms)]


def _by_position(procedure: BaseProcedure, catalog: str, given: Sequence[GivenArgument]) -> list[GivenArgument]:
    """Splits Spark's ``'db.t'`` in first place, if the second value is not a string or an argument would be missing."""
    schema_and_name = [argument.name for argument in procedure.arguments[:2]]
    first, *others = given
    required = sum(argument.required for argument in procedure.arguments)
    if (
        schema_and_name not in (["schema", "table_name"], ["schema_name", "table_name"])
        or not isinstance(first.value, str)
        or "." not in first.value
        or (others and isinstance(others[0].value, str) and len(given) >= required)
    ):
        return list(given)
    schema, table = _table(first.value, catalog, first.place)
    return [replace(first, value=schema), replace(first, value=table), *others]


def _by_name(names: set[str], catalog: str, given: GivenArgument, now_ms: Callable[[], int]) -> Iterator[GivenArgument]:
    spelled = given.name or ""
    name = spelled if given.exact else spelled.lower()
    if name == "table" and "table" not in names and "table_name" in names and isinstance(given.value, str):
        schema, table = _table(given.value, catalog, given.place)
        yield replace(given, name="schema" if "schema" in names else "schema_name", value=schema)
        yield replace(given, name="table_name", value=table)
        return
    if name == "source_table" and {"location", "format"} <= names and isinstance(given.value, str):
        format_, location = _files_of(given.value, given.place)
        yield replace(given, name="location", value=location)
        yield replace(given, name="format", value=format_)
        return
    if name == "check_duplicate_files" and "duplicate_file" in names and isinstance(given.value, bool):
        given = replace(given, name="duplicate_file", value="ERROR" if given.value else "ALLOW")
    elif name not in names:
        ours = next((each for each in _NAMES.get(name, ()) if each in names), None)
        if ours is not None:
            given = replace(given, name=ours, value=_keys(given.value) if name == "sort_order" else given.value)
    if (given.name or "").lower() == "older_than":
        given = replace(given, value=_moment(given.value, now_ms))
    yield given


def _table(text: str, catalog: str, place: str | None) -> tuple[str, str]:
    parts = [a or b or c for a, b, c in _PART.findall(text)]
    if len(parts) > 2 and parts[0].lower() == catalog.lower():
        parts = parts[1:]
    if len(parts) < 2:
        at = f"{place}: " if place else ""
        raise InvalidRequestError(f"{at}table {text!r} names no schema; give schema and name, such as 'db.{text}'")
    return ".".join(parts[:-1]), parts[-1]


def _files_of(text: str, place: str | None) -> tuple[str, str]:
    """Returns the format and the location of Spark's name for files, such as ``parquet`.`/data/t``."""
    parts = [quoted or double or plain for quoted, double, plain in _PART.findall(text)]
    if len(parts) != 2 or parts[0].lower() not in _FORMATS:
        at = f"{place}: " if place else ""
        raise InvalidRequestError(
            f"{at}source_table {text!r} names no files by format and path, such as '`parquet`.`/data/t`'; the files of "
            "a Hive table are added by add_files_from_hive"
        )
    return parts[0], parts[1]


def _keys(value: Any) -> Any:
    """Returns the list of sort keys in one string; other values unchanged."""
    return [key.strip() for key in _COMMA.split(value)] if isinstance(value, str) else value


def _moment(value: Any, now_ms: Callable[[], int]) -> Any:
    """Returns the time that is a duration such as ``'7d'`` before now; other values unchanged."""
    if not isinstance(value, str) or not _DURATION.fullmatch(value):
        return value
    now = datetime.fromtimestamp(now_ms() / 1000, timezone.utc)
    try:
        back: timedelta = parse_duration(value.strip())
    except ValueError as error:
        raise InvalidRequestError(f"{value!r} is no duration: {error}") from error
    return now - back
