"""``rewrite_table_path`` writes a table's metadata with another prefix to a staging location, and a list of copies.

Metadata of Iceberg names every file by its full location, so a copied table still names the files of the original. This
procedure writes metadata files, manifest lists, manifests and position delete files as they must be at the target. Data
files are not read. The caller copies the files; each line of the list has a source and a target. The table itself is
not changed.

File lengths in the metadata are those of the rewritten files. Delete files are refused if the locations in them cannot
be rewritten here (deletion vectors, formats other than Parquet).
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import uuid
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.manifest import DataFileContent, ManifestContent, ManifestEntryStatus
from pyiceberg.table import Table

from metastore.errors import FormatError, InvalidRequestError, NotFoundError, ProcedureError, StorageError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.columns.schemas import PATH_ID
from metastore.lake.stores.bounded_reading import Limit, ReadLimits, gunzip, whole
from metastore.lake.stores.files import flush
from metastore.lake.stores.new_files import NewFiles
from metastore.procedures.files.avro_columns import read_columns
from metastore.procedures.files.known_tables import PATH_PROPERTIES
from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns
from metastore.procedures.tables.avro_rewriting import Fields, rewritten
from metastore.procedures.tables.location_prefixes import Prefixes

_MANIFEST_PATH, _MANIFEST_LENGTH, _CONTENT_OF_MANIFEST = 500, 501, 517
_SNAPSHOT_OF_MANIFEST, _SEQUENCE_OF_MANIFEST = 503, 515
_STATUS, _SNAPSHOT, _SEQUENCE, _CONTENT, _PATH, _FORMAT, _SIZE = 0, 1, 4, 134, 100, 101, 104
_LOWER, _UPPER, _SPLITS, _REFERENCED = 125, 128, 132, 143

_RESULT: Final = columns(
    latest_version=pa.string(),
    file_list_location=pa.string(),
    rewritten_manifest_file_paths_count=pa.int64(),
    rewritten_delete_file_paths_count=pa.int64(),
)


@procedure(result=_RESULT)
def rewrite_table_path(  # noqa: PLR0913 - the arguments of the call
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    source_prefix: str,
    target_prefix: str,
    start_version: str | None = None,
    end_version: str | None = None,
    staging_location: str | None = None,
    create_file_list: bool = True,
) -> Mapping[str, Any]:
    """Writes a table's metadata with another location prefix to a staging location, and lists the files to copy."""
    prefixes = Prefixes.of(source_prefix, target_prefix)
    target = context.table(schema, table_name)
    table = target.load()
    staging = staging_location or f"{table.metadata.location}/metadata/copy-table-staging-{uuid.uuid4()}"
    rewrite = _Rewrite(target, table, prefixes, staging.rstrip("/"))
    rewrite.run(*_versions(table, start_version, end_version))
    listing = rewrite.write_list() if create_file_list else None
    return {
        "latest_version": rewrite.latest.rpartition("/")[2],
        "file_list_location": listing or rewrite.staging,
        "rewritten_manifest_file_paths_count": len(rewrite.manifests),
        "rewritten_delete_file_paths_count": len(rewrite.deletes),
    }


def _versions(table: Table, start: str | None, end: str | None) -> tuple[list[str], str | None]:
    """Returns the metadata files to rewrite, oldest first, and the one before; its files are already at the target."""
    known = [*(entry.metadata_file for entry in table.metadata.metadata_log), table.metadata_location]

    def position(version: str) -> int:
        found = [at for at, file in enumerate(known) if version in (file, file.rpartition("/")[2])]
        if not found:
            raise InvalidRequestError(f"Cannot find provided version file {version} in the table's metadata log")
        return found[0]

    last = len(known) - 1 if end is None else position(end)
    first = 0 if start is None else position(start) + 1
    if first > last:
        raise InvalidRequestError(f"start_version {start} is not before end_version {known[last].rpartition('/')[2]}")
    return known[first : last + 1], None if start is None else known[first - 1]


@dataclass(frozen=True)
class _EarlierCopy:
    """The content of an earlier copy: nothing, or all files of the version with which that copy ended."""

    snapshots: frozenset[int] = frozenset()
    last_sequence: int = -1

    @classmethod
    def by(cls, metadata: Mapping[str, Any] | None) -> _EarlierCopy:
        """Reads the metadata of that version. Versions of format 1 have no sequence numbers."""
        if metadata is None:
            return cls()
        snapshots = frozenset(snapshot["snapshot-id"] for snapshot in _snapshots(metadata))
        return cls(snapshots, metadata.get("last-sequence-number", -1))

    def has(self, snapshot: int | None, sequence: int | None) -> bool:
        """Returns whether the target has a file that ``snapshot`` added with ``sequence`` and later versions keep.

        The number decides even if the snapshot has expired. A file without snapshot and number is copied again.
        """
        return snapshot in self.snapshots or (sequence is not None and sequence <= self.last_sequence)


