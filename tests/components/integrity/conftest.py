"""A metastore of three versions in a folder of the test, and what stands in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.integrity_site import Site

from metastore.model.table_unit import TableMetadataUnit

MakeUnit = Callable[..., TableMetadataUnit]


@pytest.fixture
def make_site(unit: MakeUnit) -> Callable[..., Site]:
    """A filled site in a folder, with keys of its own."""

    def make(folder: Path, **keys: Any) -> Site:
        site = Site(folder, unit, keys)
        site.fill()
        return site

    return make


@pytest.fixture
def site(tmp_path: Path, make_site: Callable[..., Site]) -> Site:
    """A filled site in the folder of the test."""
    return make_site(tmp_path)
