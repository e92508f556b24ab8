"""The columns that a predicate may name: those of the table's schema, and those from its directories.

Names are resolved as in Spark: the exact name first, then regardless of case if that is unambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

from metastore.errors import InvalidRequestError
from metastore.ground.suggestions import did_you_mean
from metastore.model.column_path import ColumnPath, parse, quote
from metastore.model.drill_types import DrillType, StructField, parse_type
from metastore.model.tuple_schema import IN_NANOSECONDS, LOGICAL_TYPE, TIME_ZONE, TupleSchema

_NEAREST = 3


@dataclass(frozen=True)
class PredicateColumn:
    """A column with its properties for reasoning about predicates.

    ``zoned`` means a TIMESTAMP adjusted to UTC; ``logical`` is the file format's name of a type that ``type`` lacks.
    ``usable`` is False if engines may disagree about the column's values: another column's name differs only in case,
    or the type of its directory values is in doubt.
    """

    path: ColumnPath
    type: DrillType
    zoned: bool = False
    from_directory: bool = False
    usable: bool = True
    logical: str = ""

    @property
    def nanos(self) -> bool:
        """Whether it is a TIMESTAMP in nanoseconds."""
        return self.type.name == "TIMESTAMP" and self.logical in IN_NANOSECONDS

    @cached_property
    def key(self) -> str:
        """The quoted path: the key of ``columnsStatistics``, and the name in resolved expressions."""
        return quote(self.path)


class _Names:
    """Distinct names in order, found in constant time in any case."""

    def __init__(self, names: Iterable[str]) -> None:
        self._alike: dict[str, list[str]] = {}
        self._all = tuple(dict.fromkeys(names))
        for name in self._all:
            self._alike.setdefault(name.lower(), []).append(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._all)

    def alike(self, name: str) -> Sequence[str]:
        """The names equal to ``name`` up to case."""
        return self._alike.get(name.lower(), ())

    def is_alone(self, name: str) -> bool:
        """Whether no other name differs from ``name`` only in case."""
        return len(self.alike(name)) == 1


class Columns:
    """All columns that a predicate on one table may name; directory columns hide schema columns of the same name."""

    def __init__(
        self,
        schema: TupleSchema,
        directory_columns: Sequence[PredicateColumn] = (),
        absent: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """``absent`` maps names of columns that only other tables have to the reason."""
        left_out = {name.lower(): reason for name, reason in schema.left_out.items()}
        self._absent = {**left_out, **absent}
        self._from_directories: Mapping[str, PredicateColumn] = {c.path[0]: c for c in directory_columns}
        self._from_schema = schema.by_name
        self._names = _Names((*self._from_directories, *self._from_schema))

    def resolve(self, path: ColumnPath, where: str) -> PredicateColumn:
        """The column at ``path``; ``where`` gives the position for an error.

        Raises InvalidRequestError for an unknown or ambiguous name, with the nearest known names.
        """
        name = self._match(path[0], self._names, path, where)
        unambiguous = self._names.is_alone(name)
        if name in self._from_directories and len(path) == 1:
            found_column = self._from_directories[name]
            return replace(found_column, usable=found_column.usable and unambiguous)
        column = self._from_schema.get(name)
        if column is None:
            raise self._unknown(path, where)
        type_ = parse_type(column.type)
        found = [name]
        for segment in path[1:]:
            fields: Mapping[str, StructField] = {f.name: f for f in type_.fields}
            if not fields and type_.parts:
                break  # inside an array or a map, which has no statistics
            names = _Names(fields)
            found.append(self._match(segment, names, path, where))
            unambiguous &= names.is_alone(found[-1])
            type_ = fields[found[-1]].type
        inside = tuple(found)
        zoned = column.leaf_property(TIME_ZONE, inside) is not None
        logical = column.leaf_property(LOGICAL_TYPE, inside) or ""
        return PredicateColumn(inside, type_, zoned=zoned, usable=unambiguous, logical=logical)

    def find(self, name: str) -> str | None:
        """The column called ``name``, in any case; None if there is none."""
        return next(iter(self._names.alike(name)), None)

    def resolve_reference(self, name: str) -> PredicateColumn:
        """The column that a PyIceberg reference names; a whole name (with its dots) takes precedence over a path."""
        if self._names.alike(name):
            return self.resolve((name,), "")
        return self.resolve(parse(name), "")

    def _match(self, name: str, known: _Names, path: ColumnPath, where: str) -> str:
        matching = known.alike(name)
        if name in matching:
            return name
        if len(matching) > 1:
            raise InvalidRequestError(f"column {'.'.join(path)!r}{where} may be any of {', '.join(matching)}")
        if not matching:
            raise self._unknown(path, where)
        return matching[0]

    def _unknown(self, path: ColumnPath, where: str) -> InvalidRequestError:
        name, known = ".".join(path), map(".".join, self._all_paths())
        if (why := self._absent.get(name.lower())) is not None:
            return InvalidRequestError(f"there is no column {name}{where} here: {why}")
        names = list(self._names)
        own = f"columns are {_some(names)}" if names else "the table has no columns: no data was in it"
        hint = did_you_mean(name, known, most=_NEAREST, cutoff=0.5, otherwise=own)
        return InvalidRequestError(f"unknown column {name!r}{where}{hint}")

    def _all_paths(self) -> Iterator[ColumnPath]:
        yield from ((name,) for name in self._names)
        yield from (path for path, _ in TupleSchema(tuple(self._from_schema.values())).leaves() if len(path) > 1)


def _some(names: Sequence[str], most: int = 20) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
