"""The Iceberg schema of a Hive table: column ids, partition fields, and the mapping of files' names. Pure functions.

The files have no column ids, so Iceberg's readers find columns by the name mapping. It contains every name in the
files. It also contains columns of files that the table does not have, with ids that are in no schema: without an entry,
PyIceberg refuses to read such a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

import pyarrow.types as pt
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import MappedField, NameMapping
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from metastore.sources.hive.matching import Extra, Match
from metastore.sources.hive.tables import HiveTable
from metastore.sources.hive.types import ELEMENT, KEY, VALUE, Path, iceberg_type

NAME_MAPPING: Final = "schema.name-mapping.default"


@dataclass(frozen=True)
class Layout:
    """The layout of the Iceberg table. ``leaf_ids`` are the ids of leaves that are in files, in the table's order."""

    schema: Schema
    spec: PartitionSpec
    name_mapping: str
    leaf_ids: Sequence[int]
    last_column_id: int


def layout_of(table: HiveTable, matches: Iterable[Match]) -> Layout:
    """Returns the layout for files that matched the table without problems."""
    merged = merged_match(matches)
    # If no file decides it, a timestamp of Parquet is a moment, as Spark and Hive write it.
    default = str(table.format) == "PARQUET"
    ids = count(1)

    def field(name: str, type_: Any) -> NestedField:
        own = next(ids)
        made = iceberg_type(
            type_, (name,), is_moment=lambda path: merged.moments.get(path, default), next_id=lambda: next(ids)
        )
        return NestedField(own, name, made, required=False, doc=comments.get(name))

    comments = {each.name: each.comment for each in (*table.raw.sd.cols, *(table.raw.partitionKeys or ()))}
    fields = [field(name, type_) for name, type_ in table.columns]
    # A partition column has the value of its text, which has no time zone.
    merged.moments.update({(name,): False for name, _ in table.partition_columns})
    partitions = [field(name, type_) for name, type_ in table.partition_columns]
    spec = PartitionSpec(
        *(
            PartitionField(each.field_id, PARTITION_FIELD_ID_START + index, IdentityTransform(), each.name)
            for index, each in enumerate(partitions)
        )
    )
    extras: dict[Path, list[Extra]] = {}
    for extra in merged.extras:
        extras.setdefault(extra.parent, []).append(extra)
    namer = _Namer(merged.aliases, extras, ids)
    mapping = NameMapping([*namer.fields((), [*fields, *partitions])])
    leaf_ids = [leaf for each in fields for leaf in leaf_ids_of(each.field_id, each.field_type)]
    return Layout(Schema(*fields, *partitions), spec, mapping.model_dump_json(), leaf_ids, next(ids) - 1)


def merged_match(matches: Iterable[Match]) -> Match:
    """Returns the combined match of all files' schemas; contradictions between files are problems."""
    merged = Match()
    extras: dict[tuple[Path, str], Extra] = {}
    for each in matches:
        merged.problems += each.problems
        for path, names in each.aliases.items():
            merged.aliases[path] |= names
        for path, is_moment in each.moments.items():
            if merged.moments.setdefault(path, is_moment) != is_moment:
                merged.problems.append(
                    f"column {'.'.join(path)}: some files have timestamps with a time zone in it, and others without"
                )
        for extra in each.extras:
            known = extras.setdefault((extra.parent, extra.name), extra)
            if known.type != extra.type and (pt.is_nested(known.type) or pt.is_nested(extra.type)):
                name = ".".join((*extra.parent, extra.name))
                merged.problems.append(f"column {name} is not in the table, and files disagree on its type")
    merged.extras = list(extras.values())
    return merged


class _Namer:
    """Makes the name mapping. Columns that are in no schema get the highest ids."""

    def __init__(
        self, aliases: Mapping[Path, set[str]], extras: Mapping[Path, Sequence[Extra]], ids: Iterable[int]
    ) -> None:
        self._aliases = aliases
        self._extras = extras
        self._ids = iter(ids)

    def fields(self, parent: Path, fields: Iterable[NestedField]) -> Iterable[MappedField]:
        # A file's column with the name of a partition column is an extra: values come from the partition.
        others = {extra.name for extra in self._extras.get(parent, ())}
        for each in fields:
            path = (*parent, each.name)
            names = sorted(({each.name} | self._aliases.get(path, set())) - others)
            yield MappedField(field_id=each.field_id, names=names, fields=list(self._inside(path, each.field_type)))
        for extra in self._extras.get(parent, ()):
            yield self._map_field(extra.name, extra.type)

    def _inside(self, path: Path, type_: IcebergType) -> Iterable[MappedField]:
        match type_:
            case StructType():
                yield from self.fields(path, type_.fields)
            case ListType():
                yield self._part(path, ELEMENT, type_.element_id, type_.element_type)
            case MapType():
                yield self._part(path, KEY, type_.key_id, type_.key_type)
                yield self._part(path, VALUE, type_.value_id, type_.value_type)

    def _part(self, path: Path, name: str, part_id: int, type_: IcebergType) -> MappedField:
        return MappedField(field_id=part_id, names=[name], fields=list(self._inside((*path, name), type_)))

    def _map_field(self, name: str, arrow: Any) -> MappedField:
        own = next(self._ids)
        inside: list[MappedField] = []
        if pt.is_struct(arrow):
            inside = [self._map_field(arrow.field(at).name, arrow.field(at).type) for at in range(arrow.num_fields)]
        elif pt.is_map(arrow):
            inside = [self._map_field(KEY, arrow.key_type), self._map_field(VALUE, arrow.item_type)]
        elif pt.is_nested(arrow):
            inside = [self._map_field(ELEMENT, arrow.field(0).type)]
        return MappedField(field_id=own, names=[name], fields=inside)


def leaf_ids_of(own_id: int, type_: IcebergType) -> Iterable[int]:
    """Yields the ids of the leaves of a column, depth first; ``own_id`` is the column's id."""
    match type_:
        case StructType():
            for each in type_.fields:
                yield from leaf_ids_of(each.field_id, each.field_type)
        case ListType():
            yield from leaf_ids_of(type_.element_id, type_.element_type)
        case MapType():
            yield from leaf_ids_of(type_.key_id, type_.key_type)
            yield from leaf_ids_of(type_.value_id, type_.value_type)
        case _:
            yield own_id
