"""The columns of a publication: a tree of columns that grows by the schemas of files, with ids and spellings.

Place in the flow: the first tree comes from the published table, if there is one. The schemas of new files are added,
and :func:`with_ids` gives ids to what is new. Ids are never used again, and a column that files lost stays. Field ids
in files win over a name mapping in every engine, so either no file has any, or all agree, and the table has theirs.
Pure functions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, PrimitiveType, StructType

from metastore.model.column_path import ColumnPath, quote
from metastore.model.drill_types import DrillType, parse_type
from metastore.model.elements import segments_of
from metastore.model.tuple_schema import CASE_SENSITIVE, DIRECTORY, FIELD_IDS, SchemaColumn, TupleSchema
from metastore.procedures.publishing.refusals import UnfitError, faults_of_file, leaf_type, wider

_ROOM: Final = 1_000
"""Ids that are left free for columns of files to come, where files bring their own."""

_NAMES_OF_PARTS: Final[Mapping[str, Sequence[str]]] = {"ARRAY": ("element",), "MAP": ("key", "value")}


@dataclass(frozen=True)
class PublishedColumn:
    """A column, or a part of one. ``kind`` is its type, or ``STRUCT``, ``ARRAY``, ``MAP`` with ``parts``.

    ``spellings`` are its names in files. ``number`` is its id in the published table, ``own`` its id in files, and
    ``place`` its position in the table's schema.
    """

    name: str
    kind: PrimitiveType | str
    parts: tuple[PublishedColumn, ...] = ()
    spellings: tuple[str, ...] = ()
    own: int | None = None
    number: int | None = None
    place: int | None = None

    @property
    def key(self) -> str:
        """What all spellings share."""
        return self.name.lower()


@dataclass(frozen=True)
class PublishedColumns:
    """All columns: those of files, and those of directories, which files lack. ``has_ids`` says whether files do.

    ``milliseconds``: times in milliseconds are accepted, which Iceberg for Java reads wrong.
    """

    of_files: tuple[PublishedColumn, ...] = ()
    of_directories: tuple[PublishedColumn, ...] = ()
    has_ids: bool | None = None
    last_number: int = 0
    milliseconds: bool = False

    @property
    def schema(self) -> Schema:
        """Iceberg's schema; every column has an id. New columns are last, since Hive takes no others."""
        columns = (*self.of_files, *self.of_directories)
        return Schema(*map(_field, sorted(columns, key=lambda each: (each.place is None, each.place or 0))))

    def spec(self, spec_id: int = 0, first: int = PARTITION_FIELD_ID_START) -> PartitionSpec:
        """Identity partitions by the directories, the upper first; the first field has the id ``first``."""
        fields = (
            PartitionField(_number_of(each), first + place, IdentityTransform(), each.name)
            for place, each in enumerate(self.of_directories)
        )
        return PartitionSpec(*fields, spec_id=spec_id)

    @property
    def mapping(self) -> str:
        """The name mapping in JSON, with every spelling."""
        return NameMapping(list(map(_map_field, (*self.of_files, *self.of_directories)))).model_dump_json()

    def leaves(self) -> Iterator[tuple[ColumnPath, PublishedColumn]]:
        """Yields the leaves of files that can have metrics, by their folded paths: those in no list or map."""
        for column in self.of_files:
            yield from _leaves(column, ())


@dataclass
class Faults:
    """Reasons not to publish, each with the number of files and some of their paths."""

    counts: dict[str, int] = field(default_factory=dict)
    paths: dict[str, list[str]] = field(default_factory=dict)

    def add(self, why: str, paths: Iterable[str]) -> None:
        """Add the files of one reason."""
        for path in paths:
            self.counts[why] = self.counts.get(why, 0) + 1
            if len(shown := self.paths.setdefault(why, [])) < _SHOWN:
                shown.append(path)

    def __str__(self) -> str:
        """Every reason with its files."""
        return "; ".join(
            f"{why} ({count} file{'s' if count > 1 else ''}: {', '.join(self.paths[why])}"
            f"{', …' if count > len(self.paths[why]) else ''})"
            for why, count in self.counts.items()
        )


_SHOWN: Final = 20
"""Files that are listed of each reason; the others are counted."""


def published_columns(
    schema: Schema, spec: PartitionSpec, mapping: str, last_number: int, *, has_ids: bool
) -> PublishedColumns:
    """Returns the columns of a published table, whose files ``has_ids``."""
    names = {each.field_id: each for each in _mapped_fields(NameMapping.model_validate_json(mapping).root)}
    of_directories = {each.source_id for each in spec.fields}
    columns = [
        replace(_column_of(each, names, has_ids=has_ids), place=place) for place, each in enumerate(schema.fields)
    ]
    return PublishedColumns(
        tuple(each for each in columns if each.number not in of_directories),
        tuple(each for each in columns if each.number in of_directories),
        has_ids,
        last_number,
    )


