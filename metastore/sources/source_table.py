"""A table of the data lake, as the input of ANALYZE and scans: its name, its location, and how its files are found.

It holds plain data, except for the finders of files, and is sent to executors; it does not depend on the configuration.
:mod:`metastore.sources.naming` and the modules of catalogs make source tables from names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from metastore.ground.interrupts import result_of
from metastore.ground.threads import Threads
from metastore.lake.formats.bounds_from_data import BoundsFrom
from metastore.lake.formats.names import ANY_SUFFIX, PROSE, SUFFIXES
from metastore.lake.formats.source_file import SourceFile, suffix_of
from metastore.lake.formats.text.text_options import TextOptions
from metastore.model.identity import TableInfo
from metastore.model.tuple_schema import TupleSchema
from metastore.sources.listing import Listing, list_files
from metastore.sources.provided_tables import ProvidedTable
from metastore.sources.sink_log import logged_files
from metastore.sources.table_columns import TableColumns, kept_schema


@dataclass(frozen=True)
class SourceTable:
    """A table and the location of its data.

    ``location`` is a plain absolute path on the local disk, as Drill stores it, and a URI elsewhere; it has no trailing
    slash. ``format`` is what the table's keeper says; if None, the files' suffixes determine it. ``options`` are the
    options of ``pyarrow.fs`` that the URI does not contain (region, endpoint_override …).

    If a catalog keeps the table, it gives ``owner`` and ``partition_columns`` (types by name, in the order of the
    directories), and ``lister`` finds the files that belong to the table. If another program also keeps the files'
    statistics, ``provided`` has both. ``passed_over`` are directories, relative to the location, without data of the
    table: the metastore keeps its own files there.

    ``text`` describes delimited text if the workspace does. ``by_suffix`` gives format and text options of files by
    suffix if the plugin's ``formats`` do. ``columns`` are a catalog's columns of a listed table, and how to find them
    in files. ``bounds`` says where bounds of Parquet columns come from, if the workspace does. ``all_files``: the
    folder is a plain directory, even where the log of a table format stands.
    """

    table: TableInfo
    location: str
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    owner: str | None = None
    partition_columns: Mapping[str, str] | None = None
    lister: Callable[[], Listing] | None = field(default=None, compare=False, repr=False)
    provided: ProvidedTable | None = field(default=None, compare=False, repr=False)
    passed_over: Sequence[str] = ()
    text: TextOptions | None = None
    by_suffix: Mapping[str, tuple[str, TextOptions | None]] = field(default_factory=dict)
    bounds: BoundsFrom | None = None
    columns: TableColumns | None = field(default=None, compare=False, repr=False)
    all_files: bool = False

    def text_options(self, files: Sequence[SourceFile]) -> TextOptions | None:
        """Returns the text options of ``files``, if they are delimited text.

        They are the workspace's, else those of the files' suffix. Returns None if neither gives any.
        """
        if self.text is not None or not self.by_suffix:
            return self.text
        suffixes = (suffix_of(file.name) for file in files)
        keys = (key if key in self.by_suffix or key in SUFFIXES else ANY_SUFFIX for key in suffixes)
        return next((self.by_suffix[key][1] for key in keys if key in self.by_suffix), None)

    @property
    def says_columns(self) -> bool:
        """Whether the table's keeper gives its columns; else its files do."""
        return self.columns is not None or (self.provided is not None and self.provided.schema is not None)

    def schema(self, stored: TupleSchema) -> TupleSchema:
        """Returns all current columns of the table; ``stored`` are the columns found in its files.

        Raises the errors of the table's keeper.
        """
        if self.provided is not None and self.provided.schema is not None:
            return self.provided.schema
        if self.columns is not None:
            return kept_schema(self.columns.schema, self.partition_columns or {}, stored)
        return stored

    def files(self, only_directories: Callable[[str], bool] | None = None) -> Sequence[SourceFile]:
        """Returns the existing data files, sorted; for a directory that a stream writes, the files in its log.

        Raises as :func:`metastore.sources.listing.list_files` and :func:`metastore.sources.sink_log.logged_files`. With
        ``only_directories``, files in first-level directories that it refuses may be left out.
        """
        if self.provided is not None:
            return self.provided.files()
        if self.lister is not None:
            return self.lister().files
        listing = list_files(
            self.location,
            only_directories,
            options=self.options,
            passed_over=self.passed_over,
            all_files=self.all_files,
        )
        if listing.is_logged:
            return logged_files(listing, self.options, whole=only_directories is None)
        return self._without_prose(listing.files) if listing.has_others else listing.files

    def _without_prose(self, files: Sequence[SourceFile]) -> Sequence[SourceFile]:
        """Returns ``files`` without texts for people beside data, unless the configuration gives these a format."""
        if ANY_SUFFIX in self.by_suffix:
            return files
        ends = tuple(f".{suffix}" for suffix in PROSE - self.by_suffix.keys())
        data = [file for file in files if not file.name.lower().endswith(ends)]
        is_beside = len(data) < len(files) and any(suffix_of(file.name) in SUFFIXES for file in data)
        return data if is_beside else files

    def files_beside(self, other: Callable[[], object]) -> Sequence[SourceFile]:
        """Returns :meth:`files`, listed while ``other`` runs: both wait for a store.

        Raises the first error of ``other``. If a catalog or service lists the files, both run one after the other: its
        client may be bound to this thread.
        """
        if self.provided is not None or self.lister is not None:
            other()
            return self.files()
        with Threads(1, "metastore-listing") as thread:
            listing = thread.submit(self.files)
            other()
            return result_of(listing)
