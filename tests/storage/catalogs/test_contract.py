"""The contract of the tables component, as the file system keeps it, holds on every catalog."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

CONTRACT = Path(__file__).parents[2] / "contract"


def suite(module: str, name: str) -> Any:
    """A class of the contract, by file: the folders of tests are no packages."""
    spec = spec_from_file_location(f"contract_on_catalogs.{module}", CONTRACT / f"{module}.py")
    assert spec
    assert spec.loader
    loaded = module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, name)


class TestReadingAndWriting(suite("test_reading_and_writing", "ReadingAndWriting")):  # type: ignore[misc] # by file
    """The fixtures of this folder put the metastore on each catalog."""


class TestRequests(suite("test_requests", "ReadyRequests")):  # type: ignore[misc] # by file
    """The fixtures of this folder put the metastore on each catalog."""


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


class TestEveryComponent(suite("test_every_component", "EveryComponent")):  # type: ignore[misc] # by file
    """Views and materialized views, too."""
