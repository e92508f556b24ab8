"""A few columns of metadata files: what is passed over does not shift what is read."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pyarrow as pa
import pytest
from pyiceberg.manifest import ManifestContent
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DecimalType, LongType, NestedField
from support.catalog_lake import Lake
from support.snapshots import current, ints

from metastore.procedures.expire.expire import expire_snapshots
from metastore.procedures.files.avro_columns import read_columns
from metastore.procedures.orphans.remove_orphans import remove_orphan_files

PRICES = ["0.00", "-0.01", "1.28", "9999999.99", "-9999999.99"]


@pytest.fixture(params=[9, 10, 19, 38])
def priced(lake: Lake, request: pytest.FixtureRequest) -> Table:
    """A table partitioned by decimals of so many digits: a row a price, and a null."""
    precision = request.param
    schema = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "price", DecimalType(precision, 2), required=False),
    )
    table = lake.table(schema=schema, partition_spec=PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "p")))
    prices = pa.array([*map(Decimal, PRICES), None], pa.decimal128(precision, 2))
    table.append(pa.table({"id": list(range(len(prices))), "price": prices}))
    return table.refresh()


def test_paths_and_sizes_beside_a_decimal_partition(priced: Table) -> None:
    """They are those that PyIceberg reads, whatever bytes the decimals have."""
    [manifest] = current(priced).manifests(priced.io)
    assert manifest.content == ManifestContent.DATA
    files = [entry.data_file for entry in manifest.fetch_manifest_entry(priced.io)]
    with priced.io.new_input(manifest.manifest_path).open() as stream:
        found = list(read_columns(manifest.manifest_path, stream.read(), (100, 104, 103)))
    assert found == [(file.file_path, file.file_size_in_bytes, file.record_count) for file in files]


def test_a_table_partitioned_by_decimals_is_kept_in_order(lake: Lake, priced: Table) -> None:
    """Old snapshots expire and orphans go; every row stays."""
    priced.delete("id = 0")
    [row] = lake.call(expire_snapshots, older_than=lake.now + timedelta(days=1))
    assert (row["expired_snapshots_count"], row["deleted_data_files_count"]) == (1, 1)
    stray = f"{priced.metadata.location}/data/stray.parquet"
    with priced.io.new_output(stray).create() as stream:
        stream.write(b"x")
    lake.later(days=4)
    assert [row["orphan_file_location"] for row in lake.call(remove_orphan_files)] == [stray.removeprefix("file://")]
    assert ints(priced.refresh().scan().to_arrow()["id"]) == [1, 2, 3, 4, 5]
