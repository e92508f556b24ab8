"""The list of files to delete, written to the store before the first of them is deleted.

Deletion takes long and can be interrupted. By then, metadata that proved the files unneeded may be gone. So the list is
written first and removed last: a small Parquet file in the table's metadata folder, with the version of the table that
it was made from. A list that still exists is unfinished work. The next run checks its files against the newest version
of the table, and deletes those that are still unneeded.

An expiration names its lists in the table property ``metastore.maintenance.unswept``. The commit that removes the
snapshots sets the property, and it is removed when the files of all lists are gone.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import ValidatableTableRequirement

from metastore.errors import FormatError, StorageError
from metastore.lake.iceberg.catalogs.own_properties import OWN_PROPERTIES
from metastore.lake.iceberg.snapshots.sweep import FileKind, TableFile
from metastore.lake.stores.bounded_reading import ReadLimits, parquet_rows, whole
from metastore.lake.stores.files import discard, flush
from metastore.lake.stores.new_files import NewFiles

UNSWEPT: Final = f"{OWN_PROPERTIES}maintenance.unswept"
"""Table property: the lists of expirations, one a line. A list that still exists has files left to delete."""

SUFFIX: Final = ".quarantine.parquet"

Purpose = Literal["expire", "orphans"]

_KEY: Final = b"metastore.quarantine"
_SCHEMA_COLUMNS: Final[dict[str, pa.DataType]] = {
    "location": pa.string(),
    "kind": pa.string(),
    "size": pa.int64(),
    "spec": pa.int32(),
    "modified_ms": pa.int64(),
}
_SCHEMA: Final = pa.schema(_SCHEMA_COLUMNS)


class AssertUnswept(ValidatableTableRequirement):
    """Requires that the property :data:`UNSWEPT` is unchanged."""

    type: Literal["assert-unswept"] = Field(default="assert-unswept")
    value: str

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override] # as PyIceberg's own
        """Raises CommitFailedException if another run has named other lists."""
        if base_metadata is None or base_metadata.properties.get(UNSWEPT, "") != self.value:
            raise CommitFailedException("Requirement failed: another expiration named its lists")


@dataclass(frozen=True)
class FileToDelete:
    """A file to delete, and its last modification in epoch milliseconds; None if that does not matter."""

    file: TableFile
    modified_ms: int | None = None


@dataclass(frozen=True)
class Quarantine:
    """A list that exists at ``location``. ``proof`` is the metadata file from which it was made."""

    location: str
    table_uuid: str
    proof: str
    files: tuple[FileToDelete, ...]


def quarantine(table: Table, purpose: Purpose, files: Iterable[FileToDelete]) -> Quarantine:
    """Write the list durably. Raises StorageError."""
    name = f"{purpose}-{uuid.uuid4()}{SUFFIX}"
    location = table.location_provider().new_metadata_location(name)
    made = Quarantine(location, str(table.metadata.table_uuid), table.metadata_location, tuple(files))
    new = NewFiles(table.io)
    try:
        new.write(location, _content(made))
        flush([location])
    except OSError as error:
        new.discard()
        raise StorageError(f"cannot write {location}: {error}; nothing was changed") from error
    return made


def standing(table: Table, locations: Sequence[str]) -> list[Quarantine]:
    """Returns the lists at ``locations`` that still exist, are complete and belong to this table."""
    found = []
    for location in locations:
        with suppress(FileNotFoundError, FormatError):
            found.append(_load_quarantine(table, location))
    return found


def unswept(table: Table) -> list[str]:
    """Returns the locations of the lists of earlier expirations."""
    return [line for line in table.metadata.properties.get(UNSWEPT, "").split("\n") if line]


def lift(file_io: FileIO, made: Iterable[Quarantine]) -> dict[str, str]:
    """Remove the lists, whose files are gone. Returns the lists that could not be removed, each with its error."""
    done = discard(file_io, [each.location for each in made])
    return {location: str(error) for location, error in done.failed}


def _content(made: Quarantine) -> bytes:
    rows = [
        {
            "location": each.file.location,
            "kind": each.file.kind.value,
            "size": each.file.size,
            "spec": each.file.spec,
            "modified_ms": each.modified_ms,
        }
        for each in made.files
    ]
    header = json.dumps({"table-uuid": made.table_uuid, "proof": made.proof}).encode()
    stream = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, _SCHEMA.with_metadata({_KEY: header})), stream)
    return stream.getvalue()


def _load_quarantine(table: Table, location: str) -> Quarantine:
    """The list at ``location``; FormatError if it cannot be read or was made for another table."""
    limit = ReadLimits.of(table.io.properties).limit_of("file_list")
    content = whole(table.io.new_input(location), limit)
    try:
        rows = parquet_rows(io.BytesIO(content), location, limit)
        header = json.loads((rows.schema.metadata or {})[_KEY])
        owner, proof = header["table-uuid"], header["proof"]
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise FormatError(f"{location} is no list of files to delete: {error!r}") from error
    if owner != str(table.metadata.table_uuid):
        raise FormatError(f"{location} lists files of table {owner}, not of {table.metadata.table_uuid}")
    files = (
        FileToDelete(TableFile(row["location"], FileKind(row["kind"]), row["size"], row["spec"]), row["modified_ms"])
        for row in rows.to_pylist()
    )
    return Quarantine(location, owner, proof, tuple(files))
