"""Columns from directories: dir0, dir1, … of every table, and ``k`` of directories named ``k=v``.

A path prunes without any statistics. Names and values of ``k=v`` are unescaped. Types and nulls follow
:mod:`metastore.sources.directory_values`, or a catalog's partition columns. ``Year=`` and ``year=`` are one column,
named like the first of them in order, unless names of the table are case-sensitive. ANALYZE and scans both read
directory names here, so that a column has one meaning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from urllib.parse import unquote

from metastore.model.drill_types import DrillType, minor_type
from metastore.model.statistics import ColumnStatistics, Value, merge
from metastore.predicates.columns import PredicateColumn
from metastore.sources.directory_values import NULL_DIRECTORY, infer_type, value_of

Directories = tuple[str, ...]


def directories_of(path: str, root: str) -> Directories:
    """Returns the directories between ``root`` and the file ``path``; none if the file is elsewhere."""
    prefix = root.rstrip("/") + "/"
    return tuple(path[len(prefix) :].split("/")[:-1]) if path.startswith(prefix) else ()


def column_of(directory: str) -> tuple[str, str] | None:
    """Returns the column of a directory ``name=value``, and its value as written; None for any other directory."""
    name, equals, value = directory.partition("=")
    return (unquote(name), value) if equals and name else None


def named_values(directories: Iterable[str], *, case_sensitive: bool = False) -> dict[str, str]:
    """Returns the columns of the named ``directories`` with their values as written.

    Of two directories with one name, the upper one counts. Columns are named by :func:`key_of`.
    """
    named = [found for directory in directories if (found := column_of(directory)) is not None]
    return {key_of(name, case_sensitive=case_sensitive): value for name, value in reversed(named)}


def key_of(name: str, *, case_sensitive: bool) -> str:
    """Returns the key that all spellings of one column share."""
    return name if case_sensitive else name.lower()


class DirectoryColumns:
    """The directory columns of one table, from all directories that contain its files.

    A directory ``dir0=v`` gives column ``dir0``, at any level. A directory hides none of ``of_files``, the columns that
    rows have from their files. ``known`` has the table's names for columns of directories, with their types where a
    catalog gives them.
    """

    def __init__(
        self,
        directories: Iterable[Directories],
        of_files: Collection[str] = (),
        known: Mapping[str, DrillType | None] | None = None,
        *,
        case_sensitive: bool = False,
    ) -> None:
        distinct = self._distinct = frozenset(directories)
        self._case_sensitive = case_sensitive
        depth = max(map(len, distinct), default=0)
        values: dict[str, set[str]] = {}
        found_in: Counter[str] = Counter()
        for levels in distinct:
            named = named_values(levels, case_sensitive=case_sensitive)
            found_in.update(named.keys())
            for key, value in named.items():
                values.setdefault(key, set()).add(value)
        hidden = {self._key(name) for name in of_files}
        plain = {
            f"dir{level}": level
            for level in range(depth)
            if f"dir{level}" not in values and f"dir{level}" not in hidden
        }
        levels_ = [PredicateColumn((name,), DrillType("VARCHAR"), from_directory=True) for name in plain]
        spelled = self._column_names() | {self._key(name): name for name in known or ()}
        types = {self._key(name): type_ for name, type_ in (known or {}).items()}
        columns = {
            key: _column(spelled[key], found, types.get(key)) for key, found in values.items() if key not in hidden
        }
        self.columns: Sequence[PredicateColumn] = [*levels_, *columns.values()]
        self._levels = {column.key: plain[column.path[0]] for column in levels_}
        self._named = {column.key: (key, column) for key, column in columns.items()}
        self._values = {key: found for key, found in values.items() if found_in[key] == len(distinct)}

    def __contains__(self, column: str) -> bool:
        return column in self._levels or column in self._named

    def statistics(self, column: str, directories: Directories) -> ColumnStatistics | None:
        """Returns the statistics of directory column ``column`` in ``directories``.

        They are one value for all rows, null, or nothing. Returns nothing, too, if the columns' types were inferred
        without these directories.
        """
        if directories not in self._distinct:
            return None
        level = self._levels.get(column)
        if level is not None:
            return _one_value(directories[level], "VARCHAR") if level < len(directories) else None
        key, named = self._named[column]
        value = named_values(directories, case_sensitive=self._case_sensitive).get(key)
        return None if value is None else _statistics_of(value, named)

    def bounds(self, column: str, rows: int | None) -> ColumnStatistics | None:
        """Returns the statistics of directory column ``column`` in all directories together, which hold ``rows`` rows.

        Returns nothing if some directories lack the column. A directory's files may have no rows, so no bound is exact.
        """
        each: list[ColumnStatistics | None]
        level = self._levels.get(column)
        if level is not None:
            if any(level >= len(levels) for levels in self._distinct):
                return None
            each = [_one_value(value, "VARCHAR") for value in {levels[level] for levels in self._distinct}]
        else:
            key, named = self._named[column]
            each = [_statistics_of(text, named) for text in self._values.get(key, ())] if named.usable else []
        known = [one for one in each if one is not None]
        if not known or len(known) < len(each):
            return None
        merged = merge(known)
        nulls, non_nulls = (0, rows) if merged.nulls == 0 else (rows, 0) if merged.non_nulls == 0 else (None, None)
        return replace(merged, min_exact=False, max_exact=False, nulls=nulls, non_nulls=non_nulls, rows=rows)

    def _key(self, name: str) -> str:
        return key_of(name, case_sensitive=self._case_sensitive)

    def _column_names(self) -> dict[str, str]:
        """Returns the columns' names: of several spellings, the first in order."""
        named = {found[0] for levels in self._distinct for directory in levels if (found := column_of(directory))}
        return {self._key(name): name for name in sorted(named, reverse=True)}


def _column(name: str, values: Collection[str], type_: DrillType | None) -> PredicateColumn:
    if type_ is not None:
        return PredicateColumn((name,), type_, from_directory=True)
    found, is_agreed = infer_type(values)
    return PredicateColumn((name,), found, from_directory=True, usable=is_agreed)


def _statistics_of(value: str, column: PredicateColumn) -> ColumnStatistics | None:
    if value == NULL_DIRECTORY:
        return ColumnStatistics(minor_type(column.type.name), non_nulls=0)
    if not value:  # null here; other engines may read an empty text
        return None
    try:
        typed = value_of(unquote(value), column.type)
    except ValueError:
        return None
    return None if typed != typed else _one_value(typed, minor_type(column.type.name))


def _one_value(value: Value, type_: str) -> ColumnStatistics:
    return ColumnStatistics(type_, value, value, nulls=0, nans=0)
