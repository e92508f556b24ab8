"""Which tests run, and in which order.

Tests that need more than Python and Java, or minutes, are run on request: ``--services hdfs,postgres`` and so on.

They are left out otherwise, not skipped: `make test` passes on a machine with Python, Java and make. Asked for without
the service being there, they fail with the reason.
"""

from __future__ import annotations

import pytest

ON_REQUEST = frozenset(
    {
        *("azure", "drill", "gcs", "glue", "hdfs", "iceberg", "postgres", "rest", "trino"),
        *("benchmarks", "browser", "clusters", "corpus", "exhaustive", "pipelines", "s3a", "versions"),
    }
)
_LONG = ("spark", "integration", "slow", *sorted(ON_REQUEST))
"""Marks of tests that start a session, processes or a service."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option."""
    parser.addoption("--services", default="", help="also run the tests with these marks, with commas between")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of services that were not asked for, and begin with files that have long ones.

    Where processes share the files, none is then left with a long one when the others are done.
    """
    asked = {name for name in config.getoption("--services").split(",") if name}
    if unknown := asked - ON_REQUEST:
        raise pytest.UsageError(f"--services knows {', '.join(sorted(ON_REQUEST))}, not {', '.join(sorted(unknown))}")
    left_out = [item for item in items if any(item.get_closest_marker(name) for name in ON_REQUEST - asked)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    long = {item.path for item in items if any(map(item.get_closest_marker, _LONG))}
    items.sort(key=lambda item: item.path not in long)
