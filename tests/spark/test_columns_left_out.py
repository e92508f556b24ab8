"""A table with variants in Spark: every door reads the other columns, and refuses a variant by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.variant_lake import readable_rows, table_with_variants

from metastore.errors import InvalidRequestError
from metastore.spark import read_table, select
from metastore.spark.source_options import SETTINGS, settings_option

pytestmark = pytest.mark.spark


@pytest.mark.exhaustive
def test_every_door_reads_the_other_columns(spark: SparkSession, tmp_path: Path) -> None:
    """read_table, the data source, and select; with conditions on the other columns."""
    whole = readable_rows().to_pylist()
    with table_with_variants(tmp_path) as ms:
        ms.analyze("p.db.t")
        source = spark.read.format("metastore").option(SETTINGS, settings_option(ms.settings))
        frames = [read_table(spark, ms, "p.db.t"), source.load("p.db.t"), select(spark, ms, "SELECT * FROM p.db.t")]
        for frame in frames:
            found = frame.toArrow().sort_by("id").to_pylist()
            assert found == whole
        assert read_table(spark, ms, "p.db.t", "id > 7 AND nothing IS NULL").count() == 2
        with pytest.raises(InvalidRequestError, match="there is no column v .*here: it is of type variant"):
            read_table(spark, ms, "p.db.t", "v IS NULL")
        with pytest.raises(InvalidRequestError, match="v"):
            read_table(spark, ms, "p.db.t", columns=["v"])
        with pytest.raises(InvalidRequestError, match="v"):
            select(spark, ms, "SELECT v FROM p.db.t")
