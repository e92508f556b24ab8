"""The one door to libraries that a scan can do without: DuckDB, Polars."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from metastore.distribution import install_command
from metastore.errors import InvalidRequestError


def library(module: str, extra: str) -> Any:
    """The module of an optional library. InvalidRequestError, naming the ``extra`` that brings it, if it is missing."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise InvalidRequestError(f"this needs {module}: {install_command(extra)}") from error
