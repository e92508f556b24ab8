"""Spark's data source ``metastore``: components, INFORMATION_SCHEMA and analyzed tables by their names.

::

    spark.read.format("metastore").option("conf", …).load("metastore.components.tables")
    spark.read.format("metastore").option("version", …).load("information_schema.columns")
    spark.read.format("metastore").load("dfs.tmp.nation").where(…)

Place in the flow: Spark creates a :class:`MetastoreSource` in a Python process on the driver's host and asks it for the
schema. Spark then sends the source to other Python processes, which plan the reads. The source therefore carries all
its state: its options, and the versions to read, which :meth:`MetastoreSource.schema` has found.

Filters that Spark pushes down are used only with the option ``pushFilters``. Spark keeps the reader to which it pushed
filters, and reuses it for later scans of the same DataFrame that have other filters or none. Those scans then lack rows
(PySpark 4.3; tests show it, and docs/design/019 explains why a source cannot detect it). By default, only the option
``where`` prunes; ``select`` always does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader
from pyspark.sql.types import StructType

from metastore.errors import InvalidRequestError
from metastore.spark.catalog_options import options_of_creation, stored_options, with_options
from metastore.spark.source_options import (
    ANALYZE,
    BRANCH,
    FORMAT,
    OVERWRITE_MODE,
    PARTITION_BY,
    REPLACE_WHERE,
    SETTINGS,
    SourceRequest,
    flag,
    known_options,
    overwrite_mode,
    settings_of,
)
from metastore.spark.spark_types import require_digits

if TYPE_CHECKING:
    from metastore.spark.own_tables import Versions

_SAVES: Final = "replaceWhere and branch are for tables of catalogs, analyze and partitionBy for folders"


class MetastoreSource(DataSource):
    """Spark's data source ``metastore``.

    Options: ``conf``, a configuration as :func:`metastore.connect` takes it, with paths as the driver's host sees them.
    ``version`` or ``asOf``. ``columns``: names separated by commas, because Spark does not tell a source which columns
    it needs. ``where``: a condition that chooses files and rows, as in reads of components or, for analyzed tables, in
    scans. ``rowId``, for analyzed tables. ``pushFilters``: Spark's filters skip files too; use it only for a DataFrame
    that is scanned once.

    All queries over a DataFrame read the version that was newest when the DataFrame was made, unless an option names
    another.
    """

    keys_of_session: ClassVar[Mapping[str, str]] = {}
    """Keys of object stores in Spark's configuration, if the source was registered with a session."""

    speculates: ClassVar[bool] = True
    """Whether Spark may run several attempts of a task at once; only a registered source knows that it does not."""

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        self._versions: Versions | None = None

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def schema(self) -> StructType:
        """Returns the columns, and fixes the version for all later reads.

        The columns of a table of Spark's catalog carry its options; its scans read the version that is newest then.
        """
        # Processes that create the source, or write, need no readers.
        from metastore.spark.source_reading import columns_of, versions_of  # noqa: PLC0415

        created = options_of_creation(self.options)
        if created is not None and SETTINGS in created:
            raise InvalidRequestError(
                f"a table of Spark's catalog cannot keep {SETTINGS}; name a configuration by conf"
            )
        request = SourceRequest.of(self.options if created is None else created, self.keys_of_session)
        self._versions = versions_of(request)
        chosen = columns_of(request, self._versions)
        require_digits(chosen)
        return chosen if created is None else with_options(chosen, created)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns a reader of these columns, which the user may have declared. Spark asks for one for every scan."""
        from metastore.spark.source_reading import reader_of, versions_of  # noqa: PLC0415 - as above

        request = SourceRequest.of(stored_options(schema, self.options), self.keys_of_session)
        return reader_of(request, versions_of(request) if self._versions is None else self._versions, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Returns a writer into the table of a catalog, or the folder, that ``save`` names.

        Raises as :class:`metastore.spark.table_sink.TableSink` and :class:`metastore.spark.folder_sink.FolderSink`.
        """
        # Processes that only read need none of it.
        from metastore.spark.folder_sink import FolderSink, is_folder  # noqa: PLC0415
        from metastore.spark.table_sink import TableSink  # noqa: PLC0415

        of_catalogs, of_folders = (REPLACE_WHERE, BRANCH), (ANALYZE, PARTITION_BY)
        given = known_options(self.options, ("path", "conf", OVERWRITE_MODE, *of_catalogs, *of_folders, SETTINGS))
        if not given.get("path"):
            # The schema could be that of another table, from which the rows come.
            raise InvalidRequestError(
                "Spark does not pass the name of its table to the source: write by "
                'df.write.format("metastore").mode("append").save("catalog.schema.table")'
            )
        settings, overwrites = settings_of(given, self.keys_of_session), overwrite_mode(given, overwrite=overwrite)
        folder = is_folder(settings, given["path"])
        if wrong := [each for each in (of_catalogs if folder else of_folders) if each.lower() in given]:
            raise InvalidRequestError(f"the option {wrong[0]} is not for {given['path']}; {_SAVES}")
        if folder:
            return FolderSink(
                settings,
                given["path"],
                schema,
                overwrites=overwrites,
                partition_by=given.get(PARTITION_BY.lower()),
                analyzes=flag(given, ANALYZE),
            )
        return TableSink(
            settings,
            given["path"],
            schema,
            overwrites=overwrites,
            speculates=self.speculates,
            where=given.get(REPLACE_WHERE.lower()),
            branch=given.get(BRANCH),
        )