def grow_columns(
    columns: PublishedColumns, files: Mapping[str, Sequence[str]], of_table: TupleSchema, faults: Faults
) -> PublishedColumns:
    """Returns ``columns`` with those of ``files``: paths by their schema in JSON; what does not fit is in ``faults``.

    ``of_table`` is the schema of the whole table, which names the columns of directories.
    """
    for text, paths in files.items():
        schema = TupleSchema.from_json(text)
        wrong = list(faults_of_file(schema))
        for why in wrong:
            faults.add(why, paths)
        if wrong:
            continue
        own: list[PublishedColumn] = []
        ids = json.loads(schema.properties[FIELD_IDS])
        for column in schema.columns:
            try:
                type_, accepted = parse_type(column.type), columns.milliseconds
                own.append(_of_file(column, type_, (column.name,), ids, milliseconds=accepted))
            except UnfitError as error:  # noqa: PERF203 - every column that does not fit is listed
                faults.add(str(error), paths)
        try:
            found = _with_agreement(columns, own, has_ids=bool(ids))
            same = CASE_SENSITIVE in of_table.properties
            columns = replace(found, of_files=_merge_columns(columns.of_files, own, (), case_sensitive=same))
        except UnfitError as error:
            faults.add(str(error), paths)
    return replace(columns, of_files=_in_order(columns.of_files, of_table))


def with_directories(
    columns: PublishedColumns, of_table: TupleSchema, faults: Faults, *, is_new: bool
) -> PublishedColumns:
    """Returns ``columns`` with those of the directories; a type that changed is a fault, unless all ``is_new``."""
    own = [column for column in of_table.columns if DIRECTORY in column.properties]
    found = []
    for column in own:
        try:
            kind = leaf_type(parse_type(column.type), column, (column.name,), milliseconds=False)
            found.append(PublishedColumn(column.name, kind, spellings=(column.name,)))
        except UnfitError as error:  # noqa: PERF203 - every column that does not fit is listed
            faults.add(str(error), ["the directories"])
    if is_new:
        return replace(columns, of_directories=tuple(found))
    was, now = ([(each.key, each.kind) for each in some] for some in (columns.of_directories, found))
    if was != now:
        names = [", ".join(f"{name} {kind}" for name, kind in some) or "none" for some in (was, now)]
        faults.add(f"columns of directories were {names[0]} and are {names[1]}", ["the directories"])
    return columns


def with_ids(columns: PublishedColumns) -> PublishedColumns:
    """Returns ``columns`` in which every column and part has an id; new ones get the next, or the one in files."""
    numbers = iter(range(columns.last_number + 1, 1 << 31))
    if columns.has_ids:
        highest = max((number for _, number in _ids_by_path(columns.of_files, ())), default=0)
        numbers = iter(range(max(columns.last_number + 1, highest + _ROOM), 1 << 31))

    def give_number(column: PublishedColumn) -> PublishedColumn:
        number = column.number or column.own or next(numbers)
        return replace(column, number=number)

    def deeply(column: PublishedColumn) -> PublishedColumn:
        return replace(column, parts=tuple(deeply(give_number(part)) for part in column.parts))

    of_files = tuple(map(give_number, columns.of_files))
    of_directories = tuple(map(give_number, columns.of_directories))
    whole = replace(columns, of_files=tuple(map(deeply, of_files)), of_directories=of_directories)
    return replace(whole, last_number=max(columns.last_number, *whole.schema.field_ids, 0))


def _in_order(columns: Sequence[PublishedColumn], of_table: TupleSchema) -> tuple[PublishedColumn, ...]:
    """Returns the columns with new ones last, as the table names and orders them."""
    order = {column.name.lower(): (place, column.name) for place, column in enumerate(of_table.columns)}
    new = [each for each in columns if each.number is None]
    new.sort(key=lambda each: order.get(each.key, (len(order), "")))
    named = [replace(each, name=order.get(each.key, (0, each.name))[1]) for each in new]
    return (*(each for each in columns if each.number is not None), *named)


def _of_file(
    column: SchemaColumn, type_: DrillType, path: ColumnPath, ids: Mapping[str, int], *, milliseconds: bool
) -> PublishedColumn:
    """The tree of one column; UnfitError names what engines read wrong, and ids that only some columns have."""
    own = ids.get(quote(path))
    if ids and own is None:
        raise UnfitError(f"column {'.'.join(path)} has no field id, and others of the file have one")
    if type_.name == "STRUCT":
        if not type_.fields:
            raise UnfitError(f"column {'.'.join(path)} is a struct without fields")
        inside = [(each.name, each.type) for each in type_.fields]
    else:
        inside = list(zip(segments_of(type_.name), type_.parts, strict=True)) if type_.parts else []
    if not inside:
        kind: PrimitiveType | str = leaf_type(type_, column, path, milliseconds=milliseconds)
        return PublishedColumn(path[-1], kind, (), (path[-1],), own)
    parts = tuple(_of_file(column, part, (*path, name), ids, milliseconds=milliseconds) for name, part in inside)
    if type_.name in _NAMES_OF_PARTS:
        names = _NAMES_OF_PARTS[type_.name]
        parts = tuple(replace(part, name=name, spellings=(name,)) for part, name in zip(parts, names, strict=True))
    return PublishedColumn(path[-1], type_.name, parts, (path[-1],), own)


