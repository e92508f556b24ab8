"""A DataFrame goes into the folder of a table of files: ``df.write.format("metastore").save("dfs.shop.sales")``.

Place in the flow: Spark's plan computes the rows. Each task writes its rows as Parquet files in a hidden folder of this
write, inside of the table's folder. The driver's host moves the files of the tasks that count to their places, then
deletes the files that they replace, and then runs ANALYZE if the option says so.

Promises: readers and ANALYZE pass over the hidden folder, so attempts that failed, were killed or came second are never
seen; the folder is removed at the end. Nothing is deleted before all new files are in their places. A folder has no
commit: who reads while files are moved sees some of them.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.exceptions import ValidationError
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BooleanType, DateType, IntegerType, LongType, NestedField, StringType
from pyspark.sql import types as spark
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from metastore.config import Settings
from metastore.errors import InvalidRequestError, NotFoundError, StorageError
from metastore.ground.epoch import EPOCH_DAY
from metastore.ground.suggestions import did_you_mean
from metastore.lake.formats.names import PARQUET, format_of_files
from metastore.lake.formats.source_file import SourceFile
from metastore.lake.iceberg.catalogs.iceberg_private import schema_of_columns
from metastore.lake.stores.arrow import open_location
from metastore.lake.stores.containment import Roots
from metastore.lake.stores.deletion import DeletionChunk, delete_chunk
from metastore.lake.stores.files import discard, flush
from metastore.lake.stores.listed_files import OpenedFolders, identities
from metastore.lake.stores.locations import is_local
from metastore.lake.stores.opening import open_store
from metastore.lake.stores.read_errors import reading_file
from metastore.lake.stores.threads import for_each
from metastore.lake.writes.fields_by_name import type_by_name
from metastore.lake.writes.insert_values import InsertValues
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.task_files import TaskFiles
from metastore.model.drill_types import DrillType
from metastore.model.statistics import Value
from metastore.sources.directories import column_of, named_values
from metastore.sources.directory_values import is_null, value_of
from metastore.sources.hive.partitions import partition_name
from metastore.sources.naming import is_path
from metastore.sources.source_table import SourceTable
from metastore.spark.spark_types import arrow_columns, spark_schema
from metastore.spark.table_sink import WrittenFiles, open_session, write_rows

if TYPE_CHECKING:
    from metastore.session import Session

_HIDDEN: Final = "_writing-"
_IN_NAMES: Final[Mapping[type, DrillType]] = {
    StringType: DrillType("VARCHAR"),
    IntegerType: DrillType("INT"),
    LongType: DrillType("BIGINT"),
    DateType: DrillType("DATE"),
    BooleanType: DrillType("BOOLEAN"),
}
"""Types whose values the name of a directory tells exactly."""


class FolderSink(DataSourceArrowWriter):
    """Writes rows with the columns of ``columns`` into the folder of the table ``name``: by name, in any case.

    ``overwrites`` is ``static`` or ``dynamic``, or None to append. Raises InvalidRequestError for a folder that may not
    be written to or is kept by a table format, for columns that do not fit the table, and for files of another format.
    """

    def __init__(
        self,
        settings: Settings,
        name: str,
        columns: StructType,
        *,
        overwrites: str | None,
        partition_by: str | None,
        analyzes: bool,
    ) -> None:
        self._settings = settings
        self._name = name
        self._overwrites = overwrites
        self._analyzes = analyzes
        with open_session(settings) as ms:
            source = _folder(ms, name)
            files = _files(source)
            known = {} if overwrites == "static" or not files else _columns_by_name(ms, source, files[0])
        given = None if partition_by is None else [each.strip() for each in partition_by.split(",") if each.strip()]
        fields = _partition_columns(files, given, is_free=overwrites == "static")
        columns = StructType([_spell_fields(each, known.get(each.name.lower())) for each in columns])
        names = _names(columns, known, fields)
        arrow = pa.schema([each.with_name(own) for each, own in zip(arrow_columns(columns), names, strict=True)])
        try:
            schema = schema_of_columns(arrow, 2)
        except (ValidationError, TypeError, ValueError, pa.ArrowException) as error:
            raise InvalidRequestError(f"{name} cannot have a column of the DataFrame: {error}") from error
        self._job = _job(source, schema, _spec(schema, fields, name))
        self._values = InsertValues(schema, range(len(names)), {}, "", by_name=True)

    def write(self, iterator: Any) -> WrittenFiles:
        """Write the rows of one task into the hidden folder. Raises StorageError and FormatError."""
        job = self._job
        return write_rows(job, (each for batch in iterator for each in self._values.rows(job, batch).to_batches()))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Move the files of all tasks to their places, delete what they replace, and analyze the table.

        Raises StorageError: if a file could not be moved, the table is as before; if an old one could not be deleted,
        the error names it, and the new ones are there. Raises the errors of ANALYZE, with all files in place.
        """
        files = [file for message in messages if isinstance(message, WrittenFiles) for file in message.files]
        with open_session(self._settings) as ms:
            source = _folder(ms, self._name)
            try:
                old = self._replaced_paths(_files(source), files) if self._overwrites else []
                listed = identities(old)
                self._move(source, files)
            finally:
                self._remove_hidden(source)
            kept = delete_chunk(DeletionChunk(self._job.io, old, Roots((source.location,)), listed))
            if kept:
                path, reason = next(iter(kept.items()))
                raise StorageError(
                    f"the new files of {self._name} are in place, and {len(kept)} old ones could not be deleted: "
                    f"{path}: {reason}"
                )
            if self._analyzes:
                ms.analyze(self._name)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Remove the hidden folder of a write whose tasks failed. After a failed commit there is nothing to do."""
        if None in messages:
            with open_session(self._settings) as ms:
                self._remove_hidden(_folder(ms, self._name))

    def _replaced_paths(self, old: Sequence[SourceFile], files: Sequence[DataFile]) -> list[str]:
        """Returns the paths of the ``old`` files that ``files`` replace."""
        spec = self._job.output_spec
        if self._overwrites == "static" or not spec.fields:
            return [each.path for each in old]
        types = {
            field.name.lower(): _IN_NAMES[type(self._job.schema.find_type(field.source_id))] for field in spec.fields
        }
        new = {_key(self._directories(file).split("/"), types) for file in files}
        return [each.path for each in old if _key(each.directories, types) in new]

    def _directories(self, file: DataFile) -> str:
        """Returns the directories of a new file, relative to the table's; an empty text without partitions."""
        fields = self._job.output_spec.fields
        values = [_text(file.partition[place], self._job.schema, field) for place, field in enumerate(fields)]
        return partition_name([(field.name, value) for field, value in zip(fields, values, strict=True)])

    def _move(self, source: SourceTable, files: Sequence[DataFile]) -> None:
        """Move new files to their directories. After a failure, those already moved are removed again."""
        location = source.location
        store, root = open_location(location, source.options)
        moves = {}
        for file in files:
            directories = self._directories(file)
            below = f"{directories}/" if directories else ""
            moves[file.file_path] = f"{location}/{below}{file.file_path.rpartition('/')[2]}"
        try:
            if not moves and self._overwrites and not self._job.output_spec.fields:
                # A table without rows keeps its columns.
                empty = schema_to_pyarrow(self._job.stored_schema, include_field_ids=False).empty_table()
                moves[f"{_hidden_folder(self._job)}/empty.parquet"] = f"{location}/empty-{self._job.mark}.parquet"
                store.create_dir(_at(root, location, _hidden_folder(self._job)), recursive=True)
                pq.write_table(empty, _at(root, location, next(iter(moves))), filesystem=store)
            for folder in sorted({place.rpartition("/")[0] for place in moves.values()}):
                store.create_dir(_at(root, location, folder), recursive=True)
            for_each(list(moves.items()), lambda move: store.move(*(_at(root, location, each) for each in move)))
            flush(moves.values())
        except (OSError, pa.ArrowException) as error:
            discard(self._job.io, moves.values())
            raise StorageError(f"cannot move new files into {location}: {error}; the table is as before") from error

    def _remove_hidden(self, source: SourceTable) -> None:
        """Remove the hidden folder with what is in it. A store that fails leaves it, and readers pass over it."""
        hidden = _hidden_folder(self._job)
        with suppress(OSError, pa.ArrowException, StorageError):
            if is_local(source.location):
                with OpenedFolders([source.location]) as folders:
                    folders.remove_tree(os.path.realpath(hidden))
                return
            store, root = open_location(source.location, source.options)
            store.delete_dir(_at(root, source.location, hidden))


