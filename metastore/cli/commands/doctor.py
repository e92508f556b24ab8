"""``doctor files``: whether all engines and interfaces return the same rows for each file of a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from metastore.cli.incomplete import Incomplete
from metastore.doctor.doors import DOORS, ReadRows
from metastore.doctor.files import DIFFERENT, FolderReport, examine


def files(folder: Path, on_progress: Callable[[int, int], None], *, spark: bool = False) -> FolderReport | Incomplete:
    """Runs :func:`metastore.doctor.files.examine`, with Spark's interfaces too if ``spark`` is set.

    Returns Incomplete if they return different rows for a file.
    """
    report = examine(folder, doors={**DOORS, **_spark_doors()} if spark else DOORS, on_progress=on_progress)
    broken = report.outcomes[DIFFERENT]
    if not broken:
        return report
    return Incomplete(
        report,
        f"{broken} of {len(report.files)} files are read differently by some engines; `--json` lists every result",
    )


def _spark_doors() -> Mapping[str, ReadRows]:
    from metastore.doctor.spark_doors import local_spark_doors  # noqa: PLC0415 - Spark takes seconds to load

    return local_spark_doors()
