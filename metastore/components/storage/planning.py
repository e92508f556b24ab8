"""Planning: which data files a read needs, by the manifests' partition summaries and the entries' partition values.

If manifests hold all requested columns of a row (partition values, and equal bounds of one-row files), the row is
answered from them without opening its file. For the other files, bounds decide whether they must be opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import from_bytes
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import extract_field_ids, manifest_evaluator
from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, PrimitiveType

from metastore.components.storage.key_range import SplitFilter, may_hold, range_of
from metastore.lake.iceberg.catalogs.iceberg_private import metrics_evaluator
from metastore.lake.iceberg.manifests.compact_entries import metrics_of
from metastore.lake.iceberg.manifests.manifests import DecodedManifest, Manifests
from metastore.model.fields import Unit
from metastore.model.mapping.arrow import no_rows
from metastore.model.mapping.filters import bind_filter, partition_schema, project_on_partitions, to_arrow_filter
from metastore.model.mapping.rows import PartitionKey


@dataclass(frozen=True)
class PartitionTest:
    """A compiled filter on partition values, for manifests and for their decoded entries."""

    may_match: Callable[[ManifestFile], bool]
    matches: Callable[[DecodedManifest], Sequence[bool]]


def partition_test(schema: Schema, spec: PartitionSpec, split: SplitFilter) -> PartitionTest:
    """Compile ``split``, which fits ``schema``; a partition passes if it can hold a matching row."""
    required = project_on_partitions(schema, spec, split.rest)
    if isinstance(required, AlwaysTrue):
        return PartitionTest(
            lambda manifest: may_hold(range_of(manifest), split.keys),
            lambda decoded: _mask(split.among(decoded.keys), len(decoded.keys)),
        )
    names = [field.name for field in spec.fields]
    row_filter = to_arrow_filter(bind_filter(partition_schema(schema, spec), required))

    def matches(decoded: DecodedManifest) -> Sequence[bool]:
        keys = decoded.key_table(names).append_column("position", pa.array(range(len(decoded.keys)), pa.int64()))
        passing = set(keys.filter(row_filter).column("position").to_pylist())
        return _mask((hit for hit in split.among(decoded.keys) if hit in passing), len(decoded.keys))

    evaluate = manifest_evaluator(spec, schema, required, case_sensitive=True)
    # The evaluator takes some 70 microseconds a manifest; two comparisons decide most of them.
    return PartitionTest(lambda manifest: may_hold(range_of(manifest), split.keys) and evaluate(manifest), matches)


def _mask(positions: Iterable[int], length: int) -> Sequence[bool]:
    mask = [False] * length
    for position in positions:
        mask[position] = True
    return mask


def wanted_manifests(
    listed: Iterable[ManifestFile], schema: Schema, spec: PartitionSpec, split: SplitFilter
) -> Sequence[ManifestFile]:
    """Return the manifests of partitions that can hold a row that is ``split``."""
    return list(filter(partition_test(schema, spec, split).may_match, listed))


def plan(
    manifests: Manifests,
    listed: Iterable[ManifestFile],
    schema: Schema,
    spec: PartitionSpec,
    split: SplitFilter,
) -> Iterator[tuple[PartitionKey, ManifestEntry]]:
    """Yield the entries of partitions that can hold a row that is ``split``, in key order within each manifest.

    Each comes with its partition's key.

    Only a few manifests are in memory at a time (:meth:`Manifests.each_decoded`).
    """
    test = partition_test(schema, spec, split)
    for decoded in manifests.each_decoded([manifest for manifest in listed if test.may_match(manifest)]):
        hits = test.matches(decoded)
        entries = zip(decoded.keys, decoded.entries, hits, strict=True)
        yield from ((key, entry) for key, entry, hit in entries if hit)


def bounds_test(schema: Schema, expression: BooleanExpression) -> Callable[[DataFile], bool]:
    """Return a test by bounds: whether a file may hold matching rows.

    Files with equal metrics of the tested columns are tested once: most files of a table hold the same kinds of units.
    """
    if isinstance(expression, AlwaysTrue):
        return lambda _: True
    test = metrics_evaluator(schema, expression)
    ids = sorted(extract_field_ids(bind_filter(schema, expression)))
    known: dict[tuple[object, ...], bool] = {}

    def in_bounds(file: DataFile) -> bool:
        metrics = (file.record_count, *(of.get(field_id) for of in metrics_of(file) for field_id in ids))
        if metrics not in known:
            known[metrics] = test(file)
        return known[metrics]

    return in_bounds


@dataclass(frozen=True)
class ManifestRows:
    """Answers rows from manifest entries: values of ``fields``; ``positions`` has partition columns' places in keys."""

    fields: Sequence[NestedField]
    positions: dict[str, int]

    @classmethod
    def of(cls, schema: Schema, spec: PartitionSpec, columns: Iterable[str]) -> ManifestRows:
        """Create it for ``columns`` of ``schema`` under ``spec``."""
        positions = {field.name: position for position, field in enumerate(spec.fields)}
        return cls([schema.find_field(name) for name in columns], positions)

    def row(self, key: PartitionKey, data_file: DataFile) -> tuple[Any, ...] | None:
        """Return the only row of a file of the partition ``key``, or None if the manifest does not have all of it."""
        if data_file.record_count != 1:
            return None
        values: list[Any] = []
        _, nulls, _, lowest, highest = metrics_of(data_file)
        for field in self.fields:
            if field.name in self.positions:
                values.append(key[self.positions[field.name]])
            elif nulls.get(field.field_id) == 1:
                values.append(None)
            else:
                lower = lowest.get(field.field_id)
                if lower is None or lower != highest.get(field.field_id):
                    return None
                if not isinstance(field.field_type, PrimitiveType):
                    return None
                values.append(from_bytes(field.field_type, lower))
        return tuple(values)

    def table(self, rows: Sequence[tuple[Any, ...]], unit_type: type[Unit]) -> pa.Table:
        """Return answered rows as Arrow, with the types of the unit's columns."""
        none = no_rows(unit_type).select([field.name for field in self.fields])
        if not rows:
            return none
        columns = zip(*rows, strict=True)
        arrays = [pa.array(values, type_) for values, type_ in zip(columns, none.schema.types, strict=True)]
        return pa.table(arrays, schema=none.schema)
