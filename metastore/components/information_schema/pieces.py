"""PARTITIONS, FILES and ROW_GROUPS: the parts that a table's metadata describes. Each relation can be large."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from metastore.components.information_schema.relation import (
    INT,
    LONG,
    MOMENT,
    TEXT,
    Exploded,
    SchemaRelation,
    Source,
    moment,
    number,
    same,
    table_names,
)
from metastore.components.information_schema.tables import NAMED
from metastore.model.bounds.units import LENGTH, ROW_COUNT, START
from metastore.model.vocabulary import MetadataType

_PIECE: Final = {
    **table_names("tableName"),
    "METADATA_KEY": same("metadataKey"),
    "METADATA_TYPE": same("metadataType"),
    "METADATA_IDENTIFIER": same("metadataIdentifier"),
    "LOCATION": same("location"),
    "LAST_MODIFIED_TIME": moment("lastModifiedTime"),
}


def _by_value(units: pa.Table, names: frozenset[str]) -> Exploded:
    """Returns one row for a directory, with the value of its own level, and one for each value of a partition.

    Files outside of any directory are not a partition.
    """
    positions, columns, values = [], [], []
    parts = zip(
        units["metadataType"].to_pylist(),
        units["column"].to_pylist(),
        units["partitionValues"].to_pylist(),
        strict=True,
    )
    for position, (kind, column, listed) in enumerate(parts):
        if column is None:
            continue
        for value in (listed or [None])[-1 if kind == MetadataType.SEGMENT else 0 :]:
            positions.append(position)
            columns.append(column)
            values.append(value)
    found = {"PARTITION_COLUMN": columns, "PARTITION_VALUE": values}
    return positions, {name: found[name] for name in names}


PARTITIONS: Final = SchemaRelation(
    "PARTITIONS",
    "Every directory below an analyzed table, and every value of columns that are constant in each file.",
    {
        **NAMED,
        "METADATA_KEY": TEXT,
        "METADATA_TYPE": TEXT,
        "METADATA_IDENTIFIER": TEXT,
        "PARTITION_COLUMN": TEXT,
        "PARTITION_VALUE": TEXT,
        "LOCATION": TEXT,
        "LAST_MODIFIED_TIME": MOMENT,
    },
    (
        Source(
            "tables",
            (MetadataType.SEGMENT, MetadataType.PARTITION),
            _PIECE,
            explode=_by_value,
            exploded={"PARTITION_COLUMN": (), "PARTITION_VALUE": ()},
            explode_needs=("metadataType", "column", "partitionValues"),
            of_facts=True,
        ),
    ),
)

FILES: Final = SchemaRelation(
    "FILES",
    "Every data file of the analyzed tables, as it was when it was analyzed.",
    {
        **NAMED,
        "METADATA_KEY": TEXT,
        "METADATA_IDENTIFIER": TEXT,
        "PATH": TEXT,
        "LOCATION": TEXT,
        "NUM_ROWS": LONG,
        "LENGTH": LONG,
        "LAST_MODIFIED_TIME": MOMENT,
    },
    (
        Source(
            "tables",
            (MetadataType.FILE,),
            {
                **_PIECE,
                "PATH": same("path"),
                "NUM_ROWS": number(ROW_COUNT),
                "LENGTH": number(LENGTH),
            },
            of_facts=True,
        ),
    ),
)

ROW_GROUPS: Final = SchemaRelation(
    "ROW_GROUPS",
    "Every row group of the analyzed tables' files: where it begins, and how much it holds.",
    {
        **NAMED,
        "METADATA_KEY": TEXT,
        "METADATA_IDENTIFIER": TEXT,
        "PATH": TEXT,
        "ROW_GROUP_INDEX": INT,
        "START": LONG,
        "LENGTH": LONG,
        "NUM_ROWS": LONG,
        "LAST_MODIFIED_TIME": MOMENT,
    },
    (
        Source(
            "tables",
            (MetadataType.ROW_GROUP,),
            {
                **_PIECE,
                "PATH": same("path"),
                "ROW_GROUP_INDEX": same("rowGroupIndex"),
                "START": number(START),
                "LENGTH": number(LENGTH),
                "NUM_ROWS": number(ROW_COUNT),
            },
            of_facts=True,
        ),
    ),
)
