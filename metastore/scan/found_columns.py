"""Maps a file's columns to the table's when they differ: what to read from the file, and how to convert it.

The task of a scan uses this for files whose columns differ from the table's, or are unknown. A
:class:`~metastore.sources.table_columns.ColumnFinder` finds each column of the table in the file. If a catalog or
format defines the types (the table's keeper), the file is read in its own types, which must fit. Otherwise Arrow casts
them to the table's types where it can.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from metastore.errors import FormatError
from metastore.lake.formats.conforming import as_stored, conform_array, spelled_as
from metastore.lake.formats.file_format import Opening
from metastore.lake.formats.parquet.refused_footers import has_map_as_list
from metastore.lake.formats.row_files import read_file
from metastore.lake.formats.source_file import SourceFile
from metastore.sources.table_columns import ColumnFinder


@dataclass(frozen=True)
class FoundColumns:
    """The fields ``read`` are read from a file: those of the columns ``asked`` that it has, in the same order."""

    asked: pa.Schema
    read: pa.Schema
    names: tuple[str, ...]
    """The table's names for the columns of ``read``."""

    @classmethod
    def of(cls, finder: ColumnFinder, schema: pa.Schema, own: pa.Schema) -> FoundColumns:
        """Find the columns of ``schema`` in a file with columns ``own``. FormatError where one could be several."""
        places = finder.places(own.names)
        names = tuple(name for name in schema.names if name in places)
        fields: list[Any] = [
            own.field(places[name])
            if finder.says_types or has_map_as_list(own.field(places[name]).type)
            else _spelled_as(schema.field(name), own.field(places[name]))
            for name in names
        ]
        return cls(schema, pa.schema(fields), names)

    @classmethod
    def with_maps(cls, schema: pa.Schema, own: pa.Schema) -> FoundColumns:
        """Find the columns of ``schema`` by name in a file that stores some maps as lists of entries."""
        return cls(schema, as_stored(schema, own), tuple(schema.names))

    def as_asked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert rows of ``read`` to the columns ``asked``; columns that the file lacks are null.

        Raises FormatError for a type that does not fit, and pyarrow's errors for a value that does not.
        """
        found = dict(zip(self.names, batch.columns, strict=True))
        arrays: list[Any] = [
            conform_array(found[field.name], field.type, field.name)
            if field.name in found
            else pa.nulls(batch.num_rows, field.type)
            for field in self.asked
        ]
        if arrays:
            return pa.RecordBatch.from_arrays(arrays, schema=self.asked)
        return batch.select([])

    def all_as_asked(self, batches: Iterable[pa.RecordBatch], path: str) -> Iterator[pa.RecordBatch]:
        """Apply :meth:`as_asked` to the rows of the file at ``path``; errors name the path."""
        for batch in batches:
            with naming(path):
                rows = self.as_asked(batch)
            yield rows


def _spelled_as(field: pa.Field[Any], own: pa.Field[Any]) -> pa.Field[Any]:
    """Return the field ``field`` with the file's spelling of its name and of its subfields' names, from ``own``."""
    return field.with_name(own.name).with_type(spelled_as(field.type, own.type))


@contextmanager
def naming(path: str) -> Iterator[None]:
    """Within, a FormatError about columns gets the path of its file."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{path} cannot be read into the columns of its table: {error}") from error


def read_file_found(
    opening: Opening, path: str, schema: pa.Schema, finder: ColumnFinder | None
) -> Iterator[pa.RecordBatch]:
    """Yield rows of a file without row groups, in the columns of ``schema``; ``finder``, if given, finds the columns.

    Raises the errors of :func:`metastore.lake.formats.row_files.read_file`.
    """
    if finder is None:
        yield from read_file(opening, path, schema)
        return
    with opening.open(SourceFile((), path.rpartition("/")[2], path, 0, 0)) as data:
        own = data.schema
    with naming(path):
        found = FoundColumns.of(finder, schema, own)
    if opening.format.rows_fit_any_type:
        fields: list[Any] = [
            _spelled_as(schema.field(name), field) for name, field in zip(found.names, found.read, strict=True)
        ]
        found = FoundColumns(schema, pa.schema(fields), found.names)
    yield from found.all_as_asked(read_file(opening, path, found.read), path)
