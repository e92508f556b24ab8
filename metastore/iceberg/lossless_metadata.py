"""Writes metadata.json of format version 3 from the JSON of the version before, so that unknown fields are kept.

PyIceberg reads such metadata and applies updates, but refuses to write it. So its result is merged into the JSON of the
base version. Existing list entries stay as they are in the JSON; only new ones come from PyIceberg. A change that needs
more than metadata, such as a new snapshot, is refused before anything is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyiceberg.io import FileIO
from pyiceberg.serializers import Compressor, ToOutputFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import IcebergBaseModel

from metastore.errors import StorageError
from metastore.iceberg.metadata_json import read_document

WRITTEN_BY_PYICEBERG: Final = 2
"""The newest format version that PyIceberg writes; it knows all of its fields."""

_LISTS: Final[Mapping[str, tuple[str, ...]]] = {
    "snapshots": ("snapshot-id",),
    "schemas": ("schema-id",),
    "partition-specs": ("spec-id",),
    "sort-orders": ("order-id",),
    "statistics": ("snapshot-id", "statistics-path"),
    "partition-statistics": ("snapshot-id", "statistics-path"),
}
"""Lists of entries, with the key that identifies an entry. Entries never change."""

_VALUES: Final = (
    "location",
    "last-updated-ms",
    "properties",
    "current-schema-id",
    "last-column-id",
    "default-spec-id",
    "last-partition-id",
    "default-sort-order-id",
    "current-snapshot-id",
    "snapshot-log",
    "metadata-log",
)
"""Values that an update may set and that have no unknown parts."""

_OF_A_REF: Final = frozenset({"snapshot-id", "type", "min-snapshots-to-keep", "max-snapshot-age-ms", "max-ref-age-ms"})


def write_metadata(metadata: TableMetadata, io: FileIO, metadata_path: str, *, overwrite: bool = False) -> None:
    """Write a new metadata file; replaces PyIceberg's function with the same arguments.

    Raises StorageError for a change of version 3 that cannot be written, FileNotFoundError if the base version is gone,
    and the errors of reading and writing.
    """
    output = io.new_output(metadata_path)
    if metadata.format_version <= WRITTEN_BY_PYICEBERG:
        ToOutputFile.table_metadata(metadata, output, overwrite)
        return
    if not metadata.metadata_log:
        raise StorageError(
            f"a new table of format version {metadata.format_version} cannot be written; nothing was changed. Create "
            "it by an engine that does, such as Spark"
        )
    before = metadata.metadata_log[-1].metadata_file
    content = json.dumps(next_document(read_document(io, before), metadata)).encode()
    with output.create(overwrite) as stream:
        stream.write(Compressor.get_compressor(metadata_path).bytes_compressor()(content))


def next_document(before: Mapping[str, Any], metadata: TableMetadata) -> dict[str, Any]:
    """Return the JSON of ``metadata``, which PyIceberg derived from the JSON ``before``.

    Raises StorageError for a new snapshot, and for a new schema if the base has fields that PyIceberg does not know.
    """
    version = metadata.format_version
    after: dict[str, Any] = json.loads(IcebergBaseModel.model_dump_json(metadata))
    for name in ("format-version", "table-uuid", "last-sequence-number", "next-row-id"):
        if after.get(name) != before.get(name):
            raise _refused(version, f"sets {name} to {after.get(name)}")
    written = dict(before)
    for name in _VALUES:
        if name in after:
            written[name] = after[name]
        else:
            written.pop(name, None)
    for name, keys in _LISTS.items():
        if after.get(name) or name in before:
            written[name] = _entries(before.get(name, ()), after.get(name, ()), keys)
    written["refs"] = {
        name: _ref(before.get("refs", {}).get(name, {}), ref) for name, ref in after.get("refs", {}).items()
    }
    old = {each["snapshot-id"] for each in before.get("snapshots", ())}
    if any(each["snapshot-id"] not in old for each in after.get("snapshots", ())):
        raise _refused(version, "adds a snapshot")
    if any(each not in before["schemas"] for each in written["schemas"]):
        _require_known(version, before, after)
    return written


def _entries(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], keys: Sequence[str]
) -> list[Mapping[str, Any]]:
    known = {tuple(entry.get(key) for key in keys): entry for entry in before}
    return [known.get(tuple(entry.get(key) for key in keys), entry) for entry in after]


def _ref(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    return {**{name: value for name, value in before.items() if name not in _OF_A_REF}, **after}


def _require_known(version: int, before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
    """Refuse a schema derived from one that PyIceberg does not fully know."""
    for schema in before["schemas"]:
        if schema["schema-id"] == before["current-schema-id"]:
            read = next(each for each in after["schemas"] if each["schema-id"] == schema["schema-id"])
            if _as_text(schema["fields"]) != _as_text(read["fields"]):
                raise _refused(version, "changes columns, of which some have what this package does not know")


def _as_text(fields: object) -> str:
    """Return fields as text that compares by content: types are written with or without blanks."""
    return re.sub(r"\s", "", json.dumps(fields, sort_keys=True))


def _refused(version: int, what: str) -> StorageError:
    return StorageError(
        f"a commit that {what} cannot be written for a table of format version {version}; nothing was changed. Use an "
        "engine that writes it, such as Spark, or a REST catalog, whose server writes the metadata"
    )
