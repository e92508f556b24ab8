"""What can be decided about the columns of one Parquet schema by one writer, before the statistics are read.

A plan is created once per distinct (schema, writer) and applied to thousands of footers. It decides which leaves have
statistics, how they are read, and what the register of writers' faults
(:mod:`metastore.lake.formats.parquet.writer_faults`) doubts about them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from metastore.lake.formats.parquet.element_bounds import element_leaf
from metastore.lake.formats.parquet.parquet_columns import Leaf
from metastore.lake.formats.parquet.parquet_footer import Footer, schema_in
from metastore.lake.formats.parquet.parquet_types import ParquetType, is_of_old_calendar, moved_by_spark, reading_of
from metastore.lake.formats.parquet.refused_footers import with_maps
from metastore.lake.formats.parquet.writer_faults import Doubt, Writer, WrittenColumn
from metastore.model.column_path import ColumnPath, is_among, quote, repeated_names
from metastore.model.drill_types import DrillType, StructField, minor_type, parse_type
from metastore.model.elements import segments_of
from metastore.model.tuple_schema import (
    DOUBTED,
    FIELD_IDS,
    FIXED_LENGTH,
    LOGICAL_TYPE,
    MILLISECONDS,
    REFUSED,
    TIME_ZONE,
    SchemaColumn,
    TupleSchema,
    property_name,
    with_twins,
)

_PLANS_KEPT: Final = 32
"""Plans of wide schemas are megabytes, and tables with more schemas than a few are rare."""

_BYTES: Final = ParquetType("VARBINARY")

_FIELD_ID: Final = b"PARQUET:field_id"

_DRILL_WRITER: Final = b"drill-writer.version"
_DRILL_DATES: Final = b"is.date.correct"
_OF_RIGHT_DATES: Final = 2

_ARROW_SCHEMA: Final = b"ARROW:schema"
"""Where Arrow keeps its own types in a footer. Without it, a text may have been written from a dictionary."""


@dataclass
class FooterPlan:
    """The common properties of the footers of one schema, one writer and one calendar."""

    schema: TupleSchema
    leaves: tuple[Leaf, ...]
    writer: str
    old_calendar: bool
    beginning: bytes | None
    shapes: frozenset[str]
    dictionaries: tuple[int, ...] | None = None
    """Leaves that Arrow may have written from dictionaries; None if that makes no difference."""
    right_dates: bool = False
    schema_json: str = field(init=False)
    keys: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.schema_json = self.schema.to_json()
        self.keys = tuple(leaf.key for leaf in self.leaves)

    @classmethod
    def of(cls, footer: Footer, columns: Sequence[ColumnPath] | None) -> FooterPlan:
        """Returns the plan for files like the one of ``footer``; ``columns`` None means statistics of every leaf.

        A struct named in ``columns`` stands for all leaves below it.
        """
        old_calendar = is_of_old_calendar(footer.content)
        builder = _SchemaReader(footer, old_calendar=old_calendar)
        schema = builder.read()
        leaves = tuple(leaf for leaf in builder.leaves if columns is None or is_among(leaf.path, columns))
        writer = footer.metadata.created_by
        return cls(
            schema,
            leaves,
            writer,
            old_calendar,
            schema_in(footer.content),
            builder.shapes,
            builder.dictionaries,
            _has_right_dates(footer),
        )

    def fits(self, footer: Footer) -> bool:
        """Whether a footer has this schema and writer.

        Bytes are compared, because Arrow compares only leaves of schemas.
        """
        return (
            self.beginning is not None
            and footer.content.startswith(self.beginning)
            and footer.metadata.created_by == self.writer
            and is_of_old_calendar(footer.content) == self.old_calendar
            and _shapes(footer) == self.shapes
            and (self.dictionaries is None or self.dictionaries == _dictionaries(footer.metadata))
            and _has_right_dates(footer) == self.right_dates
        )


class Plans:
    """The plans of the latest schemas, over all tasks of this process; ``columns`` as for :meth:`FooterPlan.of`."""

    def __init__(self, columns: Sequence[ColumnPath] | None) -> None:
        self._columns = columns
        self._known: tuple[FooterPlan, ...] = ()

    def plan(self, footer: Footer) -> FooterPlan:
        """Returns the plan that fits ``footer``. Raises as pyarrow does for an invalid schema."""
        for known in self._known:
            if known.fits(footer):
                return known
        plan = FooterPlan.of(footer, self._columns)
        if plan.beginning is not None:  # without it, it fits no other footer
            # A new tuple, since another thread may be iterating over the old one.
            self._known = (plan, *self._known[: _PLANS_KEPT - 1])
        return plan


def arrow_schema_of(footer: Footer) -> pa.Schema:
    """Returns the columns of a file in Arrow's types; a map with optional keys is a map, too."""
    schema = footer.metadata.schema.to_arrow_schema()
    return schema if footer.accepted is None else pa.schema(map(with_maps, schema))


