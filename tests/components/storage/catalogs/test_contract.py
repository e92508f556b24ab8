"""The contract of the tables component, as the file system keeps it, holds on every catalog.

A catalog knows where a table's metadata is and lets it be replaced: what that concerns is tried on each. What rows are
and how they are asked for is the files' matter, which lie on the same disk: that is tried on some.
"""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

SOME = ("sqlite", pytest.param("rest", marks=[pytest.mark.integration, pytest.mark.rest]))
CONTRACT = Path(__file__).parents[3] / "contract"


def suite(module: str, name: str) -> Any:
    """A class of the contract, by file: the folders of tests are no packages."""
    spec = spec_from_file_location(f"contract_on_catalogs.{module}", CONTRACT / f"{module}.py")
    assert spec
    assert spec.loader
    loaded = module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, name)


@pytest.mark.parametrize("kind", SOME, indirect=True)
class TestReadingAndWriting(suite("test_reading_and_writing", "ReadingAndWriting")):  # type: ignore[misc] # by file
    """The fixtures of this folder put the metastore on some catalogs."""


@pytest.mark.parametrize("kind", SOME, indirect=True)
class TestRequests(suite("test_requests", "ReadyRequests")):  # type: ignore[misc] # by file
    """The fixtures of this folder put the metastore on some catalogs."""


class TestTransactions(suite("test_transactions", "Transactions")):  # type: ignore[misc] # by file
    """The fixtures of this folder put the metastore on each catalog."""


class TestVersions(suite("test_versions", "Versions")):  # type: ignore[misc] # by file
    """The fixtures of this folder put the metastore on each catalog."""


class TestProperties(suite("test_upkeep", "TestProperties")):  # type: ignore[misc] # by file
    """The fixtures of this folder put the metastore on each catalog."""


class TestSchemaEvolution(suite("test_upkeep", "TestSchemaEvolution")):  # type: ignore[misc] # by file
    """The fixtures of this folder put the metastore on each catalog."""


class TestForeignTables(suite("test_upkeep", "TestForeignTables")):  # type: ignore[misc] # by file
    """The fixtures of this folder put the metastore on each catalog."""


@pytest.mark.parametrize("kind", [*SOME, pytest.param("hive", marks=[pytest.mark.integration])], indirect=True)
class TestEveryComponent(suite("test_every_component", "EveryComponent")):  # type: ignore[misc] # by file
    """Views and materialized views, too."""
