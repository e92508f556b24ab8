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
    "table_location": ("metadata_location",),
    "metadata_file_name": ("metadata_file",),
}
"""Argument names of other engines, each with our names of the same meaning."""

_CACHING: Final = "use_caching"
_HINTS: Final[Mapping[str, str]] = {"rewrite_manifests": _CACHING, "expire_snapshots": "stream_results"}
"""Arguments of Spark's procedures, by procedure, that change no result."""

_PART: Final = re.compile(r"`((?:[^`]|``)+)`|\"((?:[^\"]|\"\")+)\"|([^.`\"]+)")
_FORMATS: Final = ("parquet", "orc", "avro")
_COMMA: Final = re.compile(r",(?![^(]*\))")
_SIZE: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*(B|kB|MB|GB|TB|PB)\s*")
_SIZE_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")
_THRESHOLD: Final = "file_size_threshold"
_SHARE_OF_TARGET: Final = 2
"""A new file is at least this many times as large as Trino's threshold, so that it is not merged again."""
_LEAST_TARGET: Final = 512 << 20
_DURATION: Final = re.compile(r"\s*(?:(?:\d+(?:\.\d+)?\s*[a-zA-Z]+\s*,?\s*)+|[pP][\dwdthms.]+)\s*", re.IGNORECASE)


def in_our_words(
    procedure: BaseProcedure, catalog: str, arguments: Sequence[GivenArgument], now_ms: Callable[[], int]
) -> list[GivenArgument]:
    """Returns ``arguments`` with the argument names of ``procedure``. Durations count back from ``now_ms``.

    A table name may begin with ``catalog``. Raises InvalidRequestError if a table name has no schema.
    """
    names = {argument.name for argument in procedure.arguments}
    arguments = _without_hints(procedure, arguments)
    if arguments and arguments[0].name is None:
        return _by_position(procedure, catalog, arguments)
    found = [each for argument in arguments for each in _by_name(names, catalog, argument, now_ms)]
    found = _with_metadata_location(found) if "metadata_location" in names else found
    return _with_options(found) if "options" in names else found


def _without_hints(procedure: BaseProcedure, arguments: Sequence[GivenArgument]) -> Sequence[GivenArgument]:
    """Leaves out what only says how Spark is to use its memory; by position, it follows the table's one name."""
    hint = _HINTS.get(procedure.name)
    if hint is None:
        return arguments
    if hint == _CACHING and len(arguments) > 1 and arguments[1].name is None and isinstance(arguments[1].value, bool):
        return [arguments[0], *arguments[2:]]
    return [each for each in arguments if (each.name or "").lower() != hint or not isinstance(each.value, bool)]


def _with_metadata_location(arguments: Sequence[GivenArgument]) -> list[GivenArgument]:
    """Spark's ``metadata_file`` is the whole path; ours is a name in the folder ``metadata_location``."""
    if any(each.name == "metadata_location" for each in arguments):
        return list(arguments)
    return [replace(each, name="metadata_location") if each.name == "metadata_file" else each for each in arguments]


def _by_position(procedure: BaseProcedure, catalog: str, arguments: Sequence[GivenArgument]) -> list[GivenArgument]:
    """Splits Spark's ``'db.t'`` in first place, if the second value is not a string or an argument would be missing."""
    schema_and_name = [argument.name for argument in procedure.arguments[:2]]
    first, *others = arguments
    required = sum(argument.required for argument in procedure.arguments)
    if (
        schema_and_name not in (["schema", "table_name"], ["schema_name", "table_name"])
        or not isinstance(first.value, str)
        or "." not in first.value
        or (others and isinstance(others[0].value, str) and len(arguments) >= required)
    ):
        return list(arguments)
    schema, table = parts_of_table(first.value, catalog, first.place)
    return [replace(first, value=schema), replace(first, value=table), *others]