def believes(plan: FooterPlan, metadata: pq.FileMetaData) -> bool:
    """Whether all statistics that a footer of ``plan`` states of a leaf are trusted here.

    Then readers that skip row groups by the footer's own statistics lose no row.
    """
    for index in range(metadata.num_row_groups):
        group = metadata.row_group(index)
        for leaf in plan.leaves:
            chunk = group.column(leaf.index)
            stated = chunk.statistics
            if stated is None:
                continue
            low, _, nulls, _ = leaf.measure(chunk, group.num_rows)
            if (stated.has_min_max and low is None) or (stated.null_count is not None and nulls is None):
                return False
    return True


@lru_cache(maxsize=4)
def plans_of(columns: tuple[ColumnPath, ...] | None) -> Plans:
    """Returns this process's plans for statistics of these columns."""
    return Plans(columns)


class _SchemaReader:
    """Walks the Arrow form of a schema for its structure, and takes the leaves' types from the Parquet form.

    Parquet's own paths cannot distinguish a dotted name from a nested one; Arrow's types cannot distinguish JSON from
    text.
    """

    def __init__(self, footer: Footer, *, old_calendar: bool) -> None:
        metadata = footer.metadata
        self._old_calendar = old_calendar
        self._arrow = arrow_schema_of(footer)
        self._decimals = {} if footer.accepted is None else footer.accepted.decimals
        self._unread = {} if footer.accepted is None else footer.accepted.unread
        self.shapes = _shapes(footer)
        self._is_refused = footer.accepted is not None
        self._parquet = metadata.schema
        self._writer = Writer.of_parquet(metadata.created_by)
        self._right_dates = _has_right_dates(footer)
        self._next = 0
        self.leaves: list[Leaf] = []
        self._elements: list[tuple[int, ColumnPath]] = []
        self._from_dictionary = frozenset(_dictionaries(metadata))
        self._dictionary_matters = False

    def read(self) -> TupleSchema:
        """Returns the columns. Raises ValueError if two have one name, because the name would be ambiguous."""
        if repeated := repeated_names(self._arrow.names):
            raise ValueError(f"its schema names {repeated} more than once")
        columns = []
        for arrow in self._arrow:
            properties: dict[str, str] = {}
            type_ = self._type(arrow.type, (arrow.name,), properties, repeated=False)
            columns.append(SchemaColumn(arrow.name, str(type_), not arrow.nullable, properties))
        self.leaves += [leaf for found in self._elements if (leaf := self._element_leaf(*found)) is not None]
        ids = {quote(path): number for path, number in _field_ids(self._arrow, ())}
        marks = {FIELD_IDS: json.dumps(ids, ensure_ascii=False, separators=(",", ":"))}
        if self._is_refused:
            marks[REFUSED] = "true"
        return with_twins(TupleSchema(tuple(columns), marks))

    @property
    def dictionaries(self) -> tuple[int, ...] | None:
        """Returns the numbers of leaves that may come from dictionaries; None if no leaf's statistics depend on it."""
        return tuple(sorted(self._from_dictionary)) if self._dictionary_matters else None

    def _type(self, arrow: pa.DataType, path: ColumnPath, properties: dict[str, str], *, repeated: bool) -> DrillType:
        """Drill's type of ``arrow``. Takes Parquet's leaves in order; ``repeated`` is true inside lists and maps."""
        if isinstance(arrow, pa.BaseExtensionType):
            return self._type(arrow.storage_type, path, properties, repeated=repeated)
        if pa.types.is_struct(arrow):
            fields = (arrow.field(index) for index in range(arrow.num_fields))
            return DrillType(
                "STRUCT",
                fields=tuple(
                    StructField(
                        f.name, self._type(f.type, (*path, f.name), properties, repeated=repeated), not f.nullable
                    )
                    for f in fields
                ),
            )
        if pa.types.is_map(arrow):
            parts = (arrow.key_type, arrow.item_type)
            return self._container("MAP", parts, path, properties, repeated=repeated)
        if pa.types.is_nested(arrow):  # a list of any kind
            return self._container("ARRAY", (arrow.field(0).type,), path, properties, repeated=repeated)
        return self._leaf(path, properties, repeated=repeated)

    def _container(
        self, name: str, parts: Sequence[pa.DataType], path: ColumnPath, properties: dict[str, str], *, repeated: bool
    ) -> DrillType:
        """Returns the type of a list or map; the leaves of one that is in no other have bounds of their own."""
        types: list[DrillType] = []
        for segment, part in zip(segments_of(name), parts, strict=True):
            place = self._next
            types.append(self._type(part, (*path, segment), properties, repeated=True))
            is_plain = self._next == place + 1 and not types[-1].parts and types[-1].name != "STRUCT"
            if is_plain and not repeated and self._parquet.column(place).max_repetition_level == 1:
                self._elements.append((place, (*path, segment)))
        return DrillType(name, parts=tuple(types))

    def _leaf(self, path: ColumnPath, properties: dict[str, str], *, repeated: bool) -> DrillType:
        """The type of the next leaf. Adds its properties and, outside lists and maps, how it is measured."""
        column = self._parquet.column(self._next)
        wide = self._decimals.get(self._next)
        kind = ParquetType.of(column) if wide is None else ParquetType(f"DECIMAL({wide.digits}, {wide.scale})")
        if kind == _BYTES and column.path in self.shapes:
            kind = ParquetType(kind.type, "geometry")
        type_ = kind.type
        if kind.logical:
            properties[property_name(LOGICAL_TYPE, path)] = kind.logical
        if kind.zoned:
            properties[property_name(TIME_ZONE, path)] = "UTC"
        if kind.unit == "milliseconds":
            properties[property_name(MILLISECONDS, path)] = "true"
        if kind == _BYTES and column.physical_type == "FIXED_LEN_BYTE_ARRAY":
            properties[property_name(FIXED_LENGTH, path)] = str(column.length)
        if not repeated:
            written = self._column_as_written(column, minor_type(type_), path)
            if doubted := self._writer.why_doubted(written):
                properties[property_name(DOUBTED, path)] = doubted
            self.leaves.append(self._measured_leaf(column, kind, path, self._writer.doubts(written)))
        self._next += 1
        return parse_type(type_)

    def _measured_leaf(self, column: pq.ColumnSchema, kind: ParquetType, path: ColumnPath, doubt: Doubt) -> Leaf:
        type_ = minor_type(kind.type)
        reading = None if Doubt.BOUNDS in doubt or path[0] in self._unread else reading_of(column, kind)
        is_whole = type_ not in ("VARCHAR", "VARBINARY") or self._writer.keeps_bounds_whole
        return Leaf(
            self._next,
            path,
            column.physical_type,
            type_,
            column.max_definition_level == 0,
            moved_by_spark(kind, reading) if self._old_calendar else reading,
            is_whole and Doubt.EXACTNESS not in doubt,
            self._writer.bounds_show_nans,
            doubt,
        )

    def _element_leaf(self, index: int, path: ColumnPath) -> Leaf | None:
        if index in self._decimals or path[0] in self._unread:
            return None
        column = self._parquet.column(index)
        return element_leaf(column, index, path, self._writer, old_calendar=self._old_calendar)

    def _column_as_written(self, column: pq.ColumnSchema, type_: str, path: ColumnPath) -> WrittenColumn:
        in_struct = len(path) > 1 and column.max_definition_level > 0
        of_values, of_dictionary = (
            WrittenColumn(type_, column.physical_type, dictionary, in_struct, self._right_dates)
            for dictionary in (False, True)
        )
        is_alike = self._writer.doubts(of_values) == self._writer.doubts(of_dictionary)
        if is_alike or column.physical_type != "BYTE_ARRAY":
            return of_values
        self._dictionary_matters = True
        return of_dictionary if self._next in self._from_dictionary else of_values


