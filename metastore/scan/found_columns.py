"""Columns of a table in a file that has others: what is read of the file, and how that becomes what was asked for.

Place in the flow: the task of a scan asks here for files whose columns are not those of their table, or not known. A
:class:`~metastore.sources.table_columns.ColumnFinder` says which column of the file is which of the table. Where a
keeper says the types, a file is read in its own, which must fit; else as the table has them, by what Arrow can cast.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from metastore.errors import FormatError
from metastore.formats.conforming import as_stored, conformed, spelled_as
from metastore.formats.data_files import Opening
from metastore.formats.refused_footers import has_map_as_list
from metastore.formats.row_files import read_file
from metastore.formats.source_file import SourceFile
from metastore.sources.table_columns import ColumnFinder


@dataclass(frozen=True)
class FoundColumns:
    """``read`` is what is read of a file, in the order of those of the columns ``asked`` that it has."""

    asked: pa.Schema
    read: pa.Schema
    names: tuple[str, ...]
    """What the table calls the columns of ``read``."""

    @classmethod
    def of(cls, finder: ColumnFinder, asked: pa.Schema, own: pa.Schema) -> FoundColumns:
        """The columns ``asked`` of a table in a file with the columns ``own``. FormatError where one may be several."""
        places = finder.places(own.names)
        names = tuple(name for name in asked.names if name in places)
        fields: list[Any] = [
            own.field(places[name])
            if finder.says_types or has_map_as_list(own.field(places[name]).type)
            else _spelled_as(asked.field(name), own.field(places[name]))
            for name in names
        ]
        return cls(asked, pa.schema(fields), names)

    @classmethod
    def with_maps(cls, asked: pa.Schema, own: pa.Schema) -> FoundColumns:
        """The columns ``asked`` in a file that has them by the same names, some maps as lists of entries."""
        return cls(asked, as_stored(asked, own), tuple(asked.names))

    def as_asked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of ``read`` in the columns ``asked``, null where the file has none.

        FormatError for a type that does not fit, pyarrow's errors for a value that does not.
        """
        found = dict(zip(self.names, batch.columns, strict=True))
        arrays: list[Any] = [
            conformed(found[field.name], field.type, field.name)
            if field.name in found
            else pa.nulls(batch.num_rows, field.type)
            for field in self.asked
        ]
        if arrays:
            return pa.RecordBatch.from_arrays(arrays, schema=self.asked)
        return batch.select([])

    def all_as_asked(self, batches: Iterable[pa.RecordBatch], path: str) -> Iterator[pa.RecordBatch]:
        """:meth:`as_asked` of the rows of the file at ``path``, which errors name."""
        for batch in batches:
            with naming(path):
                rows = self.as_asked(batch)
            yield rows


def _spelled_as(asked: pa.Field[Any], own: pa.Field[Any]) -> pa.Field[Any]:
    """The field ``asked``, which it and its fields are called in a file as ``own`` is."""
    return asked.with_name(own.name).with_type(spelled_as(asked.type, own.type))


@contextmanager
def naming(path: str) -> Iterator[None]:
    """A FormatError about columns names the file at ``path``."""
    try:
        yield
    except FormatError as error:
        raise FormatError(f"{path} cannot be read into the columns of its table: {error}") from error


def read_file_found(
    opening: Opening, path: str, asked: pa.Schema, finder: ColumnFinder | None
) -> Iterator[pa.RecordBatch]:
    """The rows of a file of a format without row groups in the columns ``asked``, found by ``finder`` if there is one.

    Raises as :func:`metastore.formats.row_files.read_file`.
    """
    if finder is None:
        yield from read_file(opening, path, asked)
        return
    with opening.open(SourceFile((), path.rpartition("/")[2], path, 0, 0)) as data:
        own = data.schema
    with naming(path):
        found = FoundColumns.of(finder, asked, own)
    # Avro's reader gives rows, which become whatever type is asked for.
    if opening.format == "AVRO":
        fields: list[Any] = [
            _spelled_as(asked.field(name), field) for name, field in zip(found.names, found.read, strict=True)
        ]
        found = FoundColumns(asked, pa.schema(fields), found.names)
    yield from found.all_as_asked(read_file(opening, path, found.read), path)