def is_folder(settings: Settings, name: str) -> bool:
    """Whether ``name`` is a path, or a name in a storage plugin whose tables are folders."""
    plugin = settings.storage.get(name.partition(".")[0])
    return is_path(name) or (plugin is not None and plugin.kind.in_folders)


def _folder(ms: Session, name: str) -> SourceTable:
    source = ms.source(name)
    plugin = ms.settings.storage.get(source.table.storage_plugin)
    workspace = None if plugin is None else plugin.workspaces.get(source.table.workspace)
    if workspace is None or not workspace.writable:
        raise InvalidRequestError(
            f"{name} cannot be written: {source.location} is in no workspace with writable = true; set it in "
            "drill.metastore.storage.<plugin>.workspaces.<workspace>"
        )
    if source.provided is not None or source.lister is not None or source.columns is not None:
        raise InvalidRequestError(f"{name} is {source.format or 'a table'} of another system: write it there")
    return source


def _files(source: SourceTable) -> Sequence[SourceFile]:
    """Returns the files of the folder, none if it does not exist.

    Raises InvalidRequestError if they are not Parquet.
    """
    try:
        files = source.files()
    except NotFoundError:
        return ()
    if any(file.path == source.location for file in files):
        raise InvalidRequestError(f"{source.location} is a file; a DataFrame is written into a folder")
    found = source.format or format_of_files(files, {})
    if files and found not in (None, PARQUET):
        raise InvalidRequestError(f"{source.table} has files of format {found}; a DataFrame is written as Parquet")
    return files


