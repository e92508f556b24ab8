"""Which metrics a manifest entry has of each column: none, counts, or bounds, by the table's properties.

Place in the flow: all writers of data files and ``add_files`` ask here. Columns within structs have bounds as top-level
columns do, as Iceberg for Java writes them; PyIceberg counts their values only. Elements of lists and maps have no
bounds, since a row has several of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from pyiceberg.io.pyarrow import (
    MetricModeTypes,
    MetricsMode,
    StatisticsCollector,
    compute_statistics_plan,
    match_metrics_mode,
)
from pyiceberg.schema import Schema
from pyiceberg.table import TableProperties
from pyiceberg.types import BinaryType, NestedField, StringType, StructType

from metastore.lake.iceberg.columns.number_properties import number_property, properties_checked

_NO_METRICS: Final = MetricsMode(MetricModeTypes.NONE)
_MOST_COLUMNS: Final = "write.metadata.metrics.max-inferred-column-defaults"
"""Iceberg for Java has 100 as its default; here all columns have metrics unless the property is set."""
_BOUNDED: Final = (MetricModeTypes.TRUNCATE, MetricModeTypes.FULL)


def metrics_plan(
    schema: Schema, properties: Mapping[str, str], without: Iterable[int] = ()
) -> dict[int, StatisticsCollector]:
    """Returns the metrics to keep of each primitive field of ``schema``, by field id; none of ids in ``without``.

    Raises InvalidRequestError for a mode in ``properties`` that Iceberg does not have.
    """
    with properties_checked():
        plan = compute_statistics_plan(schema, dict(properties))
        for field in _columns(schema.fields):
            known = plan[field.field_id]
            plan[field.field_id] = replace(known, mode=_mode(field, known.column_name, properties))
    without = {*_beyond_the_most(plan, properties), *without}
    return {key: replace(each, mode=_NO_METRICS) if key in without else each for key, each in plan.items()}


def _beyond_the_most(plan: Mapping[int, StatisticsCollector], properties: Mapping[str, str]) -> Iterator[int]:
    """Yields columns after the first ones, if the table limits their number and says nothing of their metrics.

    Raises InvalidRequestError if the limit is not a number.
    """
    most = number_property(properties, _MOST_COLUMNS, len(plan), least=0)
    if most < len(plan) and TableProperties.DEFAULT_WRITE_METRICS_MODE not in properties:
        for field_id, column in list(plan.items())[most:]:
            if f"{TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX}.{column.column_name}" not in properties:
                yield field_id


def _columns(fields: Iterable[NestedField]) -> Iterator[NestedField]:
    """Yields the primitive fields that have one value in a row."""
    for field in fields:
        if isinstance(field.field_type, StructType):
            yield from _columns(field.field_type.fields)
        elif field.field_type.is_primitive:
            yield field


def _mode(field: NestedField, name: str, properties: Mapping[str, str]) -> MetricsMode:
    default = properties.get(
        TableProperties.DEFAULT_WRITE_METRICS_MODE, TableProperties.DEFAULT_WRITE_METRICS_MODE_DEFAULT
    )
    mode = match_metrics_mode(properties.get(f"{TableProperties.METRICS_MODE_COLUMN_CONF_PREFIX}.{name}") or default)
    is_cut = isinstance(field.field_type, StringType | BinaryType)
    return mode if mode.type not in _BOUNDED or is_cut else MetricsMode(MetricModeTypes.FULL)
