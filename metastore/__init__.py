"""Apache Drill's Iceberg metastore for Python and Spark: the public names, and nothing else.

What opens a metastore is loaded when it is first asked for: a program that only wants a name waits for no Arrow.
"""

import typing as _typing
from importlib import import_module as _import_module

from metastore.errors import (
    ConfigError,
    ConflictError,
    EngineError,
    FormatError,
    InvalidRequestError,
    MetastoreError,
    NotFoundError,
    OutcomeUnknownError,
    ProcedureError,
    StorageError,
)
from metastore.model.identity import MetadataInfo, TableInfo
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

if _typing.TYPE_CHECKING:
    from metastore.metastore import Metastore as Metastore
    from metastore.metastore import MetastoreRegistry as MetastoreRegistry
    from metastore.session import Session as Session
    from metastore.session import connect as connect

_LOADED_ON_USE = {
    "Metastore": "metastore.metastore",
    "MetastoreRegistry": "metastore.metastore",
    "Session": "metastore.session",
    "connect": "metastore.session",
}


def __getattr__(name: str) -> object:
    if name not in _LOADED_ON_USE:
        raise AttributeError(f"module 'metastore' has no attribute {name!r}")
    value: object = getattr(_import_module(_LOADED_ON_USE[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


__all__ = [
    "ConfigError",
    "ConflictError",
    "EngineError",
    "FormatError",
    "InvalidRequestError",
    "MetadataInfo",
    "MetadataType",
    "Metastore",
    "MetastoreError",
    "MetastoreRegistry",
    "NotFoundError",
    "OutcomeUnknownError",
    "ProcedureError",
    "Session",
    "StorageError",
    "TableInfo",
    "TableMetadataUnit",
    "connect",
]
