"""The contract of the tables component, as the local disk keeps it, holds on HDFS.

All of it but the part on columns and filters, of which a store sees nothing: that one is tried on S3.
"""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

CONTRACT = Path(__file__).parents[3] / "contract"

pytestmark = pytest.mark.hdfs


def suite(module: str, name: str) -> Any:
    """A class of the contract, by file: the folders of tests are no packages."""
    spec = spec_from_file_location(f"contract_on_hdfs.{module}", CONTRACT / f"{module}.py")
    assert spec
    assert spec.loader
    loaded = module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return getattr(loaded, name)


class TestRequests(suite("test_requests", "ReadyRequests")):  # type: ignore[misc] # by file
    """The fixtures of this folder put the metastore on HDFS."""


class TestTransactions(suite("test_transactions", "Transactions")):  # type: ignore[misc] # by file
    """The fixtures of this folder put the metastore on HDFS."""


class TestVersions(suite("test_versions", "Versions")):  # type: ignore[misc] # by file
    """The fixtures of this folder put the metastore on HDFS."""
