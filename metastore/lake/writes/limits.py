"""What limits the work of rewriting a table: which files, how large new ones get, how many commits.

The procedures read these from the text of a call (:mod:`metastore.procedures.rewrite.options`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

JobOrder = Literal["none", "bytes-asc", "bytes-desc", "files-asc", "files-desc"]
Strategy = Literal["binpack", "sort"]

TARGET_PROPERTY: Final = "write.target-file-size-bytes"
TARGET_DEFAULT: Final = 512 << 20
MIN_OF_TARGET: Final = 0.75
MAX_OF_TARGET: Final = 1.8
_GROUP_BYTES: Final = 100 << 30
_UNLIMITED: Final = 2**63 - 1


@dataclass(frozen=True)
class RewriteOptions:
    """Options: the files to rewrite, the new files, and the number of commits. Sizes are in bytes on the store."""

    target_bytes: int = TARGET_DEFAULT
    min_bytes: int = int(TARGET_DEFAULT * MIN_OF_TARGET)
    max_bytes: int = int(TARGET_DEFAULT * MAX_OF_TARGET)
    min_input_files: int = 5
    rewrite_all: bool = False
    max_group_bytes: int = _GROUP_BYTES
    max_group_files: int = _UNLIMITED
    delete_file_threshold: int = 2**31 - 1
    delete_ratio_threshold: float = 0.3
    output_spec_id: int | None = None
    remove_dangling_deletes: bool = False
    max_files: int | None = None
    max_concurrent_groups: int = 5
    partial_progress: bool = False
    max_commits: int = 10
    max_failed_commits: int = 10
    use_starting_sequence_number: bool = True
    job_order: JobOrder = "none"
    compression_factor: float = 1.0
