"""Pseudo columns: facts about a row's file. ``SELECT *`` does not include them, and a real column hides them.

=====================  ===================================================================================
column                 value
=====================  ===================================================================================
``$path``              path of the file, as the metastore has it
``$file_modified_time``  time of the file's last change, in UTC, to the microsecond; on stores, to the millisecond
``$partition``         directories of the file below its table (``year=2024/month=1``); null where it has none
``fqn``                path of the file without scheme and authority
``filepath``           the same of its directory
``filename``           name of the file
``suffix``             what follows the last dot of the name; empty without one
=====================  ===================================================================================

The first three have Trino's names. The others have Apache Drill's names, which match in any case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import pyarrow as pa

from metastore.ground.epoch import EPOCH_UTC
from metastore.model.bounds.bound_arrays import Mask
from metastore.model.bounds.statistics_columns import StatisticsColumns
from metastore.model.column_path import quote
from metastore.model.drill_types import DrillType
from metastore.model.statistics import ColumnStatistics, Value
from metastore.predicates.columns import PredicateColumn
from metastore.scan.pruning.evaluate import Statistics
from metastore.scan.pruning.listed_files import ListedFiles
from metastore.scan.pruning.row_id import ROW_ID
from metastore.sources.directories import directories_of

MODIFIED: Final = "$file_modified_time"
PARTITION: Final = "$partition"


class _File(NamedTuple):
    """A file of a table: its path, the table's location, and its modification time in epoch nanoseconds."""

    path: str
    location: str
    modified: int | None


def _modification_time(file: _File) -> datetime | None:
    if file.modified is None:
        return None
    if "://" in file.path:  # digits below a millisecond tell states apart that have one time
        return EPOCH_UTC + timedelta(milliseconds=file.modified // 1_000_000)
    return EPOCH_UTC + timedelta(microseconds=file.modified // 1000)


def _fqn(file: _File) -> str:
    """The path without scheme and authority, as in Hadoop's ``Path.getPathWithoutSchemeAndAuthority``."""
    _, is_uri, rest = file.path.partition("://")
    return f"/{rest.partition('/')[2]}" if is_uri else file.path


def _name(file: _File) -> str:
    return file.path.rpartition("/")[2]


_VALUES: Final[Mapping[str, Callable[[_File], Value | None]]] = {
    "$path": lambda file: file.path,
    MODIFIED: _modification_time,
    PARTITION: lambda file: "/".join(directories_of(file.path, file.location)) or None,
    "fqn": _fqn,
    "filepath": lambda file: _fqn(file).rpartition("/")[0],
    "filename": _name,
    "suffix": lambda file: _name(file).rpartition(".")[2] if "." in _name(file) else "",
}

PSEUDO_COLUMNS: Final[Mapping[str, pa.DataType]] = {
    name: pa.timestamp("us", "UTC") if name == MODIFIED else pa.string() for name in _VALUES
}
"""All pseudo columns with their types."""


def pseudo_columns(text: str, taken: Iterable[str]) -> tuple[str, ...]:
    """The pseudo columns that ``text`` (a condition or list of names) may name and no column in ``taken`` hides."""
    named = {found.lower() for found in _WORD.findall(text)} & PSEUDO_COLUMNS.keys()
    hidden = {name.lower() for name in taken} if named else set()
    return tuple(name for name in PSEUDO_COLUMNS if name in named and name not in hidden)


NOT_KEPT: Final = {
    MODIFIED: "the table's metadata records no times of its files; select $path, and ask the store for the time",
    PARTITION: "directories of a table in a catalog have no meaning; select its partition columns",
}
"""Why tables of catalogs lack two of the columns, and the alternative; some catalogs do provide files' times."""

_NOT_IN_CONDITIONS: Final = {ROW_ID: "statistics cannot test row ids; pass among=ids to a scan, or ask in a SELECT"}

_WORD: Final = re.compile(r"[\w$]+")


@dataclass(frozen=True)
class FileColumns:
    """The pseudo columns ``names`` for files of a table at ``location``; ``modified`` has the files' times in ns."""

    names: Collection[str] = ()
    location: str = ""
    modified: Mapping[str, int] | None = None
    absent: Mapping[str, str] = field(default_factory=dict)
    """The reason for each pseudo column that this table lacks."""

    @classmethod
    def named_in(
        cls,
        text: str,
        taken: Iterable[str],
        location: str,
        listing: ListedFiles | None,
        *,
        is_kept: bool = False,
        modified: Mapping[str, int] | None = None,
    ) -> FileColumns:
        """The pseudo columns that ``text`` may name, beside the table's own columns ``taken``.

        ``listing`` has the files' times. ``is_kept`` means that a catalog keeps the table: its directories say nothing,
        and ``modified`` has the times, in epoch nanoseconds by path, or is None if the catalog provides none.
        """
        absent = {name: why for name, why in NOT_KEPT.items() if is_kept and (modified is None or name != MODIFIED)}
        names = pseudo_columns(text, (*taken, *absent))
        times = modified if is_kept else None
        if MODIFIED in names and listing is not None and not is_kept:
            times = listing.times_by_path()
        return cls(names, location, times, _NOT_IN_CONDITIONS | absent)

    @property
    def schema(self) -> pa.Schema:
        """The columns as an Arrow schema."""
        return pa.schema([(name, PSEUDO_COLUMNS[name]) for name in self.names])

    @property
    def columns(self) -> Sequence[PredicateColumn]:
        """The columns as conditions use them."""
        return [
            PredicateColumn((name,), DrillType("TIMESTAMP" if name == MODIFIED else "VARCHAR"), zoned=name == MODIFIED)
            for name in self.names
        ]

    def values(self, path: str) -> Mapping[str, Value | None]:
        """The value of each column in the rows of the file at ``path``."""
        return {name: self.value(name, path) for name in self.names}

    def value(self, name: str, path: str) -> Value | None:
        """The value of one column in the rows of the file at ``path``."""
        return _VALUES[name](_File(path, self.location, None if self.modified is None else self.modified.get(path)))

    def beside(self, others: Statistics, paths: pa.Array[Any] | None) -> Statistics:
        """``others`` extended by these columns; ``paths`` has each container's file, None if containers span files."""
        return _Beside(self, others, paths) if self.names else others


class _Beside:
    def __init__(self, files: FileColumns, others: Statistics, paths: pa.Array[Any] | None) -> None:
        self._files = files
        self._names = {quote((name,)): name for name in files.names}
        self._others = others
        self._paths = paths

    def of(self, column: str, among: Mask) -> StatisticsColumns:
        """See :class:`metastore.scan.pruning.evaluate.Statistics`."""
        name = self._names.get(column)
        if name is None:
            return self._others.of(column, among)
        if self._paths is None:
            return StatisticsColumns.nothing(len(among))
        type_ = "TIMESTAMP" if name == MODIFIED else "VARCHAR"
        paths: list[Any] = self._paths.to_pylist()
        return StatisticsColumns.of([_one_value(self._files.value(name, path), type_) for path in paths])


def _one_value(value: Value | None, type_: str) -> ColumnStatistics | None:
    """The statistics of rows that all have ``value``; None if a time is unknown."""
    if value is not None:
        return ColumnStatistics(type_, value, value, nulls=0)
    return None if type_ == "TIMESTAMP" else ColumnStatistics(type_, non_nulls=0)
