"""``add_files`` adds existing data files to a table, without copying them; only their footers are read.

It is a distributed procedure of type table import. ``begin`` lists the files, tasks read their footers, and ``finish``
commits one snapshot that appends them. From then on the table owns the files: expiration deletes them when they are no
longer needed. Readers find the columns of files without field IDs by the table's name mapping. If that is missing, the
same commit sets it.

A file that the table already has, in any spelling of its location, counts as the same file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, Final

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.io.pyarrow import MetricModeTypes
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import parse_mapping_from_json
from pyiceberg.table.update import SetPropertiesUpdate, TableUpdate
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from metastore.errors import InvalidRequestError, ProcedureError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.manifests.metrics_plan import metrics_plan
from metastore.lake.iceberg.manifests.partition_key import partition_key
from metastore.lake.iceberg.snapshots.contention import until_won
from metastore.lake.writes.publication import publish_change, require_same_columns
from metastore.procedures.files.guards import require_foreign, require_written_version
from metastore.procedures.framework.arguments import Argument
from metastore.procedures.framework.model import (
    CallContext,
    Plan,
    TableImportDistributedProcedure,
    columns,
    tasks_at_once,
)
from metastore.procedures.hive.migration.reader_differences import KNOWN, UNREAD
from metastore.procedures.imports.duplicates import DuplicateFile
from metastore.procedures.imports.import_listing import ImportedFile, files_at, list_files, matching
from metastore.procedures.imports.import_metrics import (
    FRAGMENT,
    READERS,
    Cut,
    ImportChunk,
    Target,
    read_metrics,
)
from metastore.sources.hive.listing import NestedDirectories

_FILES_A_CHUNK: Final = 200
_SHOWN: Final = 3


_RESULT: Final = columns(
    added_files_count=pa.int64(),
    changed_partition_count=pa.int64(),
    added_records_count=pa.int64(),
    added_bytes=pa.int64(),
    skipped_files_count=pa.int64(),
    message=pa.string(),
)


@dataclass(frozen=True, kw_only=True)
class _Import:
    """One call: its target table and its arguments. At most ``at_once`` tasks run at the same time."""

    call: CallContext
    target: TargetTable
    location: str | None
    files: Sequence[str]
    format: str
    partition_filter: Mapping[str, str] | None
    duplicates: DuplicateFile
    recursive: NestedDirectories
    at_once: int | None


@dataclass(frozen=True)
class _ImportPlan(Plan):
    """``found`` counts all files of the call, including those that the table already has."""

    found: int = 0


class AddFiles(TableImportDistributedProcedure[_Import]):
    """The procedure: ``begin`` lists files, tasks read footers, ``finish`` appends the files. Tasks write nothing."""

    def create_context(self, call: CallContext, arguments: Mapping[str, Any]) -> _Import:
        """Check the arguments. Raises InvalidRequestError if they do not fit together."""
        location, files = arguments["location"], arguments["files"]
        if (location is None) == (files is None):
            raise InvalidRequestError("exactly one of the arguments location and files is expected")
        if files is not None and not files:
            raise InvalidRequestError("files must not be empty when provided")
        target = call.table(arguments["schema"], arguments["table_name"])
        require_foreign(target, "its files are the metastore's, written by its components")
        return _Import(
            call=call,
            target=target,
            location=location,
            files=tuple(files or ()),
            format=_format(arguments["format"]),
            partition_filter=arguments["partition_filter"],
            duplicates=DuplicateFile.parse(arguments["duplicate_file"]),
            recursive=NestedDirectories.parse(arguments["recursive_directory"]),
            at_once=tasks_at_once(arguments["parallelism"]),
        )

    def begin(self, context: _Import) -> Plan:
        """List the files. Raises NotFoundError if there are none, ProcedureError if the table already has some."""
        table = context.target.load()
        require_written_version(table, context.target)
        found = self._list_files(context, table)
        files = context.duplicates.without_known(found, attrgetter("location"), table, context.call.engine)
        metadata = table.metadata
        shape = Target(metadata.schema(), metadata.spec(), _mapping(metadata), _cuts(metadata))
        chunks = [
            ImportChunk(table.io, context.format, shape, files[start : start + _FILES_A_CHUNK])
            for start in range(0, len(files), _FILES_A_CHUNK)
        ]
        snapshot = metadata.current_snapshot()
        pinned = snapshot.snapshot_id if snapshot else None
        describe = f"append {len(files)} of {len(found)} files to {context.target}"
        return _ImportPlan(
            chunks,
            read_metrics,
            FRAGMENT,
            pinned,
            describe,
            files=len(files),
            wave=context.at_once,
            found=len(found),
        )

    def finish(self, context: _Import, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> Mapping[str, Any]:
        """Append the files. Raises ProcedureError with names if one does not fit, ConflictError after lost races."""
        rows = [row for fragment in fragments for row in fragment.to_pylist()]
        if refused := [row for row in rows if row["error"] is not None]:
            shown = "; ".join(f"{row['location']}: {row['error']}" for row in refused[:_SHOWN])
            raise ProcedureError(f"{len(refused)} of {len(rows)} files cannot be added, so none was: {shown}")
        assert isinstance(plan, _ImportPlan)
        timeout = context.call.settings.iceberg.commit.timeout
        return until_won(context.target, timeout, lambda table: _append(context, table, plan, rows))

    def abort(self, context: _Import, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> None:
        """Do nothing: tasks write nothing."""

    def _list_files(self, context: _Import, table: Table) -> list[ImportedFile]:
        if context.location is None:
            files = files_at(context.files)
        else:
            files = list_files(context.location, table.io, context.call.engine, context.recursive)
        return matching(files, context.partition_filter, str(context.target))


def _append(context: _Import, table: Table, plan: _ImportPlan, rows: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """One attempt: appends the files that are still no duplicates to the current table."""
    metadata = table.metadata
    if rows and metadata.current_snapshot_id != plan.pinned:
        rows = context.duplicates.without_known(rows, itemgetter("location"), table, context.call.engine)
    if not rows:
        message = "nothing was added: the table has all files already"
        return {**dict.fromkeys(_RESULT.names, 0), "skipped_files_count": plan.found, "message": message}
    shape: Target = plan.chunks[0].target
    if shape.schema.schema_id != metadata.current_schema_id or shape.spec.spec_id != metadata.default_spec_id:
        raise ProcedureError(
            f"schema or partitioning of {context.target} changed while footers were read; nothing was added, call again"
        )
    files_added = [_data_file(row, shape, context.format) for row in rows]
    partitions = {partition_key(file.spec_id, file.partition) for file in files_added}
    publish_change(
        context.target,
        table,
        context.call.now_ms(),
        files_added,
        updates=_name_mapping(metadata) if any(row["by_name"] for row in rows) else (),
        requirements=require_same_columns(metadata),
    )
    return {
        "added_files_count": len(files_added),
        "changed_partition_count": len(partitions) if shape.spec.fields else None,
        "added_records_count": sum(file.record_count for file in files_added),
        "added_bytes": sum(file.file_size_in_bytes for file in files_added),
        "skipped_files_count": plan.found - len(files_added),
        "message": _message(context.format, rows),
    }


def _message(format_: str, rows: Iterable[Mapping[str, Any]]) -> str:
    """Returns the notes for readers of the table about the added files; empty if there are none."""
    found = dict.fromkeys((column, values) for row in rows for column, values in row["differences"])
    warnings = [f"column {column} may hold {values}: {KNOWN[values].what}" for column, values in found]
    return "; ".join([UNREAD[format_], *warnings] if format_ in UNREAD else warnings)


def _name_mapping(metadata: TableMetadata) -> list[TableUpdate]:
    """Returns the update that sets the name mapping, unless the table has one."""
    name = TableProperties.DEFAULT_NAME_MAPPING
    if name in metadata.properties:
        return []
    return [SetPropertiesUpdate(updates={name: metadata.schema().name_mapping.model_dump_json()})]


def _data_file(row: Mapping[str, Any], shape: Target, format_: str) -> DataFile:
    """The manifest entry of a row that a task returned; partition values are in Iceberg's binary form there."""
    types = shape.spec.partition_type(shape.schema).fields
    values = [
        None if value is None else from_bytes(field.field_type, value)
        for field, value in zip(types, row["partition"], strict=True)
        if isinstance(field.field_type, PrimitiveType)
    ]
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=row["location"],
        file_format=FileFormat[format_],
        partition=Record(*values),
        record_count=row["records"],
        file_size_in_bytes=row["size"],
        column_sizes=dict(row["sizes"]),
        value_counts=dict(row["values"]),
        null_value_counts=dict(row["nulls"]),
        nan_value_counts={},
        lower_bounds=dict(row["lower"]),
        upper_bounds=dict(row["upper"]),
        key_metadata=None,
        split_offsets=row["splits"] or None,
        equality_ids=None,
        sort_order_id=None,
    )
    made.spec_id = shape.spec.spec_id
    return made


