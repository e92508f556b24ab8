"""Sorts any number of rows within bounded memory: splits them into buckets by key range, and sorts each bucket.

Rows that fit the budget are sorted at once. Otherwise they are distributed to buckets, which are temporary Arrow files.
The borders of the buckets are keys in a sample, the first rows. A bucket that is still too large is split again. Rows
with equal keys may come in any order.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform

from metastore.lake.writes.job import AlongCurve, SortKey
from metastore.lake.writes.space_curves import Curve
from metastore.lake.writes.transforms import apply_transform, column

Direction = tuple[str, Literal["ascending", "descending"]]

BUDGET: Final = 256 << 20
"""Bytes of Arrow data that are sorted at once."""

_BUCKETS: Final = 16
_OUT_ROWS: Final = 1 << 16


_NONE: Final[Mapping[AlongCurve, Curve]] = {}


class Order:
    """An order of rows of ``schema`` by ``keys``: sorts rows, and computes the values of the keys."""

    def __init__(
        self, schema: Schema, keys: Sequence[SortKey | AlongCurve], curves: Mapping[AlongCurve, Curve] = _NONE
    ) -> None:
        self._schema = schema
        self._keys = tuple(keys)
        self._curves = curves

    def fit(self, sample: pa.Table) -> Order:
        """Returns this order with curves for rows like those of ``sample``; :meth:`ranks` needs them."""
        if self._curves:
            return self
        wanted = [key for key in self._keys if isinstance(key, AlongCurve)]
        curves = {key: Curve.through(self._columns_of(key, sample), key.kind) for key in wanted}
        return Order(self._schema, self._keys, curves)

    def _columns_of(self, key: AlongCurve, rows: pa.RecordBatch | pa.Table) -> list[pa.Table]:
        ascending = [Order(self._schema, [SortKey(each, IdentityTransform(), False, False)]) for each in key.source_ids]
        return [order.ranks(rows)[0] for order in ascending]

    def _values(self, key: SortKey, rows: pa.RecordBatch | pa.Table) -> Any:
        kind = self._schema.find_type(key.source_id)
        return apply_transform(key.transform, kind, column(self._schema, key.source_id, rows))

    def ranks(self, rows: pa.RecordBatch | pa.Table) -> tuple[pa.Table, list[Direction]]:
        """Returns columns and directions that sort like the keys: nulls as they say, NaN greatest, -0.0 below 0.0."""
        columns: list[Any] = []
        directions: list[Direction] = []

        def add(column: Any, *, descending: bool) -> None:
            directions.append((f"k{len(columns)}", "descending" if descending else "ascending"))
            columns.append(column)

        for key in self._keys:
            if isinstance(key, AlongCurve):
                add(self._curves[key].places(self._columns_of(key, rows)), descending=False)
                continue
            values = self._values(key, rows)
            add(pc.is_null(values), descending=key.nulls_first)
            if pa.types.is_floating(values.type):
                add(pc.is_nan(values), descending=key.descending)
            add(values, descending=key.descending)
            if pa.types.is_floating(values.type):
                add(_is_above_minus_zero(values), descending=key.descending)
        return pa.table(columns, [name for name, _ in directions]), directions

    def sort(self, rows: pa.Table) -> pa.Table:
        """Returns the rows in order."""
        ranks, directions = self.ranks(rows)
        return rows.take(pc.sort_indices(ranks, sort_keys=directions))


def in_order(batches: Iterable[pa.RecordBatch], order: Order, budget: int = BUDGET) -> Iterator[pa.RecordBatch]:
    """Yields all rows of ``batches`` in order, with about ``budget`` bytes of them in memory."""
    source = iter(batches)
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in source:
        held.append(batch)
        size += batch.nbytes
        if size > budget:
            break
    else:
        if held:
            rows = pa.Table.from_batches(held)
            yield from order.fit(rows).sort(rows).combine_chunks().to_batches(_OUT_ROWS)
        return
    sample = pa.Table.from_batches(held)
    order = order.fit(sample)
    borders = _borders(sample, order)
    with tempfile.TemporaryDirectory(prefix="metastore-sort-") as folder:
        buckets = _Buckets(folder, borders, order)
        for batch in _chain(held, source):
            buckets.deal(batch)
        for bucket in buckets.close():
            with pa.memory_map(bucket.path) as file, pa.ipc.open_file(file) as reader:
                parts = (reader.get_batch(position) for position in range(reader.num_record_batches))
                if bucket.is_uniform:
                    yield from parts
                elif bucket.rows == buckets.rows:
                    # Splitting does not separate these rows; they are few, so sort them whatever the budget.
                    yield from in_order(parts, order, bucket.size)
                else:
                    yield from in_order(parts, order, budget)
            os.unlink(bucket.path)


def _is_above_minus_zero(numbers: Any) -> Any:
    """Returns False for -0.0 only: Arrow's sort takes it for 0.0, and it is another partition."""
    values = numbers.to_numpy(zero_copy_only=False)
    return pa.array(~(np.signbit(values) & (values == 0)))


