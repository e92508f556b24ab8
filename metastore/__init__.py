"""Apache Drill's Iceberg metastore for Python and Spark: the public names, and nothing else."""

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

__all__ = [
    "ConfigError",
    "ConflictError",
    "EngineError",
    "FormatError",
    "InvalidRequestError",
    "MetadataInfo",
    "MetadataType",
    "MetastoreError",
    "NotFoundError",
    "OutcomeUnknownError",
    "ProcedureError",
    "StorageError",
    "TableInfo",
    "TableMetadataUnit",
]
