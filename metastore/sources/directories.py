"""Columns that directories give: dir0, dir1, … of every table, and ``k`` of directories named ``k=v``.

A path prunes without any statistics. Names and values of ``k=v`` are unescaped, the reserved name means null, and the
type of the column is inferred over all its values, as Spark, DuckDB and Arrow do. Where those would infer different
types, the column is marked as not usable, and nothing is pruned by it. ANALYZE and scans read names of directories here
too, so that a column has one meaning.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import date
from urllib.parse import unquote

from metastore.model.drill_types import DrillType, minor_type
from metastore.model.statistics import ColumnStatistics, Value
from metastore.predicates.columns import PredicateColumn

Directories = tuple[str, ...]

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"

_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_DECIMAL = re.compile(r"-?\d{1,15}\.\d{1,15}", re.ASCII)
_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", re.ASCII)
_TEXT = re.compile(r"(?!t\d|nan|inf|epoch)[^\W\d_].*", re.IGNORECASE | re.DOTALL)
"""Text to every engine: no number, date or time starts with such a letter."""

_ESCAPED_BYTES = re.compile(r"%[89a-f][0-9a-f]", re.IGNORECASE)
"""Escapes beyond ASCII, which engines decode in different ways."""

_INT_LIMIT = 2**31


def directories_of(path: str, root: str) -> Directories:
    """The directories between ``root`` and the file ``path``; none if the file lies elsewhere."""
    prefix = root.rstrip("/") + "/"
    return tuple(path[len(prefix) :].split("/")[:-1]) if path.startswith(prefix) else ()


def column_of(directory: str) -> tuple[str, str] | None:
    """The column that a directory ``name=value`` is named for, and its value as it stands; None for a plain one."""
    name, equals, value = directory.partition("=")
    return (unquote(name), value) if equals and name else None


def named_values(directories: Iterable[str]) -> dict[str, str]:
    """Column name -> value as it stands, of those ``directories`` that are named; of two of one name the upper one."""
    named = [found for directory in directories if (found := column_of(directory)) is not None]
    return dict(reversed(named))


class DirectoryColumns:
    """The directory columns of one table, from all directories that its files lie in.

    A directory ``dir0=v`` gives column ``dir0``, whichever level it is on. No directory hides one of ``of_files``,
    the columns that rows have from their files.
    """

    def __init__(self, directories: Iterable[Directories], of_files: Collection[str] = ()) -> None:
        distinct = self._distinct = frozenset(directories)
        depth = max(map(len, distinct), default=0)
        values: dict[str, set[str]] = {}
        for levels in distinct:
            for name, value in named_values(levels).items():
                values.setdefault(name, set()).add(value)
        plain = {f"dir{level}": level for level in range(depth) if f"dir{level}" not in {*values, *of_files}}
        levels_ = [PredicateColumn((name,), DrillType("VARCHAR"), from_directory=True) for name in plain]
        named = [_infer(name, found) for name, found in values.items() if name not in of_files]
        self.columns: Sequence[PredicateColumn] = [*levels_, *named]
        self._levels = {column.key: plain[column.path[0]] for column in levels_}
        self._named = {column.key: column for column in named}

    def __contains__(self, column: str) -> bool:
        return column in self._levels or column in self._named

    def statistics(self, column: str, directories: Directories) -> ColumnStatistics | None:
        """What ``directories`` say about directory column ``column``: one value for all rows, null, or nothing.

        Nothing also where they are not among those that the columns' types were inferred from.
        """
        if directories not in self._distinct:
            return None
        level = self._levels.get(column)
        if level is not None:
            return _one_value(directories[level], "VARCHAR") if level < len(directories) else None
        named = self._named[column]
        value = named_values(directories).get(named.path[0])
        return None if value is None else _typed(value, named)


def _infer(name: str, values: set[str]) -> PredicateColumn:
    known = {unquote(value) for value in values if value != NULL_DIRECTORY}
    doubtful = any(_ESCAPED_BYTES.search(value) for value in values)
    type_ = _common_type(known)
    usable = type_ is not None and not doubtful
    return PredicateColumn((name,), DrillType(type_ or "VARCHAR"), from_directory=True, usable=usable)


def _common_type(values: set[str]) -> str | None:
    """The type that every engine gives a column of ``values``, None where they would differ."""
    if not values or any(_TEXT.fullmatch(value) for value in values):
        return "VARCHAR"
    if all(_INTEGER.fullmatch(value) for value in values):
        return "INT" if all(-_INT_LIMIT <= int(value) < _INT_LIMIT for value in values) else "BIGINT"
    if all(_INTEGER.fullmatch(value) or _DECIMAL.fullmatch(value) for value in values):
        return "DOUBLE"
    return "DATE" if all(_DATE.fullmatch(value) and _is_day(value) for value in values) else None


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _typed(value: str, column: PredicateColumn) -> ColumnStatistics | None:
    type_ = column.type.name
    if value == NULL_DIRECTORY:
        return ColumnStatistics(minor_type(type_), non_nulls=0)
    text = unquote(value)
    if not text:  # Spark read null there while it took such directories, others read an empty text
        return None
    typed: Value = text
    if type_ in ("INT", "BIGINT"):
        typed = int(text)
    elif type_ == "DOUBLE":
        typed = float(text)
    elif type_ == "DATE":
        typed = date.fromisoformat(text)
    return _one_value(typed, minor_type(type_))


def _one_value(value: Value, type_: str) -> ColumnStatistics:
    return ColumnStatistics(type_, value, value, nulls=0, nans=0)