def _chain(held: list[pa.RecordBatch], rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    held.reverse()
    while held:
        yield held.pop()
    yield from rest


def _borders(sample: pa.Table, order: Order) -> pa.Table:
    """Returns the rows, by their ranks, that split the sample into buckets of equal size."""
    ranks, directions = order.ranks(sample)
    sorted_ranks = ranks.take(pc.sort_indices(ranks, sort_keys=directions))
    picks = [sample.num_rows * number // _BUCKETS for number in range(1, _BUCKETS)]
    return sorted_ranks.take(pa.array(sorted(set(picks))))


@dataclass
class _Bucket:
    """One temporary file of rows. In a uniform bucket, all rows have equal keys."""

    path: str
    writer: Any
    rows: int = 0
    size: int = 0
    is_uniform: bool = False


class _Buckets:
    """Rows by key range: before the first border, from there to the second, and so on."""

    def __init__(self, folder: str, borders: pa.Table, order: Order) -> None:
        self.rows = 0
        self._folder = folder
        self._borders = borders
        self._order = order
        self._buckets: dict[int, _Bucket] = {}

    def deal(self, batch: pa.RecordBatch) -> None:
        """Put each row of the batch into its bucket."""
        ranks, directions = self._order.ranks(batch)
        borders = self._borders.num_rows
        # Rows and borders are sorted together; the bucket of a row is the number of borders before it. Sorting is not
        # stable, so a row equal to a border may fall on either side of it, which does not matter.
        together = pa.concat_tables([self._borders.cast(ranks.schema), ranks])
        indices = pc.sort_indices(together, sort_keys=directions).to_numpy()
        passed = np.cumsum(indices < borders)
        rows = indices >= borders
        numbers, members = passed[rows], indices[rows] - borders
        for number in np.unique(numbers):
            self._write(int(number), batch.take(pa.array(members[numbers == number])))
        self.rows += batch.num_rows

    def close(self) -> list[_Bucket]:
        """Close the files. Returns the buckets in order."""
        borders = self._borders.to_pylist()
        for number, bucket in self._buckets.items():
            bucket.writer.close()
            # Rows between two equal borders are equal to both.
            bucket.is_uniform = 0 < number < len(borders) and borders[number - 1] == borders[number]
        return [bucket for _, bucket in sorted(self._buckets.items())]

    def _write(self, number: int, batch: pa.RecordBatch) -> None:
        if number not in self._buckets:
            path = os.path.join(self._folder, f"{number}.arrow")
            self._buckets[number] = _Bucket(path, pa.ipc.new_file(path, batch.schema))
        bucket = self._buckets[number]
        bucket.writer.write_batch(batch)
        bucket.rows += batch.num_rows
        bucket.size += batch.nbytes
