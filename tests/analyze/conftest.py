"""A lake to write Parquet files into, and ways to look at the units that ANALYZE makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.lake_folder import Lake
from support.unit_rows import Units

from metastore.analyze.tasks.footers import FooterChunk, read_footers
from metastore.engines.engine import LocalEngine
from metastore.model.identity import TableInfo
from metastore.model.mapping.arrow import plain_arrow_schema
from metastore.model.table_unit import TableMetadataUnit
from metastore.sources.listing import list_files

UNIT_SCHEMA = plain_arrow_schema(TableMetadataUnit)


@pytest.fixture(scope="session")
def as_units(as_rows: Callable[[pa.Table], list[str]]) -> Callable[[pa.Table], list[str]]:
    """Units in a form that compares by content, but for the table's leaders: these depend on what it went through."""

    def without_leaders(text: str | None) -> str | None:
        kept = json.loads(text or "{}")
        kept.get("metastore.segments", {}).pop("leaders", None)
        return json.dumps(kept, sort_keys=True)

    def rows(units: pa.Table) -> list[str]:
        at = units.schema.get_field_index("additionalMetadata")
        texts = [without_leaders(text) for text in units["additionalMetadata"].to_pylist()]
        return as_rows(units.set_column(at, "additionalMetadata", pa.array(texts, pa.string())))

    return rows


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty table directory."""
    return Lake(tmp_path / "lake")


@pytest.fixture(scope="session")
def new_lake() -> Callable[[Path], Lake]:
    """Make an empty table directory at a path."""
    return Lake


@pytest.fixture(scope="session")
def units_of() -> Callable[[pa.Table], Units]:
    """Look at unit rows."""
    return Units


@pytest.fixture
def footers() -> Callable[..., Units]:
    """What the task returns for all files of a lake, read in one chunk."""

    def read(lake: Lake, location: str = "", **options: Any) -> Units:
        location = location or str(lake.root)
        files = list_files(location).files
        chunk = FooterChunk(TableInfo("dfs", "tmp", "t"), location, UNIT_SCHEMA, files, **options)
        return Units(pa.Table.from_batches(read_footers(chunk), UNIT_SCHEMA))

    return read


@pytest.fixture(scope="session")
def engine() -> Iterator[LocalEngine]:
    """An engine without helpers: what they do is the engine's own test."""
    with LocalEngine(1) as engine:
        yield engine
