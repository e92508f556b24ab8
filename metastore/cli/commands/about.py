"""The output of ``metastore --version``: the versions in use, and the files of the configuration."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from metastore.config.loader import find_tiers
from metastore.engines.java import find_java
from metastore.errors import ConfigError, EngineError
from metastore.ground.distribution import DISTRIBUTION, VERSION

_LIBRARIES: Final = {"PyIceberg": "pyiceberg", "PyArrow": "pyarrow", "Spark": "pyspark", "DuckDB": "duckdb"}


def about(conf: Path | None) -> dict[str, str | list[str]]:
    """Returns names and versions in display order; ``configuration`` lists the files read, lowest precedence first.

    It imports nothing and starts only ``java``. If something is missing or unreadable, the text says so.
    """
    return {
        DISTRIBUTION: VERSION,
        "Python": platform.python_version(),
        **{name: _version_of(distribution) for name, distribution in _LIBRARIES.items()},
        "Java": _java(),
        "configuration": _files_of_configuration(conf),
    }


def text(entries: dict[str, str | list[str]]) -> str:
    """Returns one line for each entry, with aligned names; each configuration file has its own line."""
    width = max(map(len, entries))
    lines = []
    for name, value in entries.items():
        values = [value] if isinstance(value, str) else value
        lines += [f"{name if not row else '':<{width}}  {each}" for row, each in enumerate(values)]
    return "\n".join(lines)


def _version_of(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"


def _java() -> str:
    try:
        java = find_java()
    except EngineError:
        return "none that Spark can run on"
    return f"{java.version} at {java.home}"


def _files_of_configuration(conf: Path | None) -> list[str]:
    try:
        tiers, _ = find_tiers(conf, os.environ, None)
    except ConfigError as error:
        return [f"cannot be read: {error}"]
    return [str(tier.path) for tier in tiers if tier.path is not None] or ["none found; defaults are used"]
