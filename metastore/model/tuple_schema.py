"""The columns of a table or file in Drill's ``tuple_schema`` JSON, and the merging of many files' schemas.

ANALYZE makes one schema per file and merges them upwards; pruning looks up column types. Types have Drill's SQL
spelling (:mod:`metastore.model.drill_types`). Column properties, named here, hold what Drill's types cannot express.
For a leaf inside a struct, the property's name is followed by a dot and the quoted path of the leaf below the column.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final

from metastore.errors import FormatError
from metastore.model.column_path import ColumnPath, named_alike, quote
from metastore.model.drill_types import DrillType, common_type, has_twin_fields, parse_type, spelled_for_drill

TIME_ZONE: Final = "metastore.timezone"
"""Column property: "UTC" for a TIMESTAMP that is adjusted to UTC, absent for local date-times."""

LOGICAL_TYPE: Final = "metastore.logical"
"""Column property: the file format's own name of a type that Drill lacks (uuid, json, …)."""

IN_NANOSECONDS: Final = frozenset({"time_ns", "timestamp_ns"})
"""Values of :data:`LOGICAL_TYPE` for times in nanoseconds; all other times have at most microseconds."""

IN_UTC: Final = "time_utc"
"""Value of :data:`LOGICAL_TYPE` for a TIME that is adjusted to UTC, in milliseconds or microseconds."""

_TYPE: Final = "metastore.type"
"""Column property: the column's type if Drill has no word for it and reads another type."""

DIRECTORY: Final = "metastore.directory"
"""Column property: the directory level (``dir0``) whose names are the column's values; files lack the column."""

_BOUNDS: Final = "metastore.statistics"
"""Column property of a directory's column: the table's statistics of it, where Drill does not find them.

Drill would look for the column in the files.
"""

KEPT: Final = "metastore.kept"
"""Schema property: "true" if a catalog defines the columns; directory types are then not inferred from values."""

CASE_SENSITIVE: Final = "metastore.case_sensitive"
"""Schema property: "true" if names that differ only in case are names of different columns."""

SPELLINGS: Final = "metastore.spellings"
"""Column property: a JSON list of the column's names in files, which differ only in case.

For a leaf inside a struct: a JSON list of its paths in files, each a list of names.
"""

TWIN: Final = "metastore.twin"
"""Column property: "true" if one file has another column whose name differs only in case."""

FIELD_IDS: Final = "metastore.field_ids"
"""Schema property of a Parquet file: a JSON object of the field ids in it, by quoted path; ``{}`` for none.

Units of earlier releases lack it: what they describe is not known well enough to be published.
"""

MILLISECONDS: Final = "metastore.milliseconds"
"""Column property of a leaf: "true" for times that a Parquet file counts in milliseconds."""

FIXED_LENGTH: Final = "metastore.fixed_length"
"""Column property of a leaf: the number of bytes of each value, if the file's type fixes it."""

DOUBTED: Final = "metastore.doubted"
"""Column property of a leaf: footer figures that are not trusted, with the writer and the reason; one per writer."""

TWIN_FIELDS: Final = "metastore.twin_fields"
"""Column property: "true" if one file has two fields of one struct whose names differ only in case."""

REFUSED: Final = "metastore.refused"
"""Schema property: "true" if Arrow refuses to open a file because of a column; the file is opened another way."""

HELD: Final = "metastore.int96_held"
"""Schema property: "true" if ANALYZE has read the file's INT96 times, and microseconds hold them."""

LEFT_OUT: Final = "metastore.left_out"
"""Schema property: a JSON object of the table's columns that cannot be read, each with the reason."""

VARIANT: Final = "variant"
"""Value of :data:`LOGICAL_TYPE` for the bytes of a variant: a struct of ``metadata`` and ``value``."""

_DIRECTORIES: Final = "metastore.directories"
"""Schema property: the columns of directories in JSON. Drill would look for such columns in files, and find nulls."""

_OF_LEAVES: Final = (TIME_ZONE, LOGICAL_TYPE)

_KIND = "tuple_schema"
_BETWEEN_DOUBTS: Final = "; "
_OWN_KEYS = {"format": "drill.format", "default": "drill.default"}
"""Properties that Drill's JSON writes beside ``properties`` instead of inside."""


