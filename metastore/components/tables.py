"""The tables component: metadata of tables, segments, files, row groups and partitions."""

from __future__ import annotations

from functools import cache, cached_property
from typing import Final

from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression, EqualTo, In, NotEqualTo

from metastore.components.component import Component, ComponentDefinition, require_held
from metastore.components.requests import TablesRequests
from metastore.ground.notebook import grid
from metastore.model.statistics_json import read_row_count
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import GENERAL_INFO, MetadataType


def _partitions_of(types: frozenset[MetadataType]) -> BooleanExpression:
    """TABLE units are in the partition of general information, all others in the partitions of segments."""
    if MetadataType.ALL in types or (MetadataType.TABLE in types and len(types) > 1):
        return AlwaysTrue()
    if MetadataType.TABLE in types:
        return EqualTo("metadataKey", GENERAL_INFO)
    return NotEqualTo("metadataKey", GENERAL_INFO)


@cache
def _rows_of(types: frozenset[MetadataType]) -> BooleanExpression:
    require_held("tables", types, _HELD)
    if MetadataType.ALL in types:
        return AlwaysTrue()
    return And(_partitions_of(types), In("metadataType", {str(kind) for kind in types}))


_HELD: Final = frozenset(
    (
        MetadataType.TABLE,
        MetadataType.SEGMENT,
        MetadataType.FILE,
        MetadataType.ROW_GROUP,
        MetadataType.PARTITION,
    )
)

TABLES = ComponentDefinition("tables", TableMetadataUnit, _rows_of, _partitions_of, frozenset({MetadataType.TABLE}))


class Tables(Component[TableMetadataUnit]):
    """Metadata of tables; :attr:`requests` has ready requests."""

    @cached_property
    def requests(self) -> TablesRequests:
        """Ready requests about tables, segments, files, row groups and partitions."""
        return TablesRequests(self.read, lambda: self.metadata.version)

    def _repr_html_(self) -> str:
        """Show the tables that have metadata, with their rows, in a notebook."""
        asked = ("storagePlugin", "workspace", "tableName", "metadataStatistics")
        units = self.read().metadata_types(MetadataType.TABLE).columns(*asked).to_arrow().to_pylist()
        names = [".".join((unit["storagePlugin"], unit["workspace"], unit["tableName"])) for unit in units]
        counts = [read_row_count(unit["metadataStatistics"]) for unit in units]
        known = ["unknown" if count is None else count for count in counts]
        return grid("tables", ("table", "rows"), sorted(zip(names, known, strict=True)))
