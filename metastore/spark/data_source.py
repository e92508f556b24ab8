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

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache
from logging import getLogger
from typing import Any, ClassVar, Final

from pydantic import TypeAdapter, ValidationError
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from metastore.components.metastore import Metastore
from metastore.config import Settings, load
from metastore.config.policies import PolicySettings
from metastore.errors import InvalidRequestError
from metastore.procedures.framework.types import parse_timestamp
from metastore.scan.pruning.row_id import ROW_ID
from metastore.spark.catalog_options import options_of_creation, stored_options, with_options
from metastore.spark.own_tables import OwnTable, OwnTableReader, Versions
from metastore.spark.scan_source import TableScanReader, table_schema, table_version
from metastore.spark.session_keys import with_keys_of_session
from metastore.spark.spark_types import require_digits, spark_schema

_log: Final = getLogger(__name__)

FORMAT: Final = "metastore"
"""What Spark calls the source."""

SETTINGS: Final = "settings-token"
"""Option: the settings themselves, for a caller that holds them in memory.

Spark hides values whose key contains "token".
"""

_OPTIONS: Final = ("path", "conf", "version", "asOf", "columns", "where", "rowId", "pushFilters", SETTINGS)
_FLAGS: Final = {"true": True, "false": False}


_SAVES: Final = "replaceWhere and branch are for tables of catalogs, analyze and partitionBy for folders"

_JSON: Final = TypeAdapter(Settings)


def settings_option(settings: Settings) -> str:
    """Returns the value of the option :data:`SETTINGS`: the part of ``settings`` that a read needs, as JSON.

    A user who may only write SQL can set options. So this option must not permit more than ``conf`` does.
    """
    return _JSON.dump_json(replace(settings, policies=PolicySettings(), effective=(), warnings=())).decode()


def _given_settings(option: str) -> Settings:
    try:
        return _JSON.validate_json(option)
    except ValidationError as error:
        raise InvalidRequestError(f"the option {SETTINGS} holds no settings; name a configuration by conf") from error


@dataclass(frozen=True)
class SourceRequest:
    """The parsed options: rows of the table called ``name``, at ``version`` or ``time``.

    Without both, they are of the newest version.
    """

    settings: Settings
    name: str
    version: int | None
    time: datetime | None
    columns: tuple[str, ...] | None
    where: str | None
    row_id: bool
    push_filters: bool

    @classmethod
    def of(cls, options: Mapping[str, str], keys: Mapping[str, str] | None = None) -> SourceRequest:
        """Parse the options; ``keys`` are those of object stores in Spark's configuration.

        Raises InvalidRequestError for an option that is unknown or wrong, ConfigError for a bad configuration.
        """
        given = known_options(options, _OPTIONS)
        if not given.get("path"):
            raise InvalidRequestError(
                'name a table: load("information_schema.tables"), load("dfs.tmp.nation"). CREATE TABLE … USING '
                "metastore OPTIONS (path 'dfs.tmp.nation') must not list columns"
            )
        version, time = given.get("version"), given.get("asof")
        if version is not None and (time is not None or not version.isdecimal()):
            raise InvalidRequestError(
                f"the option version is the id of a version, not {version!r}, and cannot be combined with asOf"
            )
        columns = given.get("columns")
        return cls(
            settings_of(given, keys or {}),
            given["path"],
            None if version is None else int(version),
            None if time is None else parse_timestamp(time, zone=None),
            None if columns is None else tuple(name.strip() for name in columns.split(",")),
            given.get("where"),
            _flag(given, "rowid"),
            _flag(given, "pushfilters"),
        )


def known_options(options: Mapping[str, str], known: Sequence[str]) -> dict[str, str]:
    """Returns ``options`` with keys in lower case. Raises InvalidRequestError for one that is not ``known``."""
    given = {key.lower(): value for key, value in options.items()}
    if unknown := sorted(given.keys() - {name.lower() for name in known}):
        named = ", ".join(name for name in known if name != SETTINGS)
        raise InvalidRequestError(f"unknown option {', '.join(unknown)}; there are {named}")
    return given


def settings_of(options: Mapping[str, str], keys: Mapping[str, str]) -> Settings:
    """Returns the settings that options name, with ``keys`` of object stores. Raises ConfigError.

    The processes in which Spark plans and commits have no session: they do all work themselves, whatever is configured.
    """
    settings = _given_settings(options[SETTINGS]) if SETTINGS in options else load(options.get("conf"))
    here = replace(settings.engine, kind="local", sql="duckdb")
    return with_keys_of_session(replace(settings, engine=here), keys)