@dataclass
class _Rewrite:
    """One run: the files that were written to ``staging``, and the copies to make."""

    target: TargetTable
    table: Table
    prefixes: Prefixes
    staging: str
    latest: str = ""
    copied: _EarlierCopy = field(default_factory=_EarlierCopy)
    manifests: dict[str, int] = field(default_factory=dict)
    deletes: dict[str, int] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)

    def run(self, versions: list[str], before: str | None) -> None:
        """Rewrite ``versions``, oldest first. Data files of the version ``before`` are assumed to be copied already."""
        contents = {version: content for version in versions if (content := self._metadata(version)) is not None}
        self.latest = versions[-1]
        if self.latest not in contents:
            raise NotFoundError(f"there is no metadata file {self.latest}")
        self.copied = _EarlierCopy.by(self._metadata(before) if before is not None else None)
        lists: dict[str, None] = {}
        for metadata in contents.values():
            for snapshot in _snapshots(metadata):
                if snapshot["snapshot-id"] not in self.copied.snapshots:
                    lists.setdefault(_list_of(snapshot))
        # The manifest lists of expired snapshots no longer exist.
        latest = {_list_of(snapshot) for snapshot in _snapshots(contents[self.latest])}
        for location in lists:
            if location in latest:
                self._list(location)
        # Statistics files that only an older version names were dropped since, and may be gone.
        for file in _statistics(contents[self.latest]):
            self._copy(file["statistics-path"])
        for version, metadata in contents.items():
            self._stage(version, _json(version, self._move_metadata(metadata)))

    def write_list(self) -> str:
        """Write the list of copies as CSV, source and target on each line. Returns its location."""
        text = io.StringIO()
        by_target = sorted((target, source) for source, target in self.copies.items())
        csv.writer(text, lineterminator="\n").writerows((source, target) for target, source in by_target)
        return self._write(f"{self.staging}/file-list", text.getvalue().encode())

    def _metadata(self, location: str) -> dict[str, Any] | None:
        """Returns the metadata unchanged, with unknown fields; None if the file of an old version was removed."""
        try:
            content = self._content_of(location)
        except FileNotFoundError:
            return None
        try:
            found: dict[str, Any] = json.loads(
                gunzip(content, location, self._limit(location)) if _is_packed(location) else content
            )
        except (ValueError, OSError, EOFError, zlib.error) as error:
            raise FormatError(f"{location} is no metadata of an Iceberg table: {error}") from error
        return found

    def _move_metadata(self, metadata: dict[str, Any]) -> dict[str, Any]:
        moved = self.prefixes.move
        for entry in metadata.get("metadata-log", ()):
            entry["metadata-file"] = moved(entry["metadata-file"])
        for snapshot in _snapshots(metadata):
            snapshot["manifest-list"] = moved(_list_of(snapshot))
        for file in _statistics(metadata):
            file["statistics-path"] = moved(file["statistics-path"])
        properties = metadata.get("properties", {})
        for name in PATH_PROPERTIES:
            if name in properties:
                properties[name] = self.prefixes.move_if_below(properties[name])
        metadata["location"] = moved(metadata["location"])
        return metadata

    def _list(self, location: str) -> None:
        content = self._standing(location)
        asked = (_MANIFEST_PATH, _CONTENT_OF_MANIFEST, _SNAPSHOT_OF_MANIFEST, _SEQUENCE_OF_MANIFEST)
        for path, kind, *inherited in list(read_columns(location, content, asked)):
            if path not in self.manifests:
                self.manifests[path] = self._manifest(path, *inherited, holds_deletes=kind == ManifestContent.DELETES)

        def change(manifest: Fields) -> None:
            path = manifest[_MANIFEST_PATH]
            manifest[_MANIFEST_LENGTH] = self.manifests[path]
            manifest[_MANIFEST_PATH] = self.prefixes.move(path)

        self._stage(location, rewritten(location, content, change))

    def _manifest(self, location: str, snapshot: int | None, sequence: int | None, *, holds_deletes: bool) -> int:
        """Stage a manifest; returns its new length. Entries inherit a missing snapshot and sequence number."""
        content = self._standing(location)

        def change(entry: Fields) -> None:
            path, is_live = entry[_PATH], entry[_STATUS] != ManifestEntryStatus.DELETED
            entry[_PATH] = self.prefixes.move(path)
            if holds_deletes and entry[_CONTENT] == DataFileContent.POSITION_DELETES:
                self._deletes_entry(entry, path, is_live=is_live)
            elif is_live and not self.copied.has(*_addition(entry, snapshot, sequence)):
                self._copy(path)

        made = rewritten(location, content, change)
        self._stage(location, made)
        return len(made)

    def _deletes_entry(self, entry: Fields, path: str, *, is_live: bool) -> None:
        """Rewrite the entry of a position delete file: the file itself and the entry's bounds name data files."""
        if is_live:
            if str(entry[_FORMAT]).upper() != "PARQUET":
                raise ProcedureError(
                    f"{path} of {self.target} holds positions of deleted rows as {entry[_FORMAT]}, and the locations "
                    "in it cannot be rewritten here; apply the deletes first, by rewrite_data_files"
                )
            if path not in self.deletes:
                self.deletes[path] = self._delete_file(path)
            entry[_SIZE] = self.deletes[path]
            if _SPLITS in entry:
                entry[_SPLITS] = None
        if _REFERENCED in entry and entry[_REFERENCED] is not None:
            entry[_REFERENCED] = self.prefixes.move(entry[_REFERENCED])
        self._bounds(entry)

    def _bounds(self, entry: Fields) -> None:
        """Move the bounds of file paths if they name one file. Drop other bounds, which may be truncated."""
        low, high = (dict(entry[bounds] or {}).get(PATH_ID) for bounds in (_LOWER, _UPPER))
        for bounds in (_LOWER, _UPPER):
            if entry[bounds] is not None:
                kept = {column: value for column, value in entry[bounds].items() if column != PATH_ID}
                if low is not None and low == high:
                    kept[PATH_ID] = self.prefixes.move(low.decode()).encode()
                entry[bounds] = kept

    def _delete_file(self, location: str) -> int:
        content = self._standing(location)
        try:
            rows = pq.read_table(io.BytesIO(content))
            paths = rows["file_path"]
        except (pa.ArrowException, KeyError) as error:
            raise FormatError(f"{location} is no position delete file: {error}") from error
        encoded = paths.combine_chunks().dictionary_encode()
        renamed = pa.array([self.prefixes.move(str(path)) for path in encoded.dictionary.to_pylist()], paths.type)
        moved = renamed.take(encoded.indices)
        index = rows.schema.get_field_index("file_path")
        out = io.BytesIO()
        pq.write_table(rows.set_column(index, rows.schema.field(index), moved), out)
        self._stage(location, out.getvalue())
        return len(out.getvalue())

    def _standing(self, location: str) -> bytes:
        try:
            return self._content_of(location)
        except FileNotFoundError as error:
            raise FormatError(f"{location}, which a snapshot of {self.target} needs, is missing") from error

    def _content_of(self, location: str) -> bytes:
        try:
            return whole(self.table.io.new_input(location), self._limit(location))
        except FileNotFoundError:
            raise
        except OSError as error:
            raise StorageError(f"cannot read {location}: {error}") from error

    def _limit(self, location: str) -> Limit:
        limits = ReadLimits.of(self.table.io.properties)
        # A file that is neither metadata nor a manifest is a position delete file, which is also held in memory whole.
        return limits.of_file(location) or limits.limit_of("file_list")

    def _copy(self, location: str) -> None:
        self.copies[location] = self.prefixes.move(location)

    def _stage(self, location: str, content: bytes) -> None:
        """Write the content that replaces ``location`` at the target to the staging location."""
        staged = self._write(self.staging + self.prefixes.below(location), content)
        self.copies[staged] = self.prefixes.move(location)

    def _write(self, location: str, content: bytes) -> str:
        try:
            NewFiles(self.table.io).write(location, content)
            flush([location])
        except (OSError, StorageError) as error:
            # The stream that the catalog uses for metadata files wraps the store's error as its cause.
            if not isinstance(error, FileExistsError) and not isinstance(error.__cause__, FileExistsError):
                raise StorageError(f"cannot write {location}: {error}") from error
            if self._content_of(location) != content:
                raise ProcedureError(
                    f"{location} exists already, with other content, and is not overwritten. Name an "
                    "empty folder as staging_location"
                ) from error
        return location


