"""Decides whether the Parquet files of a scan can be read as one Arrow dataset, and whether Arrow may filter it.

Place in the flow: :mod:`metastore.scan.scan` asks before it reads. The answer comes from the schemas in the metadata;
only files that are new or changed since ANALYZE are opened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa

from metastore.lake.formats.names import PARQUET
from metastore.lake.formats.parquet.int96_moments import int96_leaves
from metastore.lake.formats.parquet.refused_footers import REFUSALS
from metastore.lake.stores.arrow import open_location
from metastore.model.tuple_schema import REFUSED, TupleSchema
from metastore.predicates.arrow_filter import RowFilter
from metastore.scan.arrow_types import has_floats
from metastore.scan.parquet_parts import accepted_part, fragments
from metastore.scan.plan import ScanFile, ScanPlan
from metastore.scan.rows import reading_scanned


def gives_same_rows(plan: ScanPlan, files: Sequence[ScanFile]) -> bool:
    """Whether one dataset gives the same rows as single files.

    It does not where a directory and a file have one column, since Arrow prefers the file's, where Arrow refuses a
    file, and where INT96 times must be checked first.
    """
    if plan.format != PARQUET or any(file.matched for file in files):
        return False
    found = [(file, _columns_of(file, plan)) for file in files]
    return not any(columns.is_alone or file.constants.keys() & columns.texts.keys() for file, columns in found)


def pushes_down(plan: ScanPlan, files: Sequence[ScanFile], where: RowFilter | None) -> bool:
    """Whether Arrow may filter while it reads, by this question and by later filters of the dataset.

    Arrow fails to compare text if a file has another type. It also skips row groups by bounds of floats, which ignore
    NaN, so rows that match by their NaN would be lost.
    """
    if where is not None and any(has_floats(plan.readable.field(name)) for name in where.columns):
        return False
    texts = {column.name for column in plan.schema if pa.types.is_string(column.type)}
    return all(_columns_of(file, plan).texts.get(name, True) for file in files for name in texts)


class _OwnColumns(NamedTuple):
    """The columns of a file, whether each is text, and whether the file must be read by itself."""

    texts: Mapping[str, bool]
    is_alone: bool


def _columns_of(file: ScanFile, plan: ScanPlan) -> _OwnColumns:
    """Return facts of a file's columns; reads the file if the metadata does not have them."""
    if file.schema is not None:
        return _of_text(file.schema)
    store, root = open_location(plan.location, plan.options)
    with reading_scanned(file):
        [part] = fragments([file], plan.location, pa.schema([]), store, root)
        try:
            schema, is_alone = part.physical_schema, bool(int96_leaves(part.metadata))
        except REFUSALS:
            accepted = accepted_part(part, file)
            if accepted is None:
                raise
            schema, is_alone = accepted.part.physical_schema, True
    return _OwnColumns({column.name: pa.types.is_string(column.type) for column in schema}, is_alone)


@lru_cache(maxsize=64)
def _of_text(schema: str) -> _OwnColumns:
    known = TupleSchema.from_json(schema)
    is_alone = REFUSED in known.properties or known.has_unread_moments
    return _OwnColumns({column.name: column.type == "VARCHAR" for column in known.columns}, is_alone)
