"""Declares the fields of a unit: on-disk column, type, and the metadata types that set the field.

The unit's dataclass is the single declaration. Iceberg schema, Arrow schema, projections and documentation derive from
it (``metastore.model.mapping``). Field order is column order, and column order gives the Iceberg field ids. A new field
may therefore only be added at the end.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, ClassVar, TypeVar, cast

from metastore.errors import InvalidRequestError
from metastore.model.vocabulary import MetadataType

R = TypeVar("R")

_METADATA_KEY = "metastore.column"

EVERY_TYPE = frozenset(MetadataType) - {MetadataType.ALL}


class ColumnType(Enum):
    """The types a unit's column can have; all columns are optional on disk."""

    STRING = "string"
    LONG = "long"
    INT = "int"
    STRING_LIST = "list<string>"
    STRING_MAP = "map<string,string>"
    FLOAT_MAP = "map<string,float>"


@dataclass(frozen=True)
class Column:
    """One column of a component's table: its on-disk name, type, and the metadata types that set it."""

    name: str
    type: ColumnType
    set_for: frozenset[MetadataType]
    attribute: str = ""


def once_per_unit(derive: Callable[[type[Unit]], R]) -> Callable[[type[Unit]], R]:
    """Caches the result of ``derive`` per unit class: declarations do not change while a process runs."""
    return cache(derive)  # type: ignore[return-value] # a class is hashable; mypy looks at its instances


def stored_as(name: str, type_: ColumnType, *set_for: MetadataType) -> Any:
    """Declares a unit's field stored in column ``name``; without ``set_for``, every metadata type sets it."""
    declared = Column(name, type_, frozenset(set_for) or EVERY_TYPE)
    return dataclasses.field(default=None, metadata={_METADATA_KEY: declared})


@once_per_unit
def columns_of(unit_type: type[Unit]) -> tuple[Column, ...]:
    """The columns of a unit class in on-disk order, each with the attribute that holds it."""
    return tuple(
        dataclasses.replace(field.metadata[_METADATA_KEY], attribute=field.name)
        for field in dataclasses.fields(cast("Any", unit_type))
        if _METADATA_KEY in field.metadata
    )


def column_names(unit_type: type[Unit], kinds: Iterable[MetadataType] = (MetadataType.ALL,)) -> tuple[str, ...]:
    """Names of the columns that are set for any of ``kinds``, in on-disk order."""
    wanted = set(kinds)
    return tuple(c.name for c in columns_of(unit_type) if MetadataType.ALL in wanted or wanted & c.set_for)


def require_columns(unit_type: type[Unit], names: Iterable[str]) -> tuple[str, ...]:
    """Returns ``names`` unchanged; raises InvalidRequestError naming the unknown ones and all known ones."""
    known = {c.name for c in columns_of(unit_type)}
    asked = tuple(names)
    if unknown := [name for name in asked if name not in known]:
        raise InvalidRequestError(
            f"unknown column {', '.join(map(repr, unknown))}; the columns are {', '.join(column_names(unit_type))}"
        )
    return asked


class Unit:
    """Base of every component's unit: a frozen dataclass whose fields are declared with :func:`stored_as`."""

    partition_columns: ClassVar[tuple[str, ...]]
    """Columns whose values, in this order, identify the unit's partition (one Parquet file)."""

    location_columns: ClassVar[tuple[str, ...]]
    """Columns whose values, in this order, name the folders of that file below the component's location."""

    bounded_columns: ClassVar[tuple[str, ...]] = ()
    """Scalar columns whose bounds go into the manifests, so that listing these columns opens no data file."""

    kind_column: ClassVar[str | None] = None
    """Column that separates kinds of units within a partition, for readers that want only one kind."""

    digested: ClassVar[bool] = False
    """Whether partitions of these units may be segments, whose digests manifests keep."""

    @classmethod
    def cluster(cls, key: Sequence[str]) -> int:
        """Number of the cluster of the partition ``key``; a manifest holds entries of one cluster only."""
        return 0

    @classmethod
    def from_columns(cls, values: Mapping[str, Any]) -> Any:
        """A unit from on-disk column names; missing columns are None, unknown ones raise an error."""
        require_columns(cls, values)
        return cls(**{c.attribute: values[c.name] for c in columns_of(cls) if c.name in values})

    def to_columns(self) -> dict[str, Any]:
        """All columns with their values, by on-disk name, in on-disk order."""
        return {c.name: getattr(self, c.attribute) for c in columns_of(type(self))}