def _columns_by_name(ms: Session, source: SourceTable, first: SourceFile) -> Mapping[str, spark.StructField]:
    """Returns the columns by their names in lower case: of the analyzed table, else of its first file.

    Raises FormatError and StorageError, which name the file.
    """
    try:
        columns = ms.tables.scan(source.table, list_files=False).schema
    except NotFoundError:
        store, root = open_location(source.location, source.options)
        with reading_file(first.path):
            columns = pq.read_schema(_at(root, source.location, first.path), filesystem=store)
    return {field.name.lower(): field for field in spark_schema(columns)[0]}


def _partition_columns(files: Sequence[SourceFile], columns: Sequence[str] | None, *, is_free: bool) -> Sequence[str]:
    """Returns the names of the directories' columns. Raises InvalidRequestError for others than the folder has."""
    shapes = {tuple(found[0] if (found := column_of(each)) else "" for each in file.directories) for file in files}
    if is_free and columns is not None:
        return columns
    shape = next(iter(shapes), ())
    if columns is not None and not shapes:
        return columns
    if len(shapes) > 1 or "" in shape:
        shown = ", ".join("/".join(each or "*" for each in shape) or "none" for shape in sorted(shapes))
        raise InvalidRequestError(f"the folder has files in directories of several kinds, or without names: {shown}")
    if columns is not None and [each.lower() for each in columns] != [each.lower() for each in shape]:
        raise InvalidRequestError(f"the folder has directories of ({', '.join(shape)}), not of ({', '.join(columns)})")
    return shape


def _spell_fields(field: spark.StructField, there: spark.StructField | None) -> spark.StructField:
    """Returns a column with the fields of its structs as the table's column ``there`` has them, if it has the same."""
    if there is None:
        return field
    own, target = arrow_columns(StructType([field, there]))
    kind = type_by_name(own.type, target.type)
    return field if kind == own.type else spark_schema(pa.schema([pa.field(field.name, kind)]))[0][0]