def _addition(entry: Fields, snapshot: int | None, sequence: int | None) -> tuple[int | None, int | None]:
    """Returns snapshot and sequence number with which the file was added; a new entry inherits missing ones."""
    if _SEQUENCE in entry and entry[_SEQUENCE] is not None:
        sequence = entry[_SEQUENCE]
    elif entry[_STATUS] != ManifestEntryStatus.ADDED:
        sequence = None
    return (snapshot if entry[_SNAPSHOT] is None else entry[_SNAPSHOT]), sequence


def _statistics(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [*metadata.get("statistics", ()), *metadata.get("partition-statistics", ())]


def _snapshots(metadata: Mapping[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = metadata.get("snapshots", [])
    return found


def _list_of(snapshot: Mapping[str, Any]) -> str:
    location = snapshot.get("manifest-list")
    if location is None:
        raise ProcedureError(
            f"snapshot {snapshot['snapshot-id']} keeps its manifests in the metadata file, as early format version 1 "
            "had it; expire it first"
        )
    return str(location)


def _json(location: str, metadata: Mapping[str, Any]) -> bytes:
    content = json.dumps(metadata).encode()
    return gzip.compress(content, mtime=0) if _is_packed(location) else content


def _is_packed(location: str) -> bool:
    return location.endswith((".gz.metadata.json", ".metadata.json.gz"))
