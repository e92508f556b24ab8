"""Cuts files into parts for tasks, as large as Spark itself would make them.

Place in the flow: a scan is planned, or a statement is divided; then one task reads each part by Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from metastore.scan.rows import ReadChunk

_TASK_BYTES: Final = 128 << 20
"""The most bytes that Spark itself would put into one task of a file scan."""

_FILE_COST: Final = 4 << 20
"""The bytes that opening a file counts for, as in Spark."""


def parts_of_files(sizes: Iterable[int], tasks: int) -> list[range]:
    """Returns the numbers of files of these ``sizes`` in bytes, in parts of about equal bytes, in order.

    No part is larger than Spark's own tasks. There are at least ``tasks`` parts, if possible.
    """
    costs = [size + _FILE_COST for size in sizes]
    limit = max(1, min(_TASK_BYTES, -(-sum(costs) // max(1, tasks))))
    starts: list[int] = []
    held = limit
    for number, cost in enumerate(costs):
        if held + cost > limit and held > 0:
            starts.append(number)
            held = 0
        held += cost
    ends = [*starts[1:], len(costs)]
    return [range(start, end) for start, end in zip(starts, ends, strict=False)]


def split(chunk: ReadChunk, tasks: int) -> list[ReadChunk]:
    """Returns ``chunk`` in parts as :func:`parts_of_files` cuts them."""
    # Tasks do not need the reasons of the plan.
    parts = [
        [replace(chunk.files[number], reason="", schema=None) for number in numbers]
        for numbers in parts_of_files((file.size or 0 for file in chunk.files), tasks)
    ]
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
