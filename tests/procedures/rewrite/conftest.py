"""A lake for rewrites: tables with many small files, delete files made by hand, rows read by an engine not ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from support import delete_files
from support.rewriting_lake import Lake

from metastore.config.settings import Settings
from metastore.engines.engine import LocalEngine
from metastore.session import connect


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """An empty lake on the local engine, with tasks in this process."""
    with LocalEngine(1) as engine:
        yield from lake_in(tmp_path, engine)


@pytest.fixture
def open_lake(tmp_path: Path) -> Iterator[Callable[[Any], Lake]]:
    """Open an empty lake with an engine of the test."""
    opened: list[Iterator[Lake]] = []

    def open_(engine: Any) -> Lake:
        opened.append(lake_in(tmp_path, engine))
        return next(opened[-1])

    yield open_
    for each in opened:
        next(each, None)


@pytest.fixture(scope="session")
def fresh_lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Lake]]:
    """Make an empty lake, as often as a property test has an example."""
    opened: list[Iterator[Lake]] = []
    with LocalEngine(1) as engine:

        def make() -> Lake:
            while opened:
                next(opened.pop(), None)
            opened.append(lake_in(tmp_path_factory.mktemp("lake"), engine))
            return next(opened[-1])

        yield make
        while opened:
            next(opened.pop(), None)


def lake_in(folder: Path, engine: Any) -> Iterator[Lake]:
    """One lake in ``folder``, closed when the generator goes on."""
    uri = {"type": "sql", "uri": f"sqlite:///{folder}/lake.db", "warehouse": f"file://{folder}/lake"}
    location = {"base_path": str(folder), "relative_path": "metastore"}
    settings = Settings.from_mapping(
        {"drill.metastore.iceberg.location": location, "drill.metastore.catalogs.lake": uri}, environ={}
    )
    with connect(settings, engine=engine) as session:
        lake = Lake(folder, session)
        lake.catalog.create_namespace("default")
        yield lake


@pytest.fixture(scope="session")
def delete_positions() -> Callable[..., DataFile]:
    """Commit a delete file of format version 2 for ``{path: positions}``, as merge-on-read engines do."""
    commit: Callable[..., DataFile] = delete_files.delete_positions
    return commit


@pytest.fixture
def delete_where_equal() -> Callable[..., DataFile]:
    """Commit an entry of an equality delete file; the file itself need not exist, for nobody here may read it."""
    commit: Callable[..., DataFile] = delete_files.delete_where_equal
    return commit


@pytest.fixture
def by_duckdb() -> Callable[[Table], list[tuple[Any, ...]]]:
    """All rows of a table without delete files, sorted, read by DuckDB from the files that the manifests name."""

    def read(table: Table) -> list[tuple[Any, ...]]:
        paths = [task.file.file_path.removeprefix("file://") for task in table.scan().plan_files()]
        if not paths:
            return []
        with duckdb.connect() as connection:
            query = "SELECT * FROM read_parquet($1, union_by_name=true, hive_partitioning=false)"
            found = connection.sql(query, params=[paths]).to_arrow_table()
        return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)

    return read
