"""``replaceWhere`` on FLOAT columns: Spark compares them as DOUBLE, and bounds of files are read in the same way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from metastore.config.settings import Settings
from metastore.session import Session, connect
from metastore.spark import register_source
from metastore.spark.source_options import SETTINGS, settings_option

pytestmark = pytest.mark.spark


@pytest.fixture
def ms(tmp_path: Path) -> Iterator[Session]:
    """A session with the empty table ``lake.db.t``, which keeps changed rows beside old files."""
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"{tmp_path}/wh"}
    given = {"iceberg.location.base_path": f"{tmp_path}/md", "catalogs.lake": lake}
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as opened:
        opened.sql("CREATE SCHEMA lake.db")
        opened.sql("CREATE TABLE lake.db.t (id BIGINT, f FLOAT, s STRUCT(f FLOAT))")
        yield opened


@pytest.mark.parametrize(
    ("condition", "needed"),
    [
        ("f < 0.5", [0]),
        ("F BETWEEN 10.1 AND 10.3D OR f = 20.1F", [1, 2]),
        ("f IN (10.1, 10)", [1]),
        ("NOT (s.f >= 10) AND f IS NOT NULL", [0]),
        ("f > 15", [2]),
        ("f = 0.1D", [0]),
        ("f < 10.1", [0, 1]),
    ],
)
def test_files_without_such_rows_are_not_opened(
    spark: SparkSession, ms: Session, tmp_path: Path, condition: str, needed: list[int]
) -> None:
    """They are away while the write runs. The new rows are the old ones, as plain Spark finds them: none is lost."""
    register_source(spark)
    names = "id LONG, f FLOAT, s STRUCT<f: FLOAT>"
    rows = [
        (10 * file + each, 10 * file + each / 10, (10 * file + each / 10,)) for file in range(3) for each in range(4)
    ]
    files: list[Path] = []

    def save(frame: DataFrame, mode: str, **options: str) -> None:
        writer = frame.coalesce(1).write.format("metastore").mode(mode)
        writer.options(**{SETTINGS: settings_option(ms.settings), **options}).save("lake.db.t")

    for first in range(0, 12, 4):
        save(spark.createDataFrame(rows[first : first + 4], names), "append")
        files += set((tmp_path / "wh").rglob("*.parquet")) - set(files)
    others = [path for place, path in enumerate(files) if place not in needed]
    for path in others:
        path.rename(path.with_suffix(".away"))
    save(spark.createDataFrame(rows, names).where(condition), "overwrite", replaceWhere=condition)
    for path in others:
        path.with_suffix(".away").rename(path)
    plain = spark.createDataFrame(rows, names).toArrow().to_pylist()
    assert sorted(map(repr, ms.sql("SELECT id, f, s FROM lake.db.t").to_pylist())) == sorted(map(repr, plain))
