"""``system.add_files_from_hive`` adds the files of a Hive table, or of some of its partitions, to an Iceberg table.

The Iceberg table must have the same columns and identity partitions on the same columns; if the Hive table is not
partitioned, it must not be partitioned either. Files are not copied. From then on the Iceberg table owns them, and its
maintenance may delete them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import MappedField, NameMapping, parse_mapping_from_json
from pyiceberg.table.update import SetPropertiesUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import ListType, MapType, NestedField, StructType

from metastore.errors import InvalidRequestError, ProcedureError
from metastore.lake.iceberg.catalogs.target import TargetTable
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
from metastore.procedures.hive.metrics import FRAGMENT, read_metrics
from metastore.procedures.hive.migration.layout import Layout, layout_of, leaf_ids_of
from metastore.procedures.hive.migration.migrate import Migration
from metastore.procedures.hive.migration.reader_warnings import warnings_of
from metastore.procedures.hive.migration.staging import data_files, matches_of, problems_of
from metastore.procedures.hive.migration.survey import Survey
from metastore.procedures.hive.service import hive_client, hive_properties
from metastore.procedures.imports.duplicates import DuplicateFile
from metastore.sources.directory_values import NULL_DIRECTORY
from metastore.sources.hive.listing import NestedDirectories
from metastore.sources.hive.partitions import has_values
from metastore.sources.hive.tables import HiveTable
from metastore.sources.hive.types import leaves_of

_CHUNK_FILES: Final = 250
_RESULT: Final = columns(
    added_files_count=pa.int64(),
    added_records_count=pa.int64(),
    skipped_files_count=pa.int64(),
    warnings=pa.list_(pa.string()),
)


@dataclass
class AddCall:
    """One call. ``survey`` has the chosen files. At most ``at_once`` tasks run at the same time."""

    context: CallContext
    source: Migration
    target: TargetTable
    partition_filter: Mapping[str, str]
    duplicates: DuplicateFile
    at_once: int | None = None
    survey: Survey | None = None


class AddFilesFromHive(TableImportDistributedProcedure[AddCall]):
    """Appends a Hive table's files to an Iceberg table."""

    def create_context(self, call: CallContext, arguments: Mapping[str, Any]) -> AddCall:
        """Check the arguments. Raises NotFoundError if the Iceberg table does not exist."""
        target = call.table(arguments["schema"], arguments["table_name"])
        require_foreign(target, "its files are the metastore's, written by its components")
        duplicates = DuplicateFile.parse(arguments["duplicate_file"])
        source = Migration(
            client=hive_client(call),
            database=arguments["source_schema"],
            name=arguments["source_table"],
            nested=NestedDirectories.parse(arguments["recursive_directory"]),
            properties=hive_properties(call),
        )
        at_once = tasks_at_once(arguments["parallelism"])
        return AddCall(call, source, target, arguments["partition_filter"] or {}, duplicates, at_once)

    def begin(self, context: AddCall) -> Plan:
        """Survey the Hive table. Raises ProcedureError if it does not fit, or Iceberg does not support it."""
        table = context.target.load()
        require_written_version(table, context.target)
        with closing(context.source.client):
            found = context.source.survey(context.source.table())
        found = _of_partitions(found, context.partition_filter)
        _require_same_partitioning(found.table, table.metadata, context.target)
        context.survey = found
        chunks = found.chunks(dict(context.source.properties), _CHUNK_FILES)
        what = f"append {len(found.files)} files of {found.table} to {context.target}"
        return Plan(chunks, read_metrics, FRAGMENT, describe=what, files=len(found.files), wave=context.at_once)

    def finish(self, context: AddCall, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> Mapping[str, Any]:
        """Append in one snapshot. Raises ProcedureError if files do not fit, ConflictError after lost races."""
        assert context.survey is not None
        read = pa.Table.from_batches(list(fragments), FRAGMENT)
        if problems := problems_of(context.survey, read):
            raise ProcedureError(f"files of {context.survey.table} cannot be added: {'; '.join(problems)}")
        found = context.survey
        timeout = context.context.settings.iceberg.commit.timeout
        return until_won(context.target, timeout, lambda table: _append(context, found, table, read))

    def abort(self, context: AddCall, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> None:
        """Do nothing: tasks write nothing."""


def _of_partitions(survey: Survey, values: Mapping[str, str]) -> Survey:
    """Returns only the files of partitions with the ``values`` values.

    Raises InvalidRequestError if a column is not a partition column, ProcedureError if no partition matches.
    """
    if not values:
        return survey
    names = [name for name, _ in survey.table.partition_columns]
    if not names:
        raise InvalidRequestError(f"{survey.table} is not partitioned: leave partition_filter out")
    keep = [has_values(dict(zip(names, each.values, strict=True)), values) for each in survey.partitions]
    if not any(keep):
        raise ProcedureError(f"Cannot find any matching partitions in table {survey.table}")
    kept = [(file, place) for file, place in zip(survey.files, survey.places, strict=True) if keep[place]]
    files = tuple(file._replace(number=number) for number, (file, _) in enumerate(kept))
    return replace(survey, files=files, places=tuple(place for _, place in kept))


def _require_same_partitioning(source: HiveTable, metadata: TableMetadata, target: TargetTable) -> None:
    names = [name.lower() for name, _ in source.partition_columns]
    schema = metadata.schema()
    fields = metadata.spec().fields
    others = [each.name for each in fields if not isinstance(each.transform, IdentityTransform)]
    found = [schema.find_field(each.source_id).name.lower() for each in fields]
    if others or found != names:
        raise ProcedureError(
            f"{source} is partitioned by ({', '.join(names)}), and {target} by ({', '.join(map(str, fields))}): their "
            "files can be added only to a table that is partitioned by the same columns, as they are"
        )


def _append(context: AddCall, survey: Survey, table: Table, read: pa.Table) -> Mapping[str, Any]:
    """One attempt on the current table."""
    metadata = table.metadata
    layout = _fit_layout(survey, read, metadata, context.target)
    named = list(data_files(survey, read, layout))
    files = context.duplicates.without_known(named, attrgetter("file_path"), table, context.context.engine)
    result = {
        "added_files_count": len(files),
        "added_records_count": sum(file.record_count for file in files),
        "skipped_files_count": len(survey.files) - len(files),
        "warnings": warnings_of(survey, read),
    }
    if files:
        publish_change(
            context.target,
            table,
            context.context.now_ms(),
            files,
            updates=[SetPropertiesUpdate(updates={TableProperties.DEFAULT_NAME_MAPPING: layout.name_mapping})],
            requirements=require_same_columns(metadata),
        )
    return result


def _fit_layout(survey: Survey, read: pa.Table, metadata: TableMetadata, target: TargetTable) -> Layout:
    """Returns the layout of the files with the IDs of the Iceberg table. Raises ProcedureError if columns differ."""
    matches = matches_of(survey, read)
    if extras := sorted({".".join((*each.parent, each.name)) for one in matches for each in one.extras}):
        raise ProcedureError(
            f"files of {survey.table} have columns that the table lacks: {', '.join(extras)}; add them to both "
            f"tables first"
        )
    own = layout_of(survey.table, matches)
    schema = metadata.schema()
    fields = []
    for each in own.schema.fields:
        theirs = next((field for field in schema.fields if field.name.lower() == each.name.lower()), None)
        if theirs is None or _shape(theirs.field_type) != _shape(each.field_type):
            has = "has it not" if theirs is None else f"has {theirs.field_type}"
            raise ProcedureError(f"column {each.name} of {survey.table} is {each.field_type}, and {target} {has}")
        fields.append(theirs)
    _require_values(survey, read, schema)
    count = len(survey.table.columns)
    leaf_ids = [leaf for field in fields[:count] for leaf in leaf_ids_of(field.field_id, field.field_type)]
    names = parse_mapping_from_json(own.name_mapping)
    given = metadata.properties.get(TableProperties.DEFAULT_NAME_MAPPING)
    standing = schema.name_mapping if given is None else parse_mapping_from_json(given)
    aliases = _names_by_id(own.schema, Schema(*fields), names)
    mapping = NameMapping([_with_names(each, aliases) for each in standing.root])
    return replace(own, leaf_ids=leaf_ids, name_mapping=mapping.model_dump_json(), spec=metadata.spec())


def _require_values(survey: Survey, read: pa.Table, schema: Schema) -> None:
    """Raise ProcedureError if files lack a required column of ``schema``, or may have nulls in one."""
    columns, keys = survey.table.columns, [name.lower() for name, _ in survey.table.partition_columns]
    leaves = {leaf.path[0].lower(): place for place, leaf in enumerate(leaves_of(columns)) if len(leaf.path) == 1}
    for name in (each.name for each in schema.fields if each.required):
        lower = name.lower()
        refused = f"NULL value not allowed for NOT NULL column: {name}"
        if lower in keys:
            texts = {survey.partitions[place].values[keys.index(lower)] for place in survey.places}
            if NULL_DIRECTORY in texts:
                raise ProcedureError(f"{refused} (a partition of {survey.table} is by null)")
        elif lower not in (column.lower() for column, _ in columns):
            raise ProcedureError(f"{refused} ({survey.table} has no such column)")
        elif (place := leaves.get(lower)) is not None:
            for row in read.select(["number", "records", "nulls"]).to_pylist():
                if row["records"] and row["nulls"][place] != 0:
                    why = "has nulls in it, or does not say that it has none"
                    raise ProcedureError(f"{refused} ({survey.files[row['number']].location} {why})")


def _shape(type_: Any) -> str:
    """Returns a type as text, without IDs and the case of names."""
    match type_:
        case StructType():
            return f"struct<{','.join(f'{each.name.lower()}:{_shape(each.field_type)}' for each in type_.fields)}>"
        case ListType():
            return f"list<{_shape(type_.element_type)}>"
        case MapType():
            return f"map<{_shape(type_.key_type)},{_shape(type_.value_type)}>"
        case _:
            return str(type_)


def _names_by_id(own: Schema, theirs: Schema, mapping: NameMapping) -> dict[int, list[str]]:
    """Returns the names that files use, by the IDs of ``theirs``. ``own`` has the same columns in the same order."""
    ids = dict(zip(_ids(own.fields), _ids(theirs.fields), strict=True))
    found: dict[int, list[str]] = {}

    def walk(fields: Iterable[MappedField]) -> None:
        for each in fields:
            if each.field_id in ids:
                found[ids[each.field_id]] = list(each.names)
            walk(each.fields)

    walk(mapping.root)
    return found


def _ids(fields: Sequence[NestedField]) -> list[int]:
    return [own for each in fields for own in (each.field_id, *_inner_ids(each.field_type))]


def _inner_ids(type_: Any) -> list[int]:
    match type_:
        case StructType():
            return _ids(type_.fields)
        case ListType():
            return [type_.element_id, *_inner_ids(type_.element_type)]
        case MapType():
            inner = (*_inner_ids(type_.key_type), *_inner_ids(type_.value_type))
            return [type_.key_id, type_.value_id, *inner]
        case _:
            return []


def _with_names(mapped: MappedField, names: Mapping[int, list[str]]) -> MappedField:
    more = names.get(mapped.field_id, []) if mapped.field_id is not None else []
    return MappedField(
        field_id=mapped.field_id,
        names=list(dict.fromkeys((*mapped.names, *more))),
        fields=[_with_names(each, names) for each in mapped.fields],
    )


add_files_from_hive: Final = AddFilesFromHive(
    "system",
    "add_files_from_hive",
    (
        Argument("schema"),
        Argument("table_name"),
        Argument("source_schema"),
        Argument("source_table"),
        Argument("partition_filter", "MAP(VARCHAR, VARCHAR)", required=False),
        Argument("duplicate_file", required=False, default=DuplicateFile.ERROR.value),
        Argument("recursive_directory", required=False, default="fail"),
        Argument("parallelism", "INTEGER", required=False),
    ),
    result=_RESULT,
    description="Appends the files of a Hive table, or of some of its partitions, to an Iceberg table.",
)
"""The procedure ``system.add_files_from_hive``."""
