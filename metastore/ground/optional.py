"""Imports libraries that only some calls require: DuckDB, Polars, pandas."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from metastore.errors import InvalidRequestError
from metastore.ground.distribution import install_command


def library(module: str, extra: str) -> Any:
    """Returns the module of an optional library.

    Raises InvalidRequestError, naming the ``extra`` that installs it, if it is missing.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise InvalidRequestError(f"this needs {module}: {install_command(extra)}") from error