def _flag(options: Mapping[str, str], name: str) -> bool:
    value = options.get(name, "false").lower()
    if value not in _FLAGS:
        raise InvalidRequestError(f"the option {name} is true or false, not {value!r}")
    return _FLAGS[value]


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
        created = options_of_creation(self.options)
        if created is not None and SETTINGS in created:
            raise InvalidRequestError(
                f"a table of Spark's catalog cannot keep {SETTINGS}; name a configuration by conf"
            )
        request = SourceRequest.of(self.options if created is None else created, self.keys_of_session)
        self._versions = _versions(request)
        table = OwnTable.find(request.name)
        if table is None:
            version = self._versions["tables"]
            names = request.columns or ()
            found = table_schema(request.settings, request.name, version=version, row_id=request.row_id, names=names)
            if request.where is None and not request.push_filters:
                _warn_of_filters(request.name)
        else:
            with Metastore.open(request.settings) as metastore:
                found = spark_schema(table.schema(metastore))[0]
        chosen = _choose_columns(found, request.columns)
        require_digits(chosen)
        return chosen if created is None else with_options(chosen, created)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Returns a reader of these columns, which the user may have declared. Spark asks for one for every scan."""
        request = SourceRequest.of(stored_options(schema, self.options), self.keys_of_session)
        versions = _versions(request) if self._versions is None else self._versions
        table = OwnTable.find(request.name)
        reader: DataSourceReader
        if table is not None:
            with Metastore.open(request.settings) as metastore:
                _require_known(spark_schema(table.schema(metastore))[0], schema)
            reader = OwnTableReader(request.settings, table, schema.names, versions=versions, where=request.where)
            return reader if request.push_filters else _UnfilteredReader(reader)
        version = versions["tables"]
        row_id = ROW_ID in schema.names
        known = table_schema(request.settings, request.name, version=version, row_id=row_id, names=schema.names)
        _require_known(known, schema)
        reader = TableScanReader(request.settings, request.name, schema, version=version, where=request.where)
        return reader if request.push_filters else _UnfilteredReader(reader)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Returns a writer into the table of a catalog, or the folder, that ``save`` names.

        Raises as :class:`metastore.spark.table_sink.TableSink` and :class:`metastore.spark.folder_sink.FolderSink`.
        """
        # Processes that only read need none of it.
        from metastore.spark.folder_sink import ANALYZE, PARTITION_BY, FolderSink, is_folder  # noqa: PLC0415
        from metastore.spark.row_condition import REPLACE_WHERE  # noqa: PLC0415
        from metastore.spark.table_sink import BRANCH, OVERWRITE_MODE, TableSink, overwrite_mode  # noqa: PLC0415

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
                analyzes=_flag(given, ANALYZE),
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


class _UnfilteredReader(DataSourceReader):
    """A reader that Spark does not push filters to, because it does not override ``pushFilters``."""

    def __init__(self, reader: DataSourceReader) -> None:
        self._reader = reader

    def partitions(self) -> Sequence[InputPartition]:
        """Returns the partitions of the wrapped reader."""
        return self._reader.partitions()

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Returns the rows of the wrapped reader."""
        return iter(self._reader.read(partition))


@cache
def _warn_of_filters(name: str) -> None:
    """Say once in a process what Spark's plan cannot say of a Python source."""
    _log.warning(
        "%s is loaded without the option where: .where(…) after load gives the right rows, and skips no file", name
    )


def _versions(request: SourceRequest) -> Versions:
    """Returns the versions of components that the options mean at this moment."""
    table = OwnTable.find(request.name)
    if table is not None:
        with Metastore.open(request.settings) as metastore:
            return table.versions(metastore, request.version, request.time)
    if request.time is not None:
        raise InvalidRequestError(f"asOf is for the metastore's own tables; {request.name} keeps no earlier rows")
    return {"tables": table_version(request.settings) if request.version is None else request.version}


def _require_known(schema: StructType, declared: StructType) -> None:
    """Raises InvalidRequestError unless every declared column is in ``schema`` with the same type."""
    types = {field.name: field.dataType for field in schema}
    for field in declared:
        found = types.get(field.name)
        if found != field.dataType:
            what = f"is {found.simpleString()}, not {field.dataType.simpleString()}" if found else "is unknown"
            raise InvalidRequestError(f"column {field.name} {what}; the columns are {schema.simpleString()}")


def _choose_columns(schema: StructType, columns: tuple[str, ...] | None) -> StructType:
    """Returns the columns of these names, in any case. Raises InvalidRequestError for an unknown column."""
    if columns is None:
        return schema
    by_lower = {field.name.lower(): field for field in schema}
    if unknown := [name for name in columns if name.lower() not in by_lower]:
        raise InvalidRequestError(f"unknown column {', '.join(unknown)}; there are {', '.join(schema.names)}")
    return StructType([by_lower[name.lower()] for name in columns])
