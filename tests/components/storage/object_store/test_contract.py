"""The contract of the tables component, as the local disk keeps it, holds on object stores."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

CONTRACT = Path(__file__).parents[3] / "contract"


def suite(module: str, name: str) -> Any:
    """A class of the contract, by file: the folders of tests are no packages."""
    spec = spec_from_file_location(f"contract_on_object_stores.{module}", CONTRACT / f"{module}.py")
    assert spec
    assert spec.loader
    loaded = module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, name)


@pytest.mark.parametrize("kind", ["s3"], indirect=True)
class TestReadingAndWriting(suite("test_reading_and_writing", "ReadingAndWriting")):  # type: ignore[misc] # by file
    """The fixtures of this folder put the metastore on S3; the others differ from it in commits, not in this."""


class TestRequests(suite("test_requests", "ReadyRequests")):  # type: ignore[misc] # by file
    """The fixtures of this folder put the metastore on each store."""


class TestTransactions(suite("test_transactions", "Transactions")):  # type: ignore[misc] # by file
    """The fixtures of this folder put the metastore on each store."""


class TestVersions(suite("test_versions", "Versions")):  # type: ignore[misc] # by file
    """The fixtures of this folder put the metastore on each store."""
