"""A list of files that are to go, on the store before the first of them goes.

Deleting takes long and can be interrupted; what was proven to be of no use must not have to be proven from metadata
that is gone by then. So the list is written first, as a small Parquet file in the table's metadata folder that says
which version of the table it was made from, and removed last. A list that stands is work left over: the next run looks
whether its files are of no use still, against the newest version, and deletes those.

An expiration names its lists in the table property ``metastore.maintenance.unswept``, in the commit that takes the
snapshots away, and takes the property away when the files of all of them are gone.
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
from metastore.iceberg.own_properties import OWN_PROPERTIES
from metastore.iceberg.sweep import FileKind, TableFile
from metastore.stores.bounded_reading import ReadLimits, parquet_rows, whole
from metastore.stores.files import discard, flush
from metastore.stores.new_files import NewFiles

UNSWEPT: Final = f"{OWN_PROPERTIES}maintenance.unswept"
"""Table property: quarantine lists of expirations, one a line; those that stand have files left to delete."""

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
    """The property :data:`UNSWEPT` must be as it was."""

    type: Literal["assert-unswept"] = Field(default="assert-unswept")
    value: str

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override] # as PyIceberg's own
        """Raises CommitFailedException when another run named other lists."""
        if base_metadata is None or base_metadata.properties.get(UNSWEPT, "") != self.value:
            raise CommitFailedException("Requirement failed: another expiration named its lists")


@dataclass(frozen=True)
class Listed:
    """A file that is to go, and when it was last changed, if that counts."""

    file: TableFile
    modified_ms: int | None = None


@dataclass(frozen=True)
class Quarantine:
    """A list that stands at ``location``; ``proof`` is the metadata file that it was made from."""

    location: str
    table_uuid: str
    proof: str
    files: tuple[Listed, ...]


def quarantine(table: Table, purpose: Purpose, files: Iterable[Listed]) -> Quarantine:
    """Write the list, durably. Raises StorageError."""
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
    """Those of the lists at ``locations`` that still stand, are of this table, and were written to their end."""
    found = []
    for location in locations:
        with suppress(FileNotFoundError, FormatError):
            found.append(_load_quarantine(table, location))
    return found


def unswept(table: Table) -> list[str]:
    """Where the lists of earlier expirations were written."""
    return [line for line in table.metadata.properties.get(UNSWEPT, "").split("\n") if line]


def lift(file_io: FileIO, made: Iterable[Quarantine]) -> dict[str, str]:
    """Remove the lists, whose files are gone; those that would not go, each with its error."""
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
    limit = ReadLimits.of(table.io.properties).named("file_list")
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
        Listed(TableFile(row["location"], FileKind(row["kind"]), row["size"], row["spec"]), row["modified_ms"])
        for row in rows.to_pylist()
    )
    return Quarantine(location, owner, proof, tuple(files))