def property_name(name: str, leaf: ColumnPath) -> str:
    """Key of property ``name`` for the leaf at ``leaf``, among the properties of the column ``leaf[0]``."""
    return f"{name}.{quote(leaf[1:])}" if len(leaf) > 1 else name


@dataclass(frozen=True)
class SchemaColumn:
    """One top-level column; ``required`` means that every row has a value."""

    name: str
    type: str
    required: bool = False
    properties: Mapping[str, str] = field(default_factory=dict)

    def leaf_property(self, name: str, leaf: ColumnPath) -> str | None:
        """Property ``name`` of the leaf at ``leaf`` (a full path that starts with this column).

        None if it is not set.
        """
        return self.properties.get(property_name(name, leaf))


def directory_column(name: str, type_: str, level: str, statistics: str | None = None) -> SchemaColumn:
    """The column of a directory ``level`` (``dir0``), with the JSON of its statistics if Drill must not see them."""
    return SchemaColumn(name, type_, properties={DIRECTORY: level} | ({_BOUNDS: statistics} if statistics else {}))


@dataclass(frozen=True)
class TupleSchema:
    """Columns in the order of the file, each name once (names are case-sensitive)."""

    columns: tuple[SchemaColumn, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Drill's JSON form."""
        columns = [_column_json(column) for column in self.columns if DIRECTORY not in column.properties]
        directories = [_column_json(column) for column in self.columns if DIRECTORY in column.properties]
        document: dict[str, Any] = {"type": _KIND, "columns": columns}
        properties = dict(self.properties)
        if directories:
            properties[_DIRECTORIES] = _json(directories)
        if properties:
            document["properties"] = properties
        return _json(document)

    @classmethod
    def from_json(cls, text: str) -> TupleSchema:
        """Reads Drill's JSON form or ours; raises FormatError for anything else."""
        return _of_json(text)

    @cached_property
    def by_name(self) -> Mapping[str, SchemaColumn]:
        """The columns by their exact names."""
        return {column.name: column for column in self.columns}

    @cached_property
    def directory_statistics(self) -> Mapping[str, str]:
        """The JSON of the statistics of directory columns that Drill does not know, by quoted path."""
        return {
            quote((column.name,)): column.properties[_BOUNDS]
            for column in self.columns
            if DIRECTORY in column.properties and _BOUNDS in column.properties
        }

    @cached_property
    def left_out(self) -> Mapping[str, str]:
        """Columns of the table that cannot be read, which :attr:`columns` lacks, each with the reason."""
        found: Mapping[str, str] = json.loads(self.properties.get(LEFT_OUT, "{}"))
        return found

    @cached_property
    def has_unread_moments(self) -> bool:
        """Whether times of INT96 may be others than those that Arrow returns; ANALYZE has not read them, or not all."""
        return HELD not in self.properties and any(
            value == "int96" for column in self.columns for value in column.properties.values()
        )

    def leaves(self) -> Iterator[tuple[ColumnPath, str]]:
        """Every leaf with its type, in order; structs are entered, arrays and maps are leaves."""
        for column in self.columns:
            yield from _leaves((column.name,), parse_type(column.type))


@lru_cache(maxsize=8)
def _of_json(text: str) -> TupleSchema:
    """Cached: a query reads the schema of a table several times, and a wide schema takes 20 ms each time."""
    try:
        document = json.loads(text)
        if document.get("type", _KIND) != _KIND:
            raise FormatError(f"a schema of type {document['type']!r} cannot be read, only {_KIND!r}")
        properties = dict(document.get("properties") or {})
        directories = json.loads(properties.pop(_DIRECTORIES, "[]"))
        columns = tuple(_column(entry) for entry in (*(document.get("columns") or ()), *directories))
        return TupleSchema(columns, properties)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise FormatError(f"{text[:200]!r} is no schema in JSON: {error!r}") from error


def merge(schemas: Iterable[TupleSchema]) -> TupleSchema:
    """One schema that holds the rows of all: columns in first-seen order, each with the narrowest common type.

    A column is required only if it is required in every schema. A property is kept if all schemas with the column
    agree.
    """
    distinct = list({id(schema): schema for schema in schemas}.values())
    columns: dict[str, list[SchemaColumn]] = {}
    for schema in distinct:
        for column in schema.columns:
            columns.setdefault(column.name, []).append(column)
    return TupleSchema(
        tuple(_merge_column(found, everywhere=len(found) == len(distinct)) for found in columns.values()),
        _common_properties([schema.properties for schema in distinct]),
    )


def with_twins(schema: TupleSchema) -> TupleSchema:
    """The schema of one file, with marks on columns and struct columns with names that differ only in case."""
    twins = {name for several in named_alike(column.name for column in schema.columns).values() for name in several}
    columns = []
    for column in schema.columns:
        marks = {TWIN: "true"} if column.name in twins else {}
        if has_twin_fields(parse_type(column.type)):
            marks[TWIN_FIELDS] = "true"
        columns.append(replace(column, properties={**column.properties, **marks}) if marks else column)
    return replace(schema, columns=tuple(columns))


def with_left_out(schema: TupleSchema, reasons: Mapping[str, str]) -> TupleSchema:
    """The schema of a table with other columns, which cannot be read; ``reasons`` maps their names to reasons."""
    return replace(schema, properties={**schema.properties, LEFT_OUT: _json(reasons)}) if reasons else schema


def _merge_column(columns: list[SchemaColumn], *, everywhere: bool) -> SchemaColumn:
    type_ = columns[0].type
    for column in columns[1:]:
        type_ = common_type(type_, column.type)
    required = everywhere and all(column.required for column in columns)
    return SchemaColumn(columns[0].name, type_, required, agreed_properties(columns))


def agreed_properties(columns: Sequence[SchemaColumn]) -> Mapping[str, str]:
    """The properties on which ``columns``, each of other files, agree.

    A leaf's property is kept if all columns with this leaf agree. Marks of twins and doubts about footers are kept if
    any column has them.
    """
    properties = [column.properties for column in columns]
    if all(each == properties[0] for each in properties):
        return properties[0]
    agreed = dict(_common_properties(properties))
    with_leaf: dict[ColumnPath, list[SchemaColumn]] = {}
    for column in columns:
        for (_, *inside), _ in TupleSchema((column,)).leaves():
            if inside:
                with_leaf.setdefault(("", *inside), []).append(column)
    for path, several in with_leaf.items():
        for kind in _OF_LEAVES:
            values = {column.leaf_property(kind, path) for column in several}
            if len(values) == 1 and (value := values.pop()) is not None:
                agreed[property_name(kind, path)] = value
    marks = {mark: "true" for mark in (TWIN, TWIN_FIELDS) if any(mark in each for each in properties)}
    return {**agreed, **_doubts(columns), **marks}


def _doubts(columns: Sequence[SchemaColumn]) -> Mapping[str, str]:
    """The doubts about leaves of any of the columns, joined."""
    all_: dict[str, dict[str, None]] = {}
    for column in columns:
        for key, doubts in column.properties.items():
            if key.startswith(DOUBTED):
                all_.setdefault(key, {}).update(dict.fromkeys(doubts.split(_BETWEEN_DOUBTS)))
    return {key: _BETWEEN_DOUBTS.join(sorted(doubts)) for key, doubts in all_.items()}


def _common_properties(properties: list[Mapping[str, str]]) -> Mapping[str, str]:
    if not properties or all(entry == properties[0] for entry in properties):
        return properties[0] if properties else {}
    return {key: value for key, value in properties[0].items() if all(p.get(key) == value for p in properties)}


def _leaves(path: ColumnPath, type_: DrillType) -> Iterator[tuple[ColumnPath, str]]:
    if not type_.fields:
        yield path, str(type_)
    for inner in type_.fields:
        yield from _leaves((*path, inner.name), inner.type)


def _json(document: object) -> str:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":"))


def _column_json(column: SchemaColumn) -> dict[str, Any]:
    mode = "REQUIRED" if column.required else "OPTIONAL"
    entry: dict[str, Any] = {"name": column.name, "type": spelled_for_drill(column.type), "mode": mode}
    properties = dict(column.properties)
    if entry["type"] != column.type:
        properties[_TYPE] = column.type
    entry.update({key: properties.pop(name) for key, name in _OWN_KEYS.items() if name in properties})
    if properties:
        entry["properties"] = properties
    return entry


def _column(entry: Mapping[str, Any]) -> SchemaColumn:
    properties = dict(entry.get("properties") or {})
    properties.update({name: entry[key] for key, name in _OWN_KEYS.items() if key in entry})
    type_ = properties.pop(_TYPE, entry["type"])
    return SchemaColumn(entry["name"], type_, entry.get("mode") == "REQUIRED", properties)
