"""How a unit declares its fields: on-disk column, type, and the metadata types it is set for.

The declaration is written once, on the unit's dataclass; Iceberg schema, Arrow schema, projections and documentation
derive from it (``metastore.mapping``). Field order is column order, and column order gives the Iceberg field ids, so a
new field may only be added at the end.
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
    """Keep what ``derive`` makes of a unit class: declarations do not change while a process runs."""
    return cache(derive)  # type: ignore[return-value] # a class is hashable; mypy looks at its instances


def stored_as(name: str, type_: ColumnType, *set_for: MetadataType) -> Any:
    """Declare a unit's field stored in column ``name``; without ``set_for`` it is set for every metadata type."""
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
    """``names`` as they are, or InvalidRequestError naming the unknown ones and all known ones."""
    known = {c.name for c in columns_of(unit_type)}
    asked = tuple(names)
    if unknown := [name for name in asked if name not in known]:
        raise InvalidRequestError(
            f"unknown column {', '.join(map(repr, unknown))}; the columns are {', '.join(column_names(unit_type))}"
        )
    return asked


class Unit:
    """What every component's unit shares: a frozen dataclass whose fields are declared with :func:`stored_as`."""

    partition_columns: ClassVar[tuple[str, ...]]
    """Columns whose values, in this order, name the partition (= one Parquet file) that the unit lives in."""

    location_columns: ClassVar[tuple[str, ...]]
    """Columns whose values, in this order, name the folders of that file below the component's location."""

    bounded_columns: ClassVar[tuple[str, ...]] = ()
    """Scalar columns whose bounds go into the manifests, so that lists of them open no data file."""

    kind_column: ClassVar[str | None] = None
    """Column that tells kinds of units of one partition apart, where a reader wants one kind and not the others."""

    digested: ClassVar[bool] = False
    """Whether partitions of these units may be segments, of which manifests keep a digest."""

    @classmethod
    def cluster(cls, key: Sequence[str]) -> int:
        """Number of the cluster that the partition ``key`` belongs to; manifests hold entries of one cluster only."""
        return 0

    @classmethod
    def from_columns(cls, values: Mapping[str, Any]) -> Any:
        """A unit from on-disk column names; columns that are absent stay None, unknown ones are refused."""
        require_columns(cls, values)
        return cls(**{c.attribute: values[c.name] for c in columns_of(cls) if c.name in values})

    def to_columns(self) -> dict[str, Any]:
        """All columns with their values, by on-disk name, in on-disk order."""
        return {c.name: getattr(self, c.attribute) for c in columns_of(type(self))}
