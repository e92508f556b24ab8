"""Counts of a partition's files: rows, files and bytes of data, rows and files of each kind of deletes."""

from __future__ import annotations

from typing import Final

from pyiceberg.manifest import DataFile, DataFileContent

COUNTS: Final = (
    "record_count",
    "file_count",
    "total_data_file_size_in_bytes",
    "position_delete_record_count",
    "position_delete_file_count",
    "equality_delete_record_count",
    "equality_delete_file_count",
)
"""The names of the counts, in the order of ``$partitions``."""

_DELETES: Final = {
    DataFileContent.POSITION_DELETES: "position_delete",
    DataFileContent.EQUALITY_DELETES: "equality_delete",
}


class FileCounts:
    """Adds up live files; ``values`` has the counts by name."""

    def __init__(self) -> None:
        self.values = dict.fromkeys(COUNTS, 0)

    def add(self, file: DataFile) -> None:
        """Count one file."""
        counts = self.values
        if file.content == DataFileContent.DATA:
            counts["record_count"] += file.record_count
            counts["file_count"] += 1
            counts["total_data_file_size_in_bytes"] += file.file_size_in_bytes
        else:
            counts[f"{_DELETES[file.content]}_record_count"] += file.record_count
            counts[f"{_DELETES[file.content]}_file_count"] += 1
