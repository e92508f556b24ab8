"""How rows of an INSERT reach the tasks that write them: the table's property ``write.distribution-mode``.

``hash``: all rows of a partition go to one task, so that each partition gets few files. This is the default of
partitioned tables. ``none``: each task writes the rows that it reads, so that no row travels. ``range`` sorts all rows
in Iceberg; here rows of a partition stay together, and each file is sorted in itself.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator, Mapping
from typing import Final, Literal

import numpy as np
import pyarrow as pa

from metastore.errors import InvalidRequestError
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.partition_values import partition_column, partition_value
from metastore.lake.writes.replaced_rows import partition_fields

_log: Final = logging.getLogger(__name__)

MODE: Final = "write.distribution-mode"

Mode = Literal["none", "hash"]


def distribution(name: str, properties: Mapping[str, str], *, is_partitioned: bool) -> Mode:
    """Returns how rows of table ``name`` are distributed; warns about ``range``.

    Raises InvalidRequestError for an unknown value of the property.
    """
    value = properties.get(MODE, "hash").lower()
    if value not in ("none", "hash", "range"):
        raise InvalidRequestError(
            f"property {MODE} of {name} is {properties[MODE]!r}; none, hash and range are supported: run ALTER TABLE "
            f"{name} SET PROPERTIES {MODE} = 'hash'"
        )
    if value == "range":
        _log.warning(
            "%s of %s is range: rows are distributed by partition, and each file is sorted in itself; run "
            "rewrite_data_files to sort across files",
            MODE,
            name,
        )
    return "hash" if is_partitioned and value != "none" else "none"


def by_partition(job: RewriteJob, batch: pa.RecordBatch, groups: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the rows of ``batch`` by group, from 0 to ``groups``; rows of one partition are in one group."""
    yield from by_group(batch, partition_groups(job, batch, groups))


def partition_groups(job: RewriteJob, batch: pa.RecordBatch, groups: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Returns the group of each row of ``batch``, as :func:`by_partition` has it."""
    fields = partition_fields(job.output_spec)
    hashes = np.zeros(batch.num_rows, dtype=np.uint64)
    for field in fields:
        column = partition_column(field, job.schema, batch)
        assert column is not None
        encoded = column.dictionary_encode(null_encoding="encode")
        values = (partition_value(field, each.as_py(), job.schema) for each in encoded.dictionary)
        codes = np.array([zlib.crc32(repr(_alike(value)).encode()) for value in values], dtype=np.uint64)
        # A step of a multiplicative hash, so that equal values in two fields do not cancel out.
        own = codes[encoded.indices.to_numpy(zero_copy_only=False)]
        hashes = (hashes * np.uint64(0x9E3779B1) + own) & np.uint64(0xFFFFFFFF)
    found: np.ndarray[tuple[int], np.dtype[np.int64]] = (hashes % np.uint64(groups)).astype(np.int64)
    return found


def _alike(value: object) -> object:
    """Returns equal texts for the zeros of both signs."""
    return value + 0.0 if isinstance(value, float) else value


def by_group(
    batch: pa.RecordBatch, groups: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yields the rows of each group in their order; ``groups`` has one number for each row."""
    order = np.argsort(groups, kind="stable")
    numbers, starts = np.unique(groups[order], return_index=True)
    for number, rows in zip(numbers, np.split(order, starts[1:]), strict=True):
        yield int(number), batch.take(pa.array(rows, pa.int64()))
