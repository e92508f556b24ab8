"""``doctor files``: whether each file of a folder gives the same rows at every door."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from metastore.cli.incomplete import Incomplete
from metastore.doctor.files import DIFFERENT, FolderReport, examine


def files(folder: Path, on_progress: Callable[[int, int], None]) -> FolderReport | Incomplete:
    """What :func:`metastore.doctor.files.examine` finds; incomplete when a file breaks the law."""
    report = examine(folder, on_progress=on_progress)
    broken = report.outcomes[DIFFERENT]
    if not broken:
        return report
    return Incomplete(report, f"{broken} of {len(report.files)} files are not read alike; `--json` has every answer")
