"""Which engine runs which work."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from metastore.config import EngineSettings
from metastore.engines.choice import SessionEngines
from metastore.engines.engine import LocalEngine


class Other(LocalEngine):
    """An engine that stands for Spark."""


@pytest.mark.parametrize(
    ("given", "files", "size", "taken"),
    [
        ({}, 10, (1 << 30) - 1, LocalEngine),
        ({}, 10, 1 << 30, Other),
        ({}, 50_000, 0, Other),
        ({"kind": "spark"}, 10, 100, LocalEngine),
        ({"kind": "spark"}, 10, 1 << 30, Other),
        ({"kind": "local"}, 50_000, 1 << 40, LocalEngine),
        ({"spark_threshold_size": 0}, 0, 0, Other),
    ],
)
def test_a_statement_runs_on_spark_by_the_bytes_that_it_reads(
    given: dict[str, Any], files: int, size: int, taken: type[LocalEngine]
) -> None:
    """Or by the number of files; a small one runs here, even if other work must run on Spark."""
    engines = SessionEngines(EngineSettings(**given), None, lambda: Other(1), logging.getLogger())
    assert type(engines.for_statement(files, size)) is taken
    engines.close()


def test_a_statement_needs_no_spark() -> None:
    """Whatever the settings insist on; a given engine runs everything."""
    engines = SessionEngines(EngineSettings(kind="spark"), None, None, logging.getLogger())
    assert type(engines.for_statement(1 << 20, 1 << 40)) is LocalEngine
    engines.close()
    given = Other(1)
    assert SessionEngines(EngineSettings(), given, None, logging.getLogger()).for_statement(0, 0) is given
