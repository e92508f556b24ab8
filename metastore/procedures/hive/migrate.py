"""``system.migrate`` turns a Hive table into an Iceberg table in place; it reads only the footers of the files.

Tasks of an engine read the footers; this process does the rest. :mod:`metastore.procedures.hive.migration.migrate`
describes the order of the steps, and the state after a kill at any of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from metastore.errors import EngineError, InvalidRequestError
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
from metastore.procedures.hive.int96 import rewriter
from metastore.procedures.hive.metrics import FRAGMENT, read_metrics
from metastore.procedures.hive.migration.backup import BACKUP_PROPERTY
from metastore.procedures.hive.migration.kept_footers import WORTH_KEEPING, KeptFooters, missing
from metastore.procedures.hive.migration.layout import NAME_MAPPING
from metastore.procedures.hive.migration.migrate import Migration, MigrationOutcome, complete, finish_again
from metastore.procedures.hive.migration.survey import Survey
from metastore.procedures.hive.new_properties import new_properties
from metastore.procedures.hive.service import hive_client, hive_properties
from metastore.sources.hive.listing import NestedDirectories
from metastore.sources.hive.tables import HiveTable

_CHUNK_FILES: Final = 250
_WAVE: Final = 16
"""Chunks per call of an engine, if footers are kept. An engine may return all its results only at the end."""

_OWN_PROPERTIES: Final = (BACKUP_PROPERTY, NAME_MAPPING)
_VERSION_OF_REWRITING: Final = 2
_RESULT: Final = columns(
    status=pa.string(),
    files=pa.int64(),
    bytes=pa.int64(),
    records=pa.int64(),
    partitions=pa.int64(),
    formats=pa.map_(pa.string(), pa.int64()),
    obstacles=pa.list_(pa.string()),
    warnings=pa.list_(pa.string()),
    metadata_location=pa.string(),
)


@dataclass
class MigrateCall:
    """One call. Without a ``survey``, the migration of the ``switched`` table is only completed.

    ``known`` are footers that an earlier, killed call has read; this call ``keeps`` its own if they are many. At most
    ``at_once`` tasks run at the same time.
    """

    migration: Migration
    now_ms: int
    at_once: int | None = None
    survey: Survey | None = None
    switched: HiveTable | None = None
    known: list[pa.RecordBatch] = field(default_factory=list)
    keeps: bool = False

    @cached_property
    def kept_footers(self) -> KeptFooters:
        """The store of the footers that have been read."""
        assert self.survey is not None
        return KeptFooters(self.migration.store, self.survey)


class Migrate(DistributedProcedure[MigrateCall]):
    """Turns a Hive table into an Iceberg table in place."""

    type = DistributedProcedureType.TABLE_IMPORT

    def create_context(self, call: CallContext, arguments: Mapping[str, Any]) -> MigrateCall:
        """Returns the arguments of the call. Sends no request to the service yet. Raises InvalidRequestError."""
        properties = hive_properties(call)
        version, own = new_properties(arguments["properties"], _OWN_PROPERTIES)
        if version > _VERSION_OF_REWRITING and arguments["rewrite_int96"]:
            raise InvalidRequestError(
                "rewrite_int96 makes tables of format version 2 only: leave format-version out, and CALL "
                "system.upgrade_format_version afterwards"
            )
        name = f"{arguments['schema_name']}.{arguments['table_name']}"
        require_folder_names(
            (arguments["schema_name"], arguments["table_name"], *filter(None, (arguments["backup_table_name"],)))
        )
        migration = Migration(
            client=hive_client(call),
            database=arguments["schema_name"],
            name=arguments["table_name"],
            nested=NestedDirectories.parse(arguments["recursive_directory"]),
            block_others=arguments["block_other_engines"],
            dry_run=arguments["dry_run"],
            rewrite=rewriter(name, properties, call.engine) if arguments["rewrite_int96"] else None,
            properties=properties,
            format_version=version,
            table_properties=own,
            ignore_missing=arguments["ignore_missing_files"],
            backup_table=None if arguments["drop_backup"] else arguments["backup_table_name"],
        )
        return MigrateCall(migration, call.now_ms(), tasks_at_once(arguments["parallelism"]))

    def begin(self, context: MigrateCall) -> Plan:
        """Survey the table, and split its files into chunks.

        Raises NotFoundError if the table does not exist, and ProcedureError if it cannot be migrated.
        """
        migration = context.migration
        with closing(migration.client):
            table = migration.table()
            if table.is_iceberg:
                context.switched = table
                return Plan((), read_metrics, FRAGMENT, describe=f"finish the migration of {table}")
            found = context.survey = migration.survey(table)
        if found.obstacles:
            return Plan((), read_metrics, FRAGMENT, describe=f"{table} cannot be migrated")
        context.known = context.kept_footers.read()
        files = missing(found, context.known)
        chunks = found.chunks(dict(migration.properties), _CHUNK_FILES, files)
        what = f"{table}: {len(found.files)} files, {found.bytes} bytes, {len(found.partitions)} partitions"
        if context.known:
            what += f"; {len(found.files) - len(files)} footers are known from a call that did not come to its end"
        context.keeps = not migration.dry_run and len(files) >= WORTH_KEEPING
        wave = min(_WAVE, context.at_once or _WAVE) if context.keeps else context.at_once
        return Plan(chunks, read_metrics, FRAGMENT, describe=what, files=len(files), wave=wave)

    def finish(self, context: MigrateCall, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> Rows:
        """Stage the metadata and switch the table, or report why not."""
        with closing(context.migration.client):
            if context.survey is None:
                assert context.switched is not None
                return _row(finish_again(context.migration, context.switched))
            read = pa.Table.from_batches([*context.known, *_keep_fragments(context, fragments)], FRAGMENT)
            if read.num_rows != (0 if context.survey.obstacles else len(context.survey.files)):
                raise EngineError(f"not all footers of {context.survey.table} arrived; nothing was changed")
            return _row(complete(context.migration, context.survey, read, now_ms=context.now_ms))

    def abort(self, context: MigrateCall, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> None:
        """Close the connection; tasks write nothing."""
        context.migration.client.close()


def _keep_fragments(context: MigrateCall, fragments: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields ``fragments`` as they arrive; keeps each first, if the call keeps them."""
    for batch in fragments:
        if context.keeps:
            context.kept_footers.keep(batch)
        yield batch


