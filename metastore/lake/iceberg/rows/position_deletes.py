"""Reads position delete files and removes the deleted rows from batches."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import FileIO
from pyiceberg.manifest import FileFormat
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile

from metastore.lake.iceberg.manifests.data_file import open_data_file
from metastore.lake.stores.bounded_reading import ReadLimits, whole
from metastore.lake.stores.files import open_ranges

Positions = Any
"""A NumPy array of row numbers of one data file, counted from 0."""

_PATH: Final = "file_path"
_POSITION: Final = "pos"


def deleted_positions(
    io: FileIO, location: str, format_: FileFormat, paths: Collection[str]
) -> dict[str, list[Positions]]:
    """Return the deleted positions of the data files ``paths`` in the delete file at ``location``, by path.

    Raises pyarrow's errors, OSError, FormatError for a Puffin file beyond its limit, and the errors of
    :func:`metastore.lake.iceberg.manifests.data_file.open_data_file`.
    """
    if format_ is FileFormat.PUFFIN:
        file = io.new_input(location)
        limits = getattr(file, "limits", None) or ReadLimits()
        vectors = deletion_vectors_from_puffin_file(PuffinFile(whole(file, limits.limit_of("puffin"))))
        return {
            each.referenced_data_file: [each.to_vector().to_numpy()]
            for each in vectors
            if each.referenced_data_file in paths
        }
    wanted = pa.array(sorted(paths), pa.string())
    found: dict[str, list[Positions]] = {}
    for batch in position_batches(io, location, format_):
        named = batch.filter(pc.is_in(batch[_PATH], value_set=wanted.cast(batch[_PATH].type)))
        for path in named[_PATH].unique():
            here = named.filter(pc.equal(named[_PATH], path))
            found.setdefault(str(path), []).append(here[_POSITION].to_numpy(zero_copy_only=False))
    return found


def position_batches(io: FileIO, location: str, format_: FileFormat) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the delete file at ``location``: path of a data file, and a position in it.

    Raises as :func:`deleted_positions`. Puffin files have no rows.
    """
    with open_ranges(io, location) as source:
        yield from open_data_file(source, format_, location).matching(None, [_PATH, _POSITION])


def merge_positions(parts: Iterable[Positions]) -> Positions | None:
    """Return the positions of all ``parts``, sorted and distinct; None if there are no parts."""
    given = list(parts)
    return np.unique(np.concatenate(given)) if given else None


def without(batch: pa.RecordBatch, first: int, deleted: Positions | None) -> pa.RecordBatch:
    """Return the rows of ``batch``, which starts at row ``first`` of its file, that are not ``deleted`` (sorted)."""
    if deleted is None:
        return batch
    low, high = np.searchsorted(deleted, (first, first + batch.num_rows))
    if low == high:
        return batch
    keep = np.ones(batch.num_rows, dtype=bool)
    keep[deleted[low:high] - first] = False
    return batch.filter(pa.array(keep))