def _names(columns: StructType, known: Mapping[str, spark.StructField], fields: Collection[str]) -> list[str]:
    """Returns the columns' names as the table spells them. Raises InvalidRequestError for one that does not fit."""
    in_names = {each.lower(): each for each in fields}
    names = []
    for field in columns:
        key = field.name.lower()
        there = known.get(key)
        if known and there is None and key not in in_names:
            others = list(dict.fromkeys((*(each.name for each in known.values()), *fields)))
            raise InvalidRequestError(
                f"the table has no column {field.name}{did_you_mean(field.name, others)}; its columns are "
                f"{', '.join(others)}"
            )
        if isinstance(field.dataType, (spark.ByteType, spark.ShortType)):
            raise InvalidRequestError(f"column {field.name} is {field.dataType.simpleString()}: cast it to int")
        if there is not None and key not in in_names and there.dataType.simpleString() != field.dataType.simpleString():
            raise InvalidRequestError(
                f"column {field.name} is {there.dataType.simpleString()}, and the DataFrame gives "
                f"{field.dataType.simpleString()}"
            )
        names.append(in_names.get(key) or (field.name if there is None else there.name))
    if len({name.lower() for name in names}) < len(names):
        raise InvalidRequestError(f"a column is given twice: {', '.join(names)}")
    if missing := [each for each in fields if each not in names]:
        raise InvalidRequestError(f"the directories need a value of {', '.join(missing)}, which the DataFrame lacks")
    if len(names) == len(in_names):
        raise InvalidRequestError("every column is one of the directories: files need a column of their own")
    return names


def _spec(schema: Schema, fields: Sequence[str], name: str) -> PartitionSpec:
    found = []
    for number, each in enumerate(fields):
        column: NestedField = schema.find_field(each)
        if not isinstance(column.field_type, tuple(_IN_NAMES)):
            raise InvalidRequestError(f"{name} cannot have directories of {each}: its type is {column.field_type}")
        found.append(PartitionField(column.field_id, 1000 + number, IdentityTransform(), each))
    return PartitionSpec(*found)


def _job(source: SourceTable, schema: Schema, spec: PartitionSpec) -> RewriteJob:
    """The job of tasks that write into a hidden folder of the table, as Spark would: snappy, no field ids."""
    plain = RewriteJob(
        name=str(source.table),
        location=source.location,
        properties={},
        io=open_store(source.location, source.options)[1],
        schemas=(schema,),
        specs=(spec,),
        output_spec_id=spec.spec_id,
        of_folder=True,
    )
    job = TaskFiles(plain).job
    job.properties.update({"write.data.path": _hidden_folder(job), "write.parquet.compression-codec": "snappy"})
    return job


def _hidden_folder(job: RewriteJob) -> str:
    """Returns the folder of the write's files until they count; its name is of this write alone."""
    return f"{job.location}/{_HIDDEN}{job.mark}"


def _at(root: str, location: str, path: str) -> str:
    """Returns ``path``, which begins with ``location``, as the store has it."""
    return root + path[len(location) :]


def _text(value: Any, schema: Schema, field: PartitionField) -> str:
    """Returns a partition value as it is in the name of a directory; an empty text for NULL."""
    if value is None:
        return ""
    match schema.find_type(field.source_id):
        case DateType():
            return date.fromordinal(EPOCH_DAY + value).isoformat()
        case BooleanType():
            return str(value).lower()
    return str(value)


def _key(directories: Sequence[str], types: Mapping[str, DrillType]) -> tuple[Value | None, ...]:
    """Returns what identifies a partition: with whole numbers ``month=06`` and ``month=6`` are one, with texts two."""
    values = named_values(directories)
    return tuple(_value(values[name], type_) for name, type_ in types.items() if name in values)


def _value(text: str, type_: DrillType) -> Value | None:
    if is_null(text):
        return None
    plain = unquote(text)
    with suppress(ValueError):
        return value_of(plain, type_)
    return plain
