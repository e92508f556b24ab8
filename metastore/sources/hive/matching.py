"""Matches the columns of a Hive table with the columns of a file, and finds extra columns and misfits. Pure functions.

Names match without regard to case, as in Hive; ``_col0`` of old ORC writers match by position. Lists and maps match by
structure, whatever a writer called their parts. The result gives Iceberg's name mapping the names that files use, and
maps each leaf of a file to the table's leaf.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt
from pyiceberg.io.pyarrow import UTC_ALIASES

from metastore.sources.hive.tables import Columns
from metastore.sources.hive.time_units import why_refused
from metastore.sources.hive.types import ELEMENT, KEY, VALUE, HiveType, Path, leaves_of

_POSITIONAL: Final = re.compile(r"_col(\d+)")
_FIELD_IDS: Final = (b"PARQUET:field_id", b"iceberg.id")

Arrow = Any
"""A field or type of Arrow; its type stubs are incomplete."""


@dataclass(frozen=True)
class Extra:
    """A column, or a field of the struct ``parent``, that is in files but not in the table."""

    parent: Path
    name: str
    type: Arrow


@dataclass
class Match:
    """The result of matching one file's schema with the table.

    ``leaves`` has an entry for each leaf of the file, depth first: its index among the table's leaves, or None if the
    table does not have it. ``aliases`` maps the table's path of a column or field to its names in files. ``moments``
    maps the path of each timestamp to whether the file marks it as adjusted to UTC. ``problems`` are clauses of
    messages.
    """

    leaves: list[int | None] = field(default_factory=list)
    aliases: dict[Path, set[str]] = field(default_factory=lambda: defaultdict(set))
    extras: list[Extra] = field(default_factory=list)
    moments: dict[Path, bool] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def match(columns: Columns, schema: pa.Schema, *, timestamps: bool = True) -> Match:
    """Returns the match of ``columns`` with the schema of a file. Without ``timestamps``, timestamps are problems."""
    walk = _Walk({leaf.path: index for index, leaf in enumerate(leaves_of(columns))}, timestamps=timestamps)
    fields = list(schema)
    positions = [_POSITIONAL.fullmatch(each.name) for each in fields]
    if fields and all(positions):
        walk.by_position(columns, fields, [int(found.group(1)) for found in positions if found])
    else:
        walk.struct((), columns, fields)
    return walk.found


def has_names(schema: pa.Schema) -> bool:
    """Returns False if the columns of a file are all called ``_col0``, ``_col1`` and so on, else True."""
    return not len(schema) or not all(_POSITIONAL.fullmatch(each.name) for each in schema)


NAMELESS: Final = (
    "the columns of its ORC files are all called _col0, _col1 and so on, as Hive wrote them before release 2: Iceberg "
    "for Java reads these by position, and a query for one column would get another; write the files anew first, "
    "by CREATE TABLE … AS SELECT in Hive or Spark"
)
"""The reason why such files cannot be files of an Iceberg table."""


class _Walk:
    def __init__(self, ordinals: dict[Path, int], *, timestamps: bool) -> None:
        self.found = Match()
        self._ordinals = ordinals
        self._timestamps = timestamps

    def by_position(self, columns: Columns, fields: Sequence[Arrow], positions: Sequence[int]) -> None:
        for each, position in zip(fields, positions, strict=True):
            if position < len(columns):
                name, type_ = columns[position]
                self._pair((name,), type_, each)
            else:
                self._extra((), each)

    def struct(self, path: Path, columns: Iterable[tuple[str, HiveType]], fields: Iterable[Arrow]) -> None:
        wanted = {name.lower(): (name, type_) for name, type_ in columns}
        taken: dict[str, str] = {}
        for each in fields:
            lower = each.name.lower()
            if lower not in wanted:
                self._extra(path, each)
                continue
            if lower in taken:
                self._problem((*path, each.name), f"the file has it twice, as {taken[lower]} too")
            taken[lower] = each.name
            name, type_ = wanted[lower]
            self._pair((*path, name), type_, each)

    def _pair(self, path: Path, type_: HiveType, each: Arrow) -> None:
        self.found.aliases[path].add(each.name)
        if any(key in (each.metadata or {}) for key in _FIELD_IDS):
            self._problem(path, "the file has column ids of an Iceberg table, which Iceberg would take for this one's")
        self._types(path, type_, each.type)

    def _types(self, path: Path, type_: HiveType, arrow: Arrow) -> None:
        """Compare one column with the file's type, part by part; what does not fit is a problem, not an error."""
        if pt.is_dictionary(arrow):
            arrow = arrow.value_type
        match type_.name:
            case "struct" if pt.is_struct(arrow):
                self.struct(path, type_.fields, _fields(arrow))
            case "array" if pt.is_list(arrow) or pt.is_large_list(arrow):
                self._types((*path, ELEMENT), type_.parts[0], arrow.value_type)
            case "map" if pt.is_map(arrow):
                self._types((*path, KEY), type_.parts[0], arrow.key_type)
                self._types((*path, VALUE), type_.parts[1], arrow.item_type)
            case "struct" | "array" | "map":
                self._misfit(path, type_, arrow)
            case _ if pt.is_nested(arrow):
                self._misfit(path, type_, arrow)
            case _:
                self._leaf(path, type_, arrow)

    def _leaf(self, path: Path, type_: HiveType, arrow: Arrow) -> None:
        """Compare a leaf with the file's; its times are noted as moments or local times, which Hive does not say."""
        self.found.leaves.append(self._ordinals[path])
        if pt.is_null(arrow):
            self._problem(path, "the file has a column of no type, which Iceberg's readers refuse")
            return
        if pt.is_timestamp(arrow) and type_.name in ("timestamp", "timestamptz"):
            if not self._timestamps:
                self._problem(path, "a timestamp in Avro may mean two things, and engines disagree on which")
            if (why := why_refused(arrow)) is not None:
                self._problem(path, f"the file has {arrow}: {why}")
            if arrow.tz not in (None, *UTC_ALIASES):
                self._problem(path, f"the file says {arrow}, and PyIceberg reads no zone but UTC")
            is_moment = arrow.tz is not None
            if type_.name == "timestamptz" and not is_moment:
                self._misfit(path, type_, arrow, is_known=True)
            self.found.moments[path] = is_moment
        elif not _fits(type_, arrow):
            self._misfit(path, type_, arrow, is_known=True)

    def _extra(self, parent: Path, each: Arrow) -> None:
        self.found.extras.append(Extra(parent, each.name, each.type))
        self.found.leaves += [None] * _count(each.type)

    def _misfit(self, path: Path, type_: HiveType, arrow: Arrow, *, is_known: bool = False) -> None:
        if not is_known:
            self.found.leaves += [None] * _count(arrow)
        self._problem(path, f"the table says {type_}, and the file has {arrow}")

    def _problem(self, path: Path, why: str) -> None:
        self.found.problems.append(f"column {'.'.join(path)}: {why}")


