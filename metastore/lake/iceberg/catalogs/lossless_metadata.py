"""Writes metadata.json of format version 3 from the JSON of the version before, so that unknown fields are kept.

PyIceberg reads such metadata and applies updates, but refuses to write it. So its result is merged into the JSON of the
base version. Existing list entries stay as they are in the JSON; only new ones come from PyIceberg. A new snapshot must
continue the sequence numbers and row ids of the base version, else another commit came between: a lost race.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.serializers import Compressor, ToOutputFile
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.typedef import IcebergBaseModel

from metastore.errors import StorageError
from metastore.lake.iceberg.catalogs.metadata_json import read_document
from metastore.lake.iceberg.columns.type_spellings import specified_defaults, specified_types

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
    "format-version",
    "last-sequence-number",
    "next-row-id",
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
    if metadata.metadata_log:
        before = read_document(io, metadata.metadata_log[-1].metadata_file)
        content = json.dumps(next_document(before, metadata)).encode()
    else:
        content = json.dumps(first_document(metadata)).encode()
    with output.create(overwrite) as stream:
        stream.write(Compressor.get_compressor(metadata_path).bytes_compressor()(content))


def first_document(metadata: TableMetadata) -> dict[str, Any]:
    """Return the JSON of a new table of version 3."""
    return {"next-row-id": 0, **_document(metadata)}


def next_document(before: Mapping[str, Any], metadata: TableMetadata) -> dict[str, Any]:
    """Return the JSON of ``metadata``, which PyIceberg derived from the JSON ``before``.

    Raises CommitFailedException for a new snapshot that does not continue the base, and StorageError for a new schema
    if the base has fields that PyIceberg does not know, or for another table.
    """
    version = metadata.format_version
    after = _document(metadata)
    if after.get("table-uuid") != before.get("table-uuid"):
        raise _refusal(version, f"sets table-uuid to {after.get('table-uuid')}")
    after.setdefault("next-row-id", before.get("next-row-id", 0))
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
    _require_next(before, after, [each for each in after.get("snapshots", ()) if each["snapshot-id"] not in old])
    if any(each not in before.get("schemas", written["schemas"]) for each in written["schemas"]):
        _require_known(version, before, after)
    return written


def _document(metadata: TableMetadata) -> dict[str, Any]:
    """Return the JSON that PyIceberg makes of ``metadata``, with types as the specification spells them."""
    document: dict[str, Any] = json.loads(IcebergBaseModel.model_dump_json(metadata))
    return {**document, "schemas": [specified_types(schema) for schema in document["schemas"]]}


def _require_next(before: Mapping[str, Any], after: Mapping[str, Any], new: Sequence[Mapping[str, Any]]) -> None:
    """Require that new snapshots take the next sequence numbers and row ids, and that the table counts them."""
    number, row_id = before.get("last-sequence-number", 0), before.get("next-row-id", 0)
    for snapshot in new:
        if snapshot["sequence-number"] <= number or snapshot.get("first-row-id") != row_id:
            raise CommitFailedException(
                f"snapshot {snapshot['snapshot-id']} does not continue sequence number {number} and row id {row_id}: "
                "others committed meanwhile"
            )
        number, row_id = snapshot["sequence-number"], row_id + snapshot["added-rows"]
    if (after["last-sequence-number"], after["next-row-id"]) != (number, row_id):
        raise CommitFailedException(f"the table has not come to sequence number {number} and row id {row_id}")


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
                raise _refusal(version, "changes columns while others have attributes that this package does not know")


def _as_text(fields: Sequence[Any]) -> str:
    """Return fields as text that compares by content: writers differ in blanks of types and in texts of defaults."""
    return re.sub(r"\s", "", json.dumps(specified_defaults(fields), sort_keys=True))


def _refusal(version: int, what: str) -> StorageError:
    return StorageError(
        f"a commit that {what} cannot be written for a table of format version {version}; nothing was changed. Use an "
        "engine that writes it, such as Spark, or a REST catalog, whose server writes the metadata"
    )
