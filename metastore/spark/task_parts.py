"""The files of a scan in parts for Spark's tasks, as large as Spark itself would make them.

Place in the flow: a scan is planned; then one task reads each part by Arrow.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from metastore.scan.plan import ScanFile
from metastore.scan.rows import ReadChunk

_TASK_BYTES: Final = 128 << 20
"""The most bytes that Spark itself would put into one task of a file scan."""

_FILE_COST: Final = 4 << 20
"""The bytes that opening a file counts for, as in Spark."""


def split(chunk: ReadChunk, tasks: int) -> list[ReadChunk]:
    """Returns ``chunk`` in parts of about equal bytes, none larger than Spark's own tasks.

    There are at least ``tasks`` parts, if possible.
    """
    costs = [(file.size or 0) + _FILE_COST for file in chunk.files]
    limit = max(1, min(_TASK_BYTES, -(-sum(costs) // max(1, tasks))))
    parts: list[list[ScanFile]] = []
    size = limit
    for file, cost in zip(chunk.files, costs, strict=True):
        if size + cost > limit and size > 0:
            parts.append([])
            size = 0
        # Tasks do not need the reasons of the plan.
        parts[-1].append(replace(file, reason="", schema=None))
        size += cost
    inside = [
        {(path, group) for path, group in chunk.exclude if path in {file.path for file in files}} for files in parts
    ]
    return [
        replace(
            chunk,
            files=files,
            exclude={key: chunk.exclude[key] for key in keys},
            threads=False,
            reader=None if chunk.reader is None else chunk.reader.of([file.path for file in files]),
        )
        for files, keys in zip(parts, inside, strict=True)
    ]
