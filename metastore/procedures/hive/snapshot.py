"""``system.snapshot_table`` makes an Iceberg table over the files of a Hive table, which does not change.

It serves to try out a migration. The new table has its own folder and writes there. It never deletes files of the
source (``gc.enabled`` is false). It does not contain later inserts into the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.io.pyarrow import PyArrowFileIO

from metastore.errors import ConflictError, InvalidRequestError, MetastoreError
from metastore.lake.stores.locations import require_folder_names
from metastore.procedures.framework.arguments import Argument
from metastore.procedures.framework.model import (
    CallContext,
    DistributedProcedure,
    DistributedProcedureType,
    Plan,
    Rows,
    columns,
    tasks_at_once,
)
from metastore.procedures.hive.metrics import FRAGMENT, read_metrics
from metastore.procedures.hive.migration.layout import NAME_MAPPING
from metastore.procedures.hive.migration.migrate import Migration
from metastore.procedures.hive.migration.reader_warnings import warnings_of
from metastore.procedures.hive.migration.staging import NewIcebergTable, StagedMetadata, stage
from metastore.procedures.hive.migration.survey import Survey
from metastore.procedures.hive.migration.switch import remove_files
from metastore.procedures.hive.new_properties import NewVersion, new_properties
from metastore.procedures.hive.service import hive_client, hive_properties
from metastore.sources.hive.listing import HiveStore, NestedDirectories, plain_location

_CHUNK_FILES: Final = 250
_PROPERTIES: Final = {"gc.enabled": "false", "snapshot": "true"}
_RESULT: Final = columns(
    imported_files_count=pa.int64(),
    imported_records_count=pa.int64(),
    metadata_location=pa.string(),
    warnings=pa.list_(pa.string()),
)


@dataclass(kw_only=True)
class SnapshotCall:
    """One call: the source, and name, location, version and properties of the new table.

    At most ``at_once`` tasks run at the same time.
    """

    context: CallContext
    source: Migration
    schema: str
    name: str
    location: str | None
    format_version: NewVersion
    properties: Mapping[str, str]
    at_once: int | None = None
    survey: Survey | None = None


class SnapshotTable(DistributedProcedure[SnapshotCall]):
    """Makes an Iceberg table over the files of a Hive table."""

    type = DistributedProcedureType.TABLE_IMPORT

    def create_context(self, call: CallContext, arguments: Mapping[str, Any]) -> SnapshotCall:
        """Returns the arguments of the call. Sends no request to the service yet. Raises InvalidRequestError."""
        source = Migration(
            client=hive_client(call),
            database=arguments["source_schema"],
            name=arguments["source_table"],
            nested=NestedDirectories.parse(arguments["recursive_directory"]),
            properties=hive_properties(call),
            ignore_missing=arguments["ignore_missing_files"],
        )
        version, own = new_properties(arguments["properties"], (*_PROPERTIES, NAME_MAPPING))
        schema, name, location = (arguments[each] for each in ("schema_name", "table_name", "location"))
        require_folder_names((schema, name))
        at_once = tasks_at_once(arguments["parallelism"])
        return SnapshotCall(
            context=call,
            source=source,
            schema=schema,
            name=name,
            location=location,
            format_version=version,
            properties=own,
            at_once=at_once,
        )

    def begin(self, context: SnapshotCall) -> Plan:
        """Survey the source, and check the location of the new table.

        Raises NotFoundError if the source or the schema does not exist, InvalidRequestError if the name is taken or the
        location overlaps with the source, and ProcedureError if Iceberg does not support the source.
        """
        client = context.source.client
        with closing(client):
            found = context.survey = context.source.survey(context.source.table())
            place = context.location or f"{client.database_location(context.schema)}/{context.name}"
            context.location = place.rstrip("/")
            if context.name.lower() in client.tables(context.schema):
                raise InvalidRequestError(f"{context.schema}.{context.name} exists already")
        for taken in (found.table.location, *(each.location for each in found.partitions)):
            if _overlap(taken, context.location):
                raise InvalidRequestError(f"{context.location} overlaps with {taken}, which is {found.table}'s")
        chunks = found.chunks(dict(context.source.properties), _CHUNK_FILES)
        what = f"{found.table}: {len(found.files)} files into {context.schema}.{context.name}"
        return Plan(chunks, read_metrics, FRAGMENT, describe=what, files=len(found.files), wave=context.at_once)

    def finish(self, context: SnapshotCall, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> Rows:
        """Write the metadata into the new table's folder, and register the table."""
        assert context.survey is not None
        assert context.location is not None
        read = pa.Table.from_batches(list(fragments), FRAGMENT)
        folder = f"{context.location}/metadata"
        staged = stage(
            context.survey,
            read,
            PyArrowFileIO(dict(context.source.properties)),
            folder,
            new_table=NewIcebergTable(context.location, {**context.properties, **_PROPERTIES}, context.format_version),
            now_ms=context.context.now_ms(),
        )
        HiveStore(context.source.properties).make_durable(folder)
        self._register(context, staged)
        return {
            "imported_files_count": len(context.survey.files),
            "imported_records_count": staged.records,
            "metadata_location": staged.metadata_location,
            "warnings": warnings_of(context.survey, read),
        }

    def abort(self, context: SnapshotCall, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> None:
        """Do nothing: tasks write nothing."""

    @staticmethod
    def _register(context: SnapshotCall, staged: StagedMetadata) -> None:
        catalog = context.context.catalogs.open(context.context.catalog)
        try:
            catalog.register_table((context.schema, context.name), staged.metadata_location)
        except TableAlreadyExistsError as error:
            with suppress(OSError, MetastoreError):  # the ConflictError below is the error to show
                # Remove only these files: another call may have put the metadata of its table into the same folder.
                remove_files(HiveStore(context.source.properties), staged.files)
            raise ConflictError(f"{context.schema}.{context.name} was created by another program meanwhile") from error


def _overlap(one: str, other: str) -> bool:
    left, right = f"{plain_location(one)}/", f"{plain_location(other)}/"
    return left.startswith(right) or right.startswith(left)


snapshot_table: Final = SnapshotTable(
    "system",
    "snapshot_table",
    (
        Argument("source_schema"),
        Argument("source_table"),
        Argument("schema_name"),
        Argument("table_name"),
        Argument("location", required=False),
        Argument("recursive_directory", required=False, default="fail"),
        Argument("properties", "MAP(VARCHAR, VARCHAR)", required=False),
        Argument("ignore_missing_files", "BOOLEAN", required=False, default=True),
        Argument("parallelism", "INTEGER", required=False),
    ),
    result=_RESULT,
    description="Makes an Iceberg table over the files of a Hive table, which stays as it is.",
)
"""The procedure ``system.snapshot_table``."""
