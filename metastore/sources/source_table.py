"""A table of the data lake, as ANALYZE and scans are given it: its name, where its data lies, how its files are found.

Plain data but for what finds the files, and sent to executors: it knows no configuration. Names become source tables in
:mod:`metastore.sources.naming`, and in the modules of the catalogs that keep tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from metastore.formats.bounds_from_data import BoundsFrom
from metastore.formats.names import suffix_of
from metastore.formats.source_file import SourceFile
from metastore.formats.text_options import TextOptions
from metastore.model.identity import TableInfo
from metastore.model.tuple_schema import TupleSchema
from metastore.sources.listing import Listing, list_files
from metastore.sources.provided import Provided
from metastore.sources.sink_log import logged_files
from metastore.sources.table_columns import TableColumns, kept_schema


@dataclass(frozen=True)
class SourceTable:
    """A table and where its data lies.

    ``location`` is a plain absolute path on the local disk, as Drill stores it, and a URI anywhere else; it ends in no
    slash. ``format`` None: the files' suffixes tell. ``options`` are what ``pyarrow.fs`` needs beyond the URI (region,
    endpoint_override …). Where a catalog keeps the table, ``owner`` and ``partition_columns`` (their types by name, in
    the order of the directories) are what it says, and ``lister`` finds the files that it counts to the table. Where
    somebody keeps the files' statistics too, ``provided`` has both. ``passed_over`` are directories below the location,
    relative to it, that hold no data of the table: the metastore keeps its own files there. ``text`` says how delimited
    text is written where the workspace does, ``by_suffix`` the format and that of files by their suffix, where the
    plugin's ``formats`` do. ``columns`` are those that a catalog says the files of a listed table have, and how they
    are found in files. ``bounds`` says where bounds of Parquet columns come from, where the workspace does.
    """

    table: TableInfo
    location: str
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    owner: str | None = None
    partition_columns: Mapping[str, str] | None = None
    lister: Callable[[], Listing] | None = field(default=None, compare=False, repr=False)
    provided: Provided | None = field(default=None, compare=False, repr=False)
    passed_over: Sequence[str] = ()
    text: TextOptions | None = None
    by_suffix: Mapping[str, tuple[str, TextOptions]] = field(default_factory=dict)
    bounds: BoundsFrom | None = None
    columns: TableColumns | None = field(default=None, compare=False, repr=False)

    def text_options(self, files: Sequence[SourceFile]) -> TextOptions | None:
        """How its ``files`` are written if they are delimited text: as the workspace says, else as their suffix does.

        None where neither says anything.
        """
        if self.text is not None or not self.by_suffix:
            return self.text
        configured = (self.by_suffix.get(suffix_of(file.name)) for file in files)
        return next((found[1] for found in configured if found is not None), None)

    @property
    def says_columns(self) -> bool:
        """Whether whoever keeps the table says its columns; else they are those of its files."""
        return self.columns is not None or (self.provided is not None and self.provided.schema is not None)

    def schema(self, stored: TupleSchema) -> TupleSchema:
        """All columns that the table has now; ``stored`` are those that were found in its files.

        Raises as whoever keeps the table does.
        """
        if self.provided is not None and self.provided.schema is not None:
            return self.provided.schema
        if self.columns is not None:
            return kept_schema(self.columns.schema, self.partition_columns or {}, stored)
        return stored

    def files(self, only_directories: Callable[[str], bool] | None = None) -> Sequence[SourceFile]:
        """The data files that exist now, sorted; of a directory that a stream writes, those in its log.

        Raises as :func:`metastore.sources.listing.list_files` and :func:`metastore.sources.sink_log.logged_files`. With
        ``only_directories`` those in first-level directories that it refuses may be left out.
        """
        if self.provided is not None:
            return self.provided.files()
        if self.lister is not None:
            return self.lister().files
        listing = list_files(self.location, only_directories, options=self.options, passed_over=self.passed_over)
        if listing.is_logged:
            return logged_files(listing, self.options, whole=only_directories is None)
        return listing.files