def _with_agreement(columns: PublishedColumns, own: Sequence[PublishedColumn], *, has_ids: bool) -> PublishedColumns:
    """Returns ``columns`` once files with these columns are added. Raises UnfitError if their ids disagree."""
    if columns.has_ids not in (None, has_ids):
        raise UnfitError("some files have field ids and some have none: engines find columns by ids first")
    if has_ids:
        known = dict(_ids_by_path(columns.of_files, ()))
        paths = {number: path for path, number in known.items()}
        paths.update({each.number: (each.key,) for each in columns.of_directories if each.number is not None})
        for path, number in _ids_by_path(own, ()):
            if known.get(path, number) != number or paths.get(number, path) != path:
                raise UnfitError(
                    f"field id {number} of column {'.'.join(path)} is another column's in other files: "
                    "engines swap such columns"
                )
    return replace(columns, has_ids=has_ids)


def _merge_columns(
    columns: Sequence[PublishedColumn], own: Sequence[PublishedColumn], above: ColumnPath, *, case_sensitive: bool
) -> tuple[PublishedColumn, ...]:
    found = {each.key: each for each in columns}
    for column in own:
        path = (*above, column.name)
        before = found.get(column.key)
        if before is None:
            found[column.key] = column
            continue
        if case_sensitive and before.name != column.name:
            raise UnfitError(f"column {column.name} has a twin {before.name}: most engines ignore case")
        found[column.key] = _both(before, column, path, case_sensitive=case_sensitive)
    return tuple(found.values())


def _both(before: PublishedColumn, own: PublishedColumn, path: ColumnPath, *, case_sensitive: bool) -> PublishedColumn:
    spellings = tuple(dict.fromkeys((*before.spellings, *own.spellings)))
    kind = before.kind
    if isinstance(before.kind, str) or isinstance(own.kind, str):
        if before.kind != own.kind:
            raise UnfitError(f"column {'.'.join(path)} is {own.kind} and {before.kind}")
    else:
        kind = wider(before.kind, own.kind, ".".join(path))
    parts = _merge_columns(before.parts, own.parts, path, case_sensitive=case_sensitive)
    return replace(before, kind=kind, parts=parts, spellings=spellings, own=before.own or own.own)


def _column_of(each: NestedField, names: Mapping[int | None, MappedField], *, has_ids: bool) -> PublishedColumn:
    parts, kind = _parts_of(each.field_type)
    mapped = names.get(each.field_id)
    spellings = (each.name,) if mapped is None else tuple(mapped.names)
    inside = tuple(_column_of(part, names, has_ids=has_ids) for part in parts)
    own = each.field_id if has_ids else None
    return PublishedColumn(each.name, kind, inside, spellings, own, each.field_id)


def _parts_of(kind: IcebergType) -> tuple[Sequence[NestedField], PrimitiveType | str]:
    match kind:
        case StructType(fields=fields):
            return fields, "STRUCT"
        case ListType():
            return (kind.element_field,), "ARRAY"
        case MapType():
            return (kind.key_field, kind.value_field), "MAP"
    assert isinstance(kind, PrimitiveType)
    return (), kind


def _field(column: PublishedColumn) -> NestedField:
    return NestedField(_number_of(column), column.name, _type(column), required=False)


def _type(column: PublishedColumn) -> IcebergType:
    if not isinstance(column.kind, str):
        return column.kind
    ids, types = [_number_of(part) for part in column.parts], [_type(part) for part in column.parts]
    if column.kind == "STRUCT":
        return StructType(*map(_field, column.parts))
    if column.kind == "ARRAY":
        return ListType(element_id=ids[0], element_type=types[0], element_required=False)
    return MapType(key_id=ids[0], key_type=types[0], value_id=ids[1], value_type=types[1], value_required=False)


def _map_field(column: PublishedColumn) -> MappedField:
    fields = list(map(_map_field, column.parts))
    return MappedField(field_id=_number_of(column), names=list(column.spellings), fields=fields)


def _mapped_fields(fields: Iterable[MappedField]) -> Iterator[MappedField]:
    for each in fields:
        yield each
        yield from _mapped_fields(each.fields)


def _number_of(column: PublishedColumn) -> int:
    assert column.number is not None
    return column.number


def _leaves(column: PublishedColumn, above: ColumnPath) -> Iterator[tuple[ColumnPath, PublishedColumn]]:
    path = (*above, column.key)
    if column.kind == "STRUCT":
        for part in column.parts:
            yield from _leaves(part, path)
    elif not isinstance(column.kind, str):
        yield path, column


def _ids_by_path(columns: Iterable[PublishedColumn], above: ColumnPath) -> Iterator[tuple[ColumnPath, int]]:
    for column in columns:
        path = (*above, column.key)
        if column.own is not None:
            yield path, column.own
        yield from _ids_by_path(column.parts, path)
