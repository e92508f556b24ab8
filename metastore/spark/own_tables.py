"""Reading the metastore's own tables in Spark: components and INFORMATION_SCHEMA.

Place in the flow: the data source names a table and pins its versions. The planner, in a separate process, divides the
rows that can match into parts. Each executor task reads one part, from files or from rows that the plan contains. The
condition ``where``, given at the load, is applied exactly. Filters that Spark pushes down only save work, because Spark
checks every row itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNaN,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotNull,
    Or,
    StartsWith,
)
from pyiceberg.schema import Schema
from pyspark.sql import datasource as spark_source
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition

from metastore.components.catalogs import COMPONENTS
from metastore.components.information_schema import InformationSchema, RelationPart
from metastore.components.information_schema.relations import NAME, relation
from metastore.components.metastore import Metastore
from metastore.components.storage.file_groups import FileGroup
from metastore.config import Settings
from metastore.config.catalogs import OWN_CATALOG
from metastore.errors import NotFoundError
from metastore.model.mapping.arrow import plain_arrow_schema
from metastore.model.mapping.filters import all_of
from metastore.model.mapping.schema import iceberg_schema
from metastore.model.vocabulary import MetadataType
from metastore.predicates.exact_filter import exact_filter
from metastore.predicates.iceberg_filter import iceberg_filter
from metastore.spark.spark_types import spark_schema

Versions = Mapping[str, int]
"""The versions of components to read, by name."""

_COMPARISONS: Final[Mapping[type[Filter], Any]] = {
    spark_source.EqualTo: EqualTo,
    spark_source.LessThan: LessThan,
    spark_source.LessThanOrEqual: LessThanOrEqual,
    spark_source.GreaterThan: GreaterThan,
    spark_source.GreaterThanOrEqual: GreaterThanOrEqual,
}


@dataclass(frozen=True)
class OwnTable:
    """One of the metastore's own tables: a component, or a table of INFORMATION_SCHEMA."""

    name: str
    is_component: bool

    @classmethod
    def find(cls, text: str) -> OwnTable | None:
        """Returns the table of that name; None if no own table can have it.

        Raises NotFoundError, which lists the tables that exist.
        """
        parts = text.split(".")
        if len(parts) == 2 and parts[0].lower() == NAME:
            return cls(relation(parts[1]).name, is_component=False)
        if len(parts) == 3 and [part.lower() for part in parts[:2]] == [OWN_CATALOG, COMPONENTS]:
            return cls(parts[2], is_component=True)
        return None

    def schema(self, metastore: Metastore) -> pa.Schema:
        """Returns the columns. Raises NotFoundError for an unknown component."""
        return plain_arrow_schema(self._unit(metastore)) if self.is_component else relation(self.name).schema

    def versions(self, metastore: Metastore, version: int | None, time: datetime | None) -> Versions:
        """Returns the versions that ``version`` or ``time`` mean; the newest ones without either.

        Raises NotFoundError.
        """
        if self.is_component and time is None:
            self._unit(metastore)
            return {self.name: metastore.components[self.name].metadata.version if version is None else version}
        known = InformationSchema(metastore)
        chosen = known.as_of(time) if time is not None else known.pin() if version is None else known.at(version)
        return chosen.versions or {}

    def parts(
        self,
        metastore: Metastore,
        versions: Versions,
        columns: Sequence[str],
        where: str | None,
        pushed: BooleanExpression,
    ) -> list[RelationPart | FileGroup | pa.Table]:
        """Returns the rows that satisfy ``where``, in parts. Rows that do not satisfy ``pushed`` may be missing.

        Raises as the reads of a component, and InvalidRequestError for a ``where`` that does not fit the table.
        """
        narrowed = iceberg_filter(pushed, self._fits(metastore)).expression
        if where is not None:
            narrowed = And(narrowed, exact_filter(where, self._fits(metastore)))
        if not self.is_component:
            return [*InformationSchema(metastore, versions).parts(self.name, columns, narrowed)]
        read = metastore.components[self.name].read().metadata_types(MetadataType.ALL).columns(*columns)
        if not isinstance(narrowed, AlwaysTrue):
            read = read.filter(narrowed)
        parts = read.at(versions[self.name]).parts()
        return [*([parts.answered] if parts.answered.num_rows else []), *parts.groups]

    def _fits(self, metastore: Metastore) -> Schema:
        return iceberg_schema(self._unit(metastore)) if self.is_component else relation(self.name).iceberg_schema

    def _unit(self, metastore: Metastore) -> Any:
        if self.name not in metastore.components:
            raise NotFoundError(
                f"the metastore has no component {self.name}; it has {', '.join(sorted(metastore.components))}"
            )
        return metastore.components[self.name].definition.unit_type


@dataclass(frozen=True)
class OwnPartition(InputPartition):
    """The rows that one task reads."""

    value: RelationPart | FileGroup | pa.Table


class OwnTableReader(DataSourceReader):
    """Reads columns of one own table at ``versions``.

    It holds plain data only, so Spark can send it to other processes. ``columns`` are in the order that Spark requires;
    ``where`` chooses rows.
    """

    def __init__(
        self,
        settings: Settings,
        table: OwnTable,
        columns: Sequence[str],
        *,
        versions: Versions,
        where: str | None,
    ) -> None:
        self._settings = settings
        self._table = table
        self._versions = versions
        self._where = where
        with Metastore.open(settings) as metastore:
            schema = table.schema(metastore)
        self._types = spark_schema(pa.schema([schema.field(name) for name in columns]))[1]
        self._pushed: BooleanExpression = AlwaysTrue()

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Use the filters that skip files, and return all of them: Spark checks every row again."""
        self._pushed = all_of(map(condition, filters))
        return list(filters)

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the read; one partition for each part."""
        with Metastore.open(self._settings) as metastore:
            parts = self._table.parts(metastore, self._versions, self._types.names, self._where, self._pushed)
        return [OwnPartition(part) for part in parts]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        if not isinstance(partition, OwnPartition):  # Spark passes a plain partition where there are none.
            return
        pa.set_cpu_count(1)  # The other cores belong to other tasks.
        part = partition.value
        for batch in part.to_batches() if isinstance(part, pa.Table) else part.batches():
            yield batch.cast(self._types)


def condition(filter_: Filter) -> BooleanExpression:
    """Returns a condition that holds wherever the pushed filter does."""
    path: tuple[str, ...] = getattr(filter_, "attribute", ())
    if len(path) != 1:
        return AlwaysTrue()
    column, value = path[0], _literal_for_iceberg(getattr(filter_, "value", None))
    match filter_:
        case spark_source.IsNull():
            return IsNull(column)
        case spark_source.IsNotNull():
            return NotNull(column)
        case spark_source.In():
            values = [_literal_for_iceberg(one) for one in filter_.value]
            return AlwaysTrue() if None in values or not values else In(column, set(values))
        case spark_source.StringStartsWith() if isinstance(value, str):
            return StartsWith(column, value)
    kind = _COMPARISONS.get(type(filter_))
    if kind is None or value is None:
        return AlwaysTrue()
    found: BooleanExpression = kind(column, value)
    if isinstance(value, float) and kind in {GreaterThan, GreaterThanOrEqual}:
        return Or(found, IsNaN(column))  # Spark orders NaN above all other numbers.
    return found


def _literal_for_iceberg(value: Any) -> Any:
    """Returns a value as PyIceberg takes it; None for a value that Spark alone should compare."""
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc).isoformat(timespec="microseconds") if value.tzinfo else None
    return value if isinstance(value, str | int | float) else None