def _has_right_dates(footer: Footer) -> bool:
    """Whether a file of Drill says of itself that its dates are those of Parquet; earlier ones are shifted."""
    if b"drill" not in footer.content:
        return False
    said = footer.metadata.metadata or {}
    version = said.get(_DRILL_WRITER, b"")
    return said.get(_DRILL_DATES) == b"true" or (version.isdigit() and int(version) >= _OF_RIGHT_DATES)


def _field_ids(fields: Iterable[pa.Field[Any]], above: ColumnPath) -> Iterator[tuple[ColumnPath, int]]:
    """Yields the paths of the columns and parts of columns that have a field id, each with its id."""
    for each in fields:
        path = (*above, each.name)
        if (number := (each.metadata or {}).get(_FIELD_ID)) is not None:
            yield path, int(number)
        yield from _field_ids(_parts(each.type), path)


def _parts(arrow: Any) -> Sequence[pa.Field[Any]]:
    if pa.types.is_struct(arrow):
        return [arrow.field(index) for index in range(arrow.num_fields)]
    if pa.types.is_map(arrow):
        return _under_names("MAP", arrow.key_field, arrow.item_field)
    return _under_names("ARRAY", arrow.field(0)) if pa.types.is_nested(arrow) else ()


def _under_names(container: str, *parts: pa.Field[Any]) -> list[pa.Field[Any]]:
    return [part.with_name(name) for name, part in zip(segments_of(container), parts, strict=True)]


