"""What a run would gain, estimated before it: from the size of its table, and from what the last run of its kind freed.

Pure functions. A file counts as :data:`FILE_BYTES` besides its own bytes, since that is what opening it costs. The
estimate orders work that is about as overdue; no decision about files depends on it.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Final

from pyiceberg.table import Table

from metastore.daemon.policy import Action, ActionPolicy
from metastore.model.run_unit import RunUnit

FILE_BYTES: Final = 4 << 20
"""Bytes that could be read in the time that it takes to open a file, as query engines assume when they plan."""

_TARGET: Final = 512 << 20
_FREED: Final = ("deleted_bytes", "bytes")


@dataclass(frozen=True)
class Facts:
    """Size of a table: data files and bytes in the current snapshot, and kept snapshots; None if unknown."""

    files: int | None = None
    bytes: int | None = None
    snapshots: int | None = None
    committed_ms: int | None = None

    @classmethod
    def of(cls, table: Table) -> Facts:
        """Reads only the table's metadata."""
        metadata = table.metadata
        snapshot = metadata.current_snapshot()
        if snapshot is None:
            return cls(0, 0, len(metadata.snapshots))
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        files, size = (_number(summary.get(name)) for name in ("total-data-files", "total-files-size"))
        return cls(files, size, len(metadata.snapshots), snapshot.timestamp_ms)

    @classmethod
    def after(cls, run: RunUnit) -> Facts:
        """Returns the size that a run has left behind."""
        return cls(run.files_after, run.bytes_after, run.snapshots_after)


def gain(policy: ActionPolicy, facts: Facts, last: RunUnit | None) -> int:
    """Returns the bytes that a run may save or free, within the budget of one run; 0 if nothing is known."""
    files = 0
    match policy.action:
        case Action.REWRITE_DATA_FILES if facts.files is not None:
            target = policy.options.get("target_file_size") or _TARGET
            files = facts.files - max(1, math.ceil((facts.bytes or 0) / target))
        case Action.EXPIRE_SNAPSHOTS if facts.snapshots is not None:
            files = facts.snapshots - (policy.options.get("retain_last") or 1)
    files, size = max(0, files), 0
    if last is not None:
        files, size = max(files, (last.files_before or 0) - (last.files_after or 0)), _count_freed_bytes(last)
    budget = policy.budget
    files = files if budget.files is None else min(files, budget.files)
    size = size if budget.bytes is None else min(size, budget.bytes)
    return files * FILE_BYTES + size


def _count_freed_bytes(run: RunUnit) -> int:
    """Returns the bytes that a run has freed, by its result."""
    result = json.loads(run.result) if run.result else {}
    return next((size for name in _FREED if isinstance(size := result.get(name), int)), 0)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