def _row(outcome: MigrationOutcome) -> dict[str, Any]:
    found = outcome.survey
    return {
        "status": outcome.status,
        "files": len(found.files) if found else None,
        "bytes": found.bytes if found else None,
        "records": outcome.records,
        "partitions": len(found.partitions) if found else None,
        "formats": list(found.formats.items()) if found else None,
        "obstacles": list(outcome.obstacles),
        "warnings": list(outcome.warnings),
        "metadata_location": outcome.metadata_location,
    }


migrate: Final = Migrate(
    "system",
    "migrate",
    (
        Argument("schema_name"),
        Argument("table_name"),
        Argument("recursive_directory", required=False, default="fail"),
        Argument("dry_run", "BOOLEAN", required=False, default=False),
        Argument("block_other_engines", "BOOLEAN", required=False, default=True),
        Argument("rewrite_int96", "BOOLEAN", required=False, default=False),
        Argument("properties", "MAP(VARCHAR, VARCHAR)", required=False),
        Argument("backup_table_name", required=False),
        Argument("drop_backup", "BOOLEAN", required=False, default=False),
        Argument("ignore_missing_files", "BOOLEAN", required=False, default=True),
        Argument("parallelism", "INTEGER", required=False),
    ),
    result=_RESULT,
    description="Turns a Hive table of Parquet, ORC or Avro files into an Iceberg table, in place.",
)
"""The procedure ``system.migrate``."""
