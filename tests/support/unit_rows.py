"""Rows of units, looked at by metadata type and identifier."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from metastore.model.statistics import ColumnStatistics
from metastore.model.tuple_schema import TupleSchema

Row = dict[str, Any]


class Units:
    """Unit rows by metadata type, with their JSON read."""

    def __init__(self, rows: pa.Table) -> None:
        self.rows: list[Row] = [_plain(row) for row in rows.to_pylist()]

    def of_type(self, name: str) -> list[Row]:
        """Units of one metadata type, by identifier."""
        rows = [row for row in self.rows if row["metadataType"] == name]
        return sorted(rows, key=lambda row: (row["metadataIdentifier"], row["column"] or ""))

    def one(self, name: str) -> Row:
        """The only unit of a type."""
        (row,) = self.of_type(name)
        return row


def _plain(row: Row) -> Row:
    statistics = row["columnsStatistics"]
    return row | {
        "columnsStatistics": {key: ColumnStatistics.from_json(text) for key, text in statistics or ()},
        "schema": row["schema"] and TupleSchema.from_json(row["schema"]),
    }