def _mapping(metadata: TableMetadata) -> Any:
    given = metadata.properties.get(TableProperties.DEFAULT_NAME_MAPPING)
    return metadata.schema().name_mapping if given is None else parse_mapping_from_json(given)


def _cuts(metadata: TableMetadata) -> dict[int, Cut]:
    """Returns the metrics of each column that the table's properties ask to keep."""
    kept = {}
    for field_id, column in metrics_plan(metadata.schema(), metadata.properties).items():
        mode = column.mode.type
        bounds = mode in (MetricModeTypes.TRUNCATE, MetricModeTypes.FULL)
        kept[field_id] = Cut(mode is not MetricModeTypes.NONE, bounds, column.mode.length)
    return kept


def _format(text: str) -> str:
    if text.upper() not in READERS:
        raise InvalidRequestError(f"format is one of {', '.join(READERS)}, not {text!r}")
    return text.upper()


add_files: Final = AddFiles(
    "system",
    "add_files",
    (
        Argument("schema"),
        Argument("table_name"),
        Argument("location", required=False),
        Argument("files", "ARRAY(VARCHAR)", required=False),
        Argument("format", required=False, default="PARQUET"),
        Argument("partition_filter", "MAP(VARCHAR, VARCHAR)", required=False),
        Argument("duplicate_file", required=False, default=DuplicateFile.ERROR.value),
        Argument("recursive_directory", required=False, default=NestedDirectories.REFUSE.value),
        Argument("parallelism", "INTEGER", required=False),
    ),
    result=_RESULT,
    description="Adds existing data files to a table without copying them.",
)
"""The procedure ``system.add_files``."""
