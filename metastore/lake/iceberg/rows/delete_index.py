"""Finds the delete files of a data file by path, partition and sequence number, as the specification says.

A position delete file applies to data files of its own and of smaller sequence numbers, in its partition. An equality
delete file applies to those of smaller ones; if its spec is unpartitioned, it applies to the whole table.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import VoidTransform

from metastore.errors import FormatError
from metastore.lake.iceberg.columns.schemas import PATH_ID
from metastore.lake.iceberg.columns.version_3_fields import referenced_data_file
from metastore.lake.iceberg.manifests.partition_key import SpecPartition, partition_key
from metastore.lake.iceberg.rows.live_files import LiveFile


class DeleteFile(NamedTuple):
    """The facts of a delete file that reading needs: of positions, or of rows equal in the columns ``equality_ids``."""

    path: str
    format: FileFormat
    equality_ids: tuple[int, ...] = ()

    @classmethod
    def of(cls, file: DataFile) -> DeleteFile:
        """Create it from an entry. FormatError for an equality delete file that names no columns."""
        if file.content != DataFileContent.EQUALITY_DELETES:
            return cls(file.file_path, file.file_format)
        if not file.equality_ids:
            raise FormatError(f"{file.file_path} cannot be read: it deletes equal rows, and its entry names no columns")
        return cls(file.file_path, file.file_format, tuple(file.equality_ids))


class Deletes:
    """Delete files by the data files they may apply to. ``unpartitioned`` are the ids of unpartitioned specs."""

    def __init__(self, files: Iterable[LiveFile], unpartitioned: frozenset[int]) -> None:
        self._by_path: dict[str, list[LiveFile]] = {}
        self._by_partition: dict[SpecPartition, list[LiveFile]] = {}
        self._everywhere: list[LiveFile] = []
        for live in files:
            path = only_path(live.file)
            if path is not None:
                self._by_path.setdefault(path, []).append(live)
            elif live.file.content == DataFileContent.EQUALITY_DELETES and live.file.spec_id in unpartitioned:
                self._everywhere.append(live)
            else:
                self._by_partition.setdefault(_key(live), []).append(live)

    def of(self, data: LiveFile) -> list[LiveFile]:
        """Return delete files that may apply to rows of ``data``, by path, partition and sequence number."""
        by_partition = self._by_partition.get(_key(data), ())
        near = [*self._by_path.get(data.path, ()), *by_partition, *self._everywhere]
        return [live for live in near if _applies(live, data)]


def only_path(file: DataFile) -> str | None:
    """Return the only data file that a position delete file names, if its entry says so or its bounds prove it."""
    if file.content != DataFileContent.POSITION_DELETES:
        return None
    named = referenced_data_file(file)
    if named is not None:
        return named
    lower = (file.lower_bounds or {}).get(PATH_ID)
    upper = (file.upper_bounds or {}).get(PATH_ID)
    return lower.decode() if lower is not None and lower == upper else None


def unpartitioned_specs(metadata: TableMetadata) -> frozenset[int]:
    """Return the ids of unpartitioned specs; version 1 keeps dropped fields as void ones."""
    return frozenset(
        spec.spec_id
        for spec in metadata.partition_specs
        if all(isinstance(field.transform, VoidTransform) for field in spec.fields)
    )


def _applies(delete: LiveFile, data: LiveFile) -> bool:
    if delete.file.content == DataFileContent.EQUALITY_DELETES:
        return delete.sequence_number > data.sequence_number
    if delete.sequence_number < data.sequence_number:
        return False
    path = data.path.encode()
    lower = (delete.file.lower_bounds or {}).get(PATH_ID)
    upper = (delete.file.upper_bounds or {}).get(PATH_ID)
    # Truncated bounds of texts still hold: a lower one stays below, and an upper one is rounded up.
    return (lower is None or lower <= path) and (upper is None or path <= upper)


def _key(live: LiveFile) -> SpecPartition:
    return partition_key(live.file.spec_id, live.file.partition)
