"""A lake of Parquet files under a session that knows it: written, analyzed and changed by the tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.scan_lake import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """An empty lake."""
    made = Lake(tmp_path)
    yield made
    made.session.close()


@pytest.fixture(scope="session")
def new_lake() -> Callable[[Path], Lake]:
    """Make an empty lake in a directory."""
    return Lake
