"""A statement that changes a table names a plugin: the error says what the plugin is, and which ways there are."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from metastore.config.settings import Settings
from metastore.errors import MetastoreError, NotFoundError
from metastore.session import Session, connect

STATEMENTS = (
    "INSERT INTO {} VALUES (2)",
    "INSERT OVERWRITE {} VALUES (2)",
    "UPDATE {} SET id = 3",
    "DELETE FROM {}",
    "MERGE INTO {0} USING {0} s ON true WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE {}",
    "ALTER TABLE {} ADD COLUMN x INT",
    "DROP TABLE {}",
    "DROP TABLE IF EXISTS {}",
    "CREATE TABLE {} AS SELECT 1 AS a",
)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """An analyzed table of one file, a catalog, and a plugin that reads the catalog."""
    folder = tmp_path_factory.mktemp("plugins")
    (folder / "lake/t").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), folder / "lake/t/a.parquet")
    given = {
        "iceberg.location.base_path": f"{folder}/metastore",
        "storage": {
            "dfs.workspaces.my.location": f"{folder}/lake",
            "ice": {"type": "iceberg", "catalog": "prod"},
        },
        "catalogs.prod": {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"{folder}/w"},
    }
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as opened:
        opened.analyze("dfs.my.t")
        yield opened


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_table_of_files_is_read_only_and_the_ways_are_named(session: Session, statement: str) -> None:
    """The table stays as it is. No text says that something does not exist: the plugin does."""
    with pytest.raises(NotFoundError) as raised:
        session.sql(statement.format("dfs.my.t"))
    said = str(raised.value)
    assert "does not exist" not in said
    assert "tables of files, which are read only here" in said
    assert "CREATE VIEW" in said
    assert "CREATE TABLE prod.<schema>.<table> AS SELECT" in said
    assert session.sql("SELECT * FROM dfs.my.t").to_pylist() == [{"id": 1}]


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_plugin_over_a_catalog_names_the_catalog(session: Session, statement: str) -> None:
    """What is changed is the catalog's table."""
    with pytest.raises(MetastoreError, match=r"ice is a plugin that reads catalog prod: name the table as prod\."):
        session.sql(statement.format("ice.my.t"))