def _by_name(
    names: set[str], catalog: str, argument: GivenArgument, now_ms: Callable[[], int]
) -> Iterator[GivenArgument]:
    """The argument under our name and in our form; a foreign table name becomes two arguments."""
    spelled = argument.name or ""
    name = spelled if argument.exact else spelled.lower()
    if name == "table" and "table" not in names and "table_name" in names and isinstance(argument.value, str):
        schema, table = parts_of_table(argument.value, catalog, argument.place)
        yield replace(argument, name="schema" if "schema" in names else "schema_name", value=schema)
        yield replace(argument, name="table_name", value=table)
        return
    if name == "source_table" and {"location", "format"} <= names and isinstance(argument.value, str):
        format_, location = _files_of(argument.value, argument.place)
        yield replace(argument, name="location", value=location)
        yield replace(argument, name="format", value=format_)
        return
    if name == "check_duplicate_files" and "duplicate_file" in names and isinstance(argument.value, bool):
        argument = replace(argument, name="duplicate_file", value="ERROR" if argument.value else "ALLOW")
    elif name not in names:
        ours = next((each for each in _NAMES.get(name, ()) if each in names), None)
        if ours is not None:
            argument = replace(
                argument, name=ours, value=_keys(argument.value) if name == "sort_order" else argument.value
            )
    if (argument.name or "").lower() == "older_than":
        argument = replace(argument, value=_moment(argument.value, now_ms))
    yield argument


def names_hive_table(source: object) -> bool:
    """Whether Spark's ``source_table`` names a table, and not files by format and path."""
    parts = _parts(source) if isinstance(source, str) else []
    return len(parts) > 1 and parts[0].lower() not in _FORMATS and "/" not in parts[-1]


def parts_of_table(text: str, catalog: str, place: str | None) -> tuple[str, str]:
    """Returns schema and name of a table in one text, which may begin with ``catalog``.

    Raises InvalidRequestError if it names no schema.
    """
    parts = _parts(text)
    if len(parts) > 2 and parts[0].lower() == catalog.lower():
        parts = parts[1:]
    if len(parts) < 2:
        at = f"{place}: " if place else ""
        raise InvalidRequestError(f"{at}table {text!r} names no schema; give schema and name, such as 'db.{text}'")
    return ".".join(parts[:-1]), parts[-1]


def _files_of(text: str, place: str | None) -> tuple[str, str]:
    """Returns the format and the location of Spark's name for files, such as ``parquet`.`/data/t``."""
    parts = _parts(text)
    if len(parts) != 2 or parts[0].lower() not in _FORMATS:
        at = f"{place}: " if place else ""
        raise InvalidRequestError(
            f"{at}source_table {text!r} names no files by format and path, such as '`parquet`.`/data/t`'; the files of "
            "a Hive table are added by add_files_from_hive"
        )
    return parts[0], parts[1]


def _parts(text: str) -> list[str]:
    return [quoted or double or plain for quoted, double, plain in _PART.findall(text)]


def _with_options(arguments: Sequence[GivenArgument]) -> list[GivenArgument]:
    """Returns the arguments with Trino's threshold among the ``options``: smaller files are written together."""
    threshold = next((each for each in arguments if (each.name or "").lower() == _THRESHOLD), None)
    if threshold is None:
        return list(arguments)
    size = _bytes(threshold)
    options = next((each for each in arguments if (each.name or "").lower() == "options"), None)
    own = {} if options is None or not isinstance(options.value, Mapping) else options.value
    made = {"min-file-size-bytes": str(size), "min-input-files": "2", "delete-file-threshold": "1"}
    if size * _SHARE_OF_TARGET > _LEAST_TARGET:
        made["target-file-size-bytes"] = str(size * _SHARE_OF_TARGET)
    others = [each for each in arguments if each is not threshold and each is not options]
    return [*others, replace(threshold, name="options", value={**made, **own})]


def _bytes(threshold: GivenArgument) -> int:
    found = _SIZE.fullmatch(threshold.value) if isinstance(threshold.value, str) else None
    if found is None:
        at = f"{threshold.place}: " if threshold.place else ""
        raise InvalidRequestError(f"{at}{_THRESHOLD} is a size such as '128MB', not {threshold.value!r}")
    return int(float(found[1]) * 1024 ** _SIZE_UNITS.index(found[2]))


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
