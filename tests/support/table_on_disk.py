"""A small table on disk beside the units that describe it."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class TableOnDisk:
    """Data files, the units that describe them, their fingerprints, and where each row (by column ``id``) lies."""

    root: str
    paths: list[str]
    units: pa.Table
    listing: dict[str, tuple[int, int]]
    places: dict[int, tuple[str, int]]
