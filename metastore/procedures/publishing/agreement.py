"""The columns of a table's files, if all of them fit: what some engine would read wrong is refused.

Columns may stand both in files and in the names of their directories, which engines read in two ways. Rows have the
file's value, and pruning by partitions the path's; engines that read plain files take the path's. So both must be the
same in every file, which its bounds prove.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from urllib.parse import unquote

from metastore.model.bounds.statistics_columns import NO_NULL
from metastore.model.bounds.units import of_kind
from metastore.model.column_path import quote
from metastore.model.drill_types import parse_type
from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.model.vocabulary import MetadataType
from metastore.procedures.publishing.columns import Faults, PublishedColumns, grow_columns, with_directories, with_ids
from metastore.procedures.publishing.metrics import statistics_of
from metastore.procedures.publishing.published_table import unspellable
from metastore.procedures.publishing.stored_table import StoredTable
from metastore.sources.directory_values import value_of


class UnfitFilesError(Exception):
    """Files that some engine would read wrong; the text lists them."""


def agreed_columns(
    stored: StoredTable, published: PublishedColumns, keys: frozenset[str], *, milliseconds: bool = False
) -> PublishedColumns:
    """Returns the columns ``published`` after the files of the segments ``keys`` came.

    ``milliseconds`` accepts times in milliseconds. Raises UnfitFilesError with all reasons.
    """
    faults = Faults()
    files = stored.paths_by_schema(keys) if keys else {}
    for paths in files.values():
        faults.add("its name has # or ?, at which PyIceberg cuts it", unspellable(paths))
    published = replace(published, milliseconds=published.milliseconds or milliseconds)
    columns = grow_columns(published, files, stored.schema, faults)
    columns = with_directories(columns, stored.schema, faults, is_new=published.has_ids is None)
    _require_agreement(stored, files, keys, faults)
    if faults.counts:
        raise UnfitFilesError(str(faults))
    return with_ids(columns)


def _require_agreement(
    stored: StoredTable, files: Mapping[str, Sequence[str]], keys: frozenset[str], faults: Faults
) -> None:
    """Add to ``faults`` the files of the segments ``keys`` whose directories name another value than they hold.

    ``files`` are their paths by schema. Reads units only if a directory is named like a column of files.
    """
    own = {text: {column.name.lower(): column for column in TupleSchema.from_json(text).columns} for text in files}
    named = {key for paths in files.values() for path in paths for key in stored.values_of(path)}
    twice = {key for columns in own.values() for key in columns if key in {each.lower() for each in named}}
    if not twice:
        return
    for units in stored.units(keys):
        found = of_kind(units, MetadataType.FILE)
        maps = found["columnsStatistics"].combine_chunks()
        paths: list[str] = found["path"].to_pylist()  # type: ignore[assignment] # every file has a path
        schemas: list[str] = found["schema"].to_pylist()  # type: ignore[assignment] # and a schema
        for key in sorted(twice):
            spelled = {column.name for columns in own.values() if (column := columns.get(key)) is not None}
            bounds = {name: statistics_of(maps, quote((name,)))[0] for name in spelled}
            for place, (path, schema) in enumerate(zip(paths, schemas, strict=True)):
                column = own.get(schema, {}).get(key)
                text = stored.values_of(path).get(key)
                known = bounds[column.name].at(place) if column is not None else None
                no_null = column is not None and bool(bounds[column.name].flags[place] & NO_NULL)
                is_same = column is not None and known is not None and no_null and known.min == known.max
                if not (is_same and text is not None and known and known.min == _value(text, column)):
                    faults.add(
                        f"column {key} is in the file and in its directory, and both are not shown to be one value",
                        [path],
                    )


def _value(text: str, column: SchemaColumn | None) -> object:
    if column is None:
        return None
    try:
        return value_of(unquote(text), parse_type(column.type))
    except ValueError:
        return None
