"""``doctor files``: whether each file of a folder gives the same rows at every door."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from metastore.cli.incomplete import Incomplete
from metastore.doctor.doors import DOORS, ReadRows
from metastore.doctor.files import DIFFERENT, FolderReport, examine


def files(folder: Path, on_progress: Callable[[int, int], None], *, spark: bool = False) -> FolderReport | Incomplete:
    """What :func:`metastore.doctor.files.examine` finds, by the doors of ``spark``, too, if it is set.

    Incomplete when a file breaks the law.
    """
    report = examine(folder, doors={**DOORS, **_spark_doors()} if spark else DOORS, on_progress=on_progress)
    broken = report.outcomes[DIFFERENT]
    if not broken:
        return report
    return Incomplete(report, f"{broken} of {len(report.files)} files are not read alike; `--json` has every answer")


def _spark_doors() -> Mapping[str, ReadRows]:
    from metastore.doctor.spark_doors import local_spark_doors  # noqa: PLC0415 - Spark takes seconds to load

    return local_spark_doors()