def _fits(type_: HiveType, arrow: Arrow) -> bool:
    """Returns whether Iceberg's readers accept the file's type for the table's ``type_``: the same, or one to widen."""
    if type_.name == "decimal":
        precision, scale = type_.arguments
        return pt.is_decimal(arrow) and arrow.scale == scale and arrow.precision <= precision
    return any(test(arrow) for test in _FITTING.get(type_.name, ()))


def _is_small(arrow: Arrow) -> bool:
    return pt.is_int8(arrow) or pt.is_int16(arrow) or pt.is_int32(arrow)


_INTEGERS: Final = (_is_small,)
_STRINGS: Final = (pt.is_string, pt.is_large_string)
_FITTING: Final[dict[str, tuple[Callable[[Arrow], bool], ...]]] = {
    "boolean": (pt.is_boolean,),
    "tinyint": _INTEGERS,
    "smallint": _INTEGERS,
    "int": _INTEGERS,
    "bigint": (_is_small, pt.is_int64),
    "float": (pt.is_float32,),
    "double": (pt.is_float32, pt.is_float64),
    "string": _STRINGS,
    "char": _STRINGS,
    "varchar": _STRINGS,
    "binary": (pt.is_binary, pt.is_large_binary),
    "date": (pt.is_date32,),
}


def _fields(arrow: Arrow) -> Iterator[Arrow]:
    return (arrow.field(index) for index in range(arrow.num_fields))


def _count(arrow: Arrow) -> int:
    """Returns the number of leaves of an Arrow type."""
    return sum(_count(each.type) for each in _fields(arrow)) if pt.is_nested(arrow) else 1
