"""A directory to write files of every format into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.lake_folder import Lake


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty table directory."""
    return Lake(tmp_path / "lake")


@pytest.fixture(scope="session")
def new_lake() -> Callable[[Path], Lake]:
    """Make an empty table directory at a path."""
    return Lake