def _shapes(footer: Footer) -> frozenset[str]:
    """Returns the columns of bytes that GeoParquet's own metadata calls geometries, which a schema does not."""
    if b'"primary_column"' not in footer.content:
        return frozenset()
    try:
        columns = json.loads((footer.metadata.metadata or {}).get(b"geo", b"{}")).get("columns", {})
        return frozenset(name for name, column in columns.items() if column.get("encoding") == "WKB")
    except (ValueError, AttributeError):
        return frozenset()


def _dictionaries(metadata: pq.FileMetaData) -> tuple[int, ...]:
    """Returns the numbers of leaves that Arrow wrote from dictionaries; all leaves if Arrow's own schema is missing."""
    if _ARROW_SCHEMA not in (metadata.metadata or {}):
        return tuple(range(metadata.num_columns))
    found: list[bool] = []
    for column in metadata.schema.to_arrow_schema():
        _collect_dictionaries(column.type, found)
    return tuple(number for number, is_dictionary in enumerate(found) if is_dictionary)


def _collect_dictionaries(arrow: pa.DataType, found: list[bool]) -> None:
    """Appends, for each leaf of a type in order, whether it is a dictionary."""
    if isinstance(arrow, pa.BaseExtensionType):
        arrow = arrow.storage_type
    if pa.types.is_dictionary(arrow) or not pa.types.is_nested(arrow):
        found.append(pa.types.is_dictionary(arrow))
    else:
        for index in range(arrow.num_fields):
            _collect_dictionaries(arrow.field(index).type, found)
