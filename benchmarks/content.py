"""The metadata that the storage benchmarks keep: made-up tables of a realistic make, the same from the same seed.

A metastore of N partitions is N/10 tables; a table is one partition of general information (one row) and nine
segments, and a segment is one partition of seven rows: itself, two files, two row groups each. Every row carries JSON
statistics of five columns and a table its schema, as ANALYZE writes them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from metastore.model.identity import TableInfo, file_identifier, row_group_identifier
from metastore.model.mapping.rows import to_arrow
from metastore.model.statistics import ColumnStatistics
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.model.vocabulary import GENERAL_INFO, MetadataType

SEGMENTS: Final = 9
PARTITIONS_OF_A_TABLE: Final = SEGMENTS + 1
FILES_OF_A_SEGMENT: Final = 2
ROW_GROUPS_OF_A_FILE: Final = 2
ROWS_OF_A_SEGMENT: Final = 1 + FILES_OF_A_SEGMENT * (1 + ROW_GROUPS_OF_A_FILE)
ROWS_OF_A_TABLE: Final = 1 + SEGMENTS * ROWS_OF_A_SEGMENT

_COLUMNS: Final = {"id": "BIGINT", "price": "DOUBLE", "quantity": "INT", "customer": "VARCHAR", "note": "VARCHAR"}
_TABLES_OF_A_WORKSPACE: Final = 100
_EPOCH_MS: Final = 1_700_000_000_000
_VARIANTS: Final = 500
"""Statistics are drawn from this many: making them afresh for each row would take longer than all that is measured."""


def table_info(number: int) -> TableInfo:
    """The table with this number, from 0."""
    return TableInfo("dfs", f"w{number // _TABLES_OF_A_WORKSPACE:04d}", f"orders_{number:06d}")


def segment_name(segment: int) -> str:
    """Metadata key of a table's segment, from 0."""
    return f"region={segment}"


class Content:
    """Makes the units of tables by number. Equal seeds make equal units, whatever was asked for before.

    Another ``edition`` of a table differs in its times, as a table that was analyzed again does.
    """

    def __init__(self, seed: int, files_of_a_segment: int = FILES_OF_A_SEGMENT) -> None:
        self.seed = seed
        self._files_of_a_segment = files_of_a_segment

    def tables(self, numbers: Iterable[int], edition: int = 0) -> pa.Table:
        """All rows of the tables with these numbers, in on-disk columns."""
        units: list[TableMetadataUnit] = []
        for number in numbers:
            units.append(self._general(number, edition))
            for segment in range(SEGMENTS):
                units.extend(self._segment(number, segment, edition))
        return to_arrow(TableMetadataUnit, units)

    def segment(self, number: int, segment: int, edition: int = 0) -> pa.Table:
        """The rows of one segment of one table: one partition."""
        return to_arrow(TableMetadataUnit, self._segment(number, segment, edition))

    def _general(self, number: int, edition: int) -> TableMetadataUnit:
        return TableMetadataUnit(
            **_named(number),
            owner="analyst",
            table_type="PARQUET",
            metadata_type=MetadataType.TABLE.value,
            metadata_key=GENERAL_INFO,
            location=_location(number),
            interesting_columns=tuple(_COLUMNS),
            schema=self._schema,
            columns_statistics=self._statistics[number % _VARIANTS],
            last_modified_time=_EPOCH_MS + number * 1_000 + edition,
            partition_keys={"dir0": "region"},
        )

    def _segment(self, number: int, segment: int, edition: int) -> list[TableMetadataUnit]:
        chance = random.Random(self.seed * 1_000_003 + number * SEGMENTS + segment)
        key = segment_name(segment)
        folder = f"{_location(number)}/{key}"
        shared: dict[str, Any] = {
            **_named(number),
            "metadata_key": key,
            "last_modified_time": _EPOCH_MS + number * 1_000 + edition,
            "schema": self._schema,
        }
        files = [f"part-{file:05d}-{chance.getrandbits(64):016x}.parquet" for file in range(self._files_of_a_segment)]
        units = [
            TableMetadataUnit(
                **shared,
                metadata_type=MetadataType.SEGMENT.value,
                metadata_identifier=key,
                location=folder,
                path=folder,
                column="`dir0`",
                partition_values=(key,),
                locations=tuple(f"{folder}/{name}" for name in files),
                columns_statistics=chance.choice(self._statistics),
            )
        ]
        for name in files:
            path = f"{folder}/{name}"
            units.append(
                TableMetadataUnit(
                    **shared,
                    metadata_type=MetadataType.FILE.value,
                    metadata_identifier=file_identifier((key,), name),
                    location=folder,
                    path=path,
                    columns_statistics=chance.choice(self._statistics),
                )
            )
            units.extend(
                TableMetadataUnit(
                    **shared,
                    metadata_type=MetadataType.ROW_GROUP.value,
                    metadata_identifier=row_group_identifier((key,), name, index),
                    location=folder,
                    path=path,
                    row_group_index=index,
                    columns_statistics=chance.choice(self._statistics),
                    host_affinity={"localhost": 1.0},
                )
                for index in range(ROW_GROUPS_OF_A_FILE)
            )
        return units

    @cached_property
    def _schema(self) -> str:
        return TupleSchema(tuple(SchemaColumn(name, type_) for name, type_ in _COLUMNS.items())).to_json()

    @cached_property
    def _statistics(self) -> list[dict[str, str]]:
        chance = random.Random(self.seed)
        return [
            {
                "`id`": _text("BIGINT", low := chance.randrange(10**9), low + chance.randrange(10**6)),
                "`price`": _text("FLOAT8", round(chance.random(), 2), round(chance.random() * 10_000, 2)),
                "`quantity`": _text("INT", chance.randrange(5), 5 + chance.randrange(500)),
                "`customer`": _text("VARCHAR", f"Aaron {chance.random()}", f"Zoe {chance.random()}"),
                "`note`": _text("VARCHAR", "", f"wanted by {chance.random()}", chance.randrange(10_000)),
            }
            for _ in range(_VARIANTS)
        ]


def _text(type_: str, low: float | str, high: float | str, nulls: int = 0) -> str:
    return ColumnStatistics(type_, low, high, nulls=nulls, non_nulls=100_000 - nulls, rows=100_000).to_json()


def _named(number: int) -> dict[str, Any]:
    table = table_info(number)
    return {"storage_plugin": table.storage_plugin, "workspace": table.workspace, "table_name": table.name}


def _location(number: int) -> str:
    table = table_info(number)
    return f"/data/{table.workspace}/{table.name}"
