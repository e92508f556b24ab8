"""``register_table`` and ``unregister_table``: add an existing table to a catalog, and remove it from the catalog.

The metadata file is read and checked first. Some catalogs create the entry before they check it, and a wrong entry
would have to be removed by hand. Two entries of one table in a catalog would diverge and delete each other's files. So
a second entry with the same UUID is refused unless it is forced. Unregistering keeps every file, and returns the
metadata file with which the table can be registered again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from pyiceberg.exceptions import TableAlreadyExistsError
from pyiceberg.io import FileIO, load_file_io
from pyiceberg.manifest import read_manifest_list
from pyiceberg.table.metadata import TableMetadata

from metastore.errors import (
    FormatError,
    InvalidRequestError,
    MetastoreError,
    NotFoundError,
    ProcedureError,
)
from metastore.lake.iceberg.catalogs.catalog_errors import error_text, failures_of
from metastore.lake.iceberg.catalogs.metadata_json import read_metadata
from metastore.lake.stores.spelling import Spelling
from metastore.lake.stores.trees import Folder, files_in
from metastore.procedures.files.guards import require_foreign
from metastore.procedures.files.inventory import version_of
from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns

_NOT_OURS: Final = "its catalog is the metastore itself"

_REGISTERED: Final = columns(
    current_snapshot_id=pa.int64(),
    total_records_count=pa.int64(),
    total_data_files_count=pa.int64(),
    metadata_location=pa.string(),
)


@procedure(result=_REGISTERED)
def register_table(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    metadata_location: str,
    metadata_file: str | None = None,
    force: bool = False,
) -> Mapping[str, Any]:
    """Adds an existing table to a catalog, by its metadata file."""
    if not metadata_location:
        raise InvalidRequestError("metadata_location is empty: it names a table's folder or a metadata file")
    target = context.catalogs.target(context.catalog, schema, table_name)
    require_foreign(target, _NOT_OURS)
    target.require_new_name()
    schemas = context.catalogs.schemas(context.catalog)
    if schema not in schemas:
        raise NotFoundError(f"schema {target.catalog_name}.{schema} does not exist; there are {', '.join(schemas)}")
    with failures_of(target.source):
        catalog = target.source.catalog
        if catalog.table_exists(target.identifier):
            raise InvalidRequestError(f"Table already exists: {target}")
        io = load_file_io(dict(catalog.properties), metadata_location)
        location = _metadata_file(io, metadata_location, metadata_file)
        metadata = readable_metadata(io, location)
        _require_place(metadata, metadata_location)
        if not force:
            _require_single(context, metadata)
        try:
            with failures_of(target.source, TableAlreadyExistsError, changing=True), target.source.turn:
                catalog.register_table(target.identifier, location)
        except TableAlreadyExistsError as error:
            raise InvalidRequestError(f"Table already exists: {target}") from error
    return _result_row(target.load().metadata, location)


@procedure(result=columns(table_uuid=pa.string(), metadata_location=pa.string()))
def unregister_table(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    dry_run: bool = False,
) -> Mapping[str, Any]:
    """Removes a table from its catalog and keeps all of its files."""
    target = context.table(schema, table_name)
    require_foreign(target, _NOT_OURS)
    table = target.load()
    if not dry_run:
        target.drop_entry()
    return {"table_uuid": str(table.metadata.table_uuid), "metadata_location": table.metadata_location}


def readable_metadata(io: FileIO, location: str) -> TableMetadata:
    """Returns the metadata in the file, after reading the manifest list of its current snapshot.

    Raises NotFoundError if the file does not exist, and FormatError if the file or the list is not valid.
    """
    try:
        metadata = read_metadata(io, location)
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no metadata file {location}") from error
    snapshot = metadata.current_snapshot()
    if snapshot is not None:
        try:
            list(read_manifest_list(io.new_input(snapshot.manifest_list)))
        except Exception as error:
            # The decoder has no error class of its own: a broken file can raise any exception.
            raise FormatError(
                f"{location} cannot be registered: the manifest list {snapshot.manifest_list} of its current snapshot "
                f"cannot be read ({error_text(error)})"
            ) from error
    return metadata


def _metadata_file(io: FileIO, location: str, name: str | None) -> str:
    """Returns the metadata file of the call: the named file, or the newest in the folder."""
    if name is not None and (not name or "/" in name):
        raise InvalidRequestError(f"metadata_file is the name of a file in metadata_location, not {name!r}")
    root = location.rstrip("/")
    if name is None and root.endswith((".metadata.json", ".metadata.json.gz")):
        return root
    for folder in (root, f"{root}/metadata"):
        found = [
            (number, file) for file in files_in(Folder(io, folder)) if (number := version_of(file.location)) is not None
        ]
        if name is not None and any(file.location.rpartition("/")[2] == name for _, file in found):
            return f"{folder}/{name}"
        if name is None and found:
            newest = max(number for number, _ in found)
            last = sorted(file.location.rpartition("/")[2] for number, file in found if number == newest)
            if len(last) > 1:
                raise InvalidRequestError(
                    f"More than one latest metadata file found at location {folder}: {', '.join(last)}; choose "
                    "one by metadata_file"
                )
            return f"{folder}/{last[0]}"
    raise NotFoundError(f"No metadata found at location {location}" + (f" by the name {name}" if name else ""))


def _require_place(metadata: TableMetadata, location: str) -> None:
    """Refuse a given folder that is not the table's own: copied metadata still names the files of the original."""
    if location.rstrip("/").endswith((".metadata.json", ".metadata.json.gz")):
        return
    path = Spelling().path
    own, wanted = path(f"{metadata.location.rstrip('/')}/"), path(f"{location.rstrip('/')}/")
    if wanted not in (own, f"{own}/metadata"):
        raise InvalidRequestError(
            f"the metadata at {location} is of a table that lies at {metadata.location}: it names the files there. To "
            "move a table, use rewrite_table_path; to register this one anyway, name its metadata file"
        )


def _require_single(context: CallContext, metadata: TableMetadata) -> None:
    for schema in context.catalogs.schemas(context.catalog):
        for name in context.catalogs.tables(context.catalog, schema):
            other = context.catalogs.target(context.catalog, schema, name)
            try:
                uuid = other.load().metadata.table_uuid
            except MetastoreError:
                continue  # A table that cannot be read cannot be written either, so it is no second owner.
            if uuid == metadata.table_uuid:
                raise ProcedureError(
                    f"{other} is this table already (UUID {uuid}): with two entries, each would treat the "
                    "other's files as orphans. Unregister that one first, or pass force => true"
                )


def _result_row(metadata: TableMetadata, location: str) -> Mapping[str, Any]:
    snapshot = metadata.current_snapshot()
    summary = snapshot.summary if snapshot else None
    counts = {name: summary[name] if summary else None for name in ("total-records", "total-data-files")}
    return {
        "current_snapshot_id": snapshot.snapshot_id if snapshot else None,
        "total_records_count": None if counts["total-records"] is None else int(counts["total-records"]),
        "total_data_files_count": None if counts["total-data-files"] is None else int(counts["total-data-files"]),
        "metadata_location": location,
    }
