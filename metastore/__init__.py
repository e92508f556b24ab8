"""Apache Drill's Iceberg metastore for Python and Spark: the public names, and nothing else.

The modules that open a metastore are loaded on first use. A program that needs only a name does not load Arrow.
"""

import typing as _typing
import warnings as _warnings

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
from metastore.ground import distribution as _distribution
from metastore.ground.loaded_on_use import loaded_on_use as _loaded_on_use
from metastore.model.identity import MetadataInfo, TableInfo
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

if _typing.TYPE_CHECKING:
    from metastore.components.metastore import Metastore as Metastore
    from metastore.components.metastore import MetastoreRegistry as MetastoreRegistry
    from metastore.ground.notebook import load_ipython_extension as load_ipython_extension
    from metastore.opening import open as open  # noqa: A004 - metastore.open, as gzip.open
    from metastore.opening import scan as scan
    from metastore.predicates.condition import SparkCondition as SparkCondition
    from metastore.session import Session as Session
    from metastore.session import connect as connect

__version__ = _distribution.VERSION
if _conflict := _distribution.conflict():
    _warnings.warn(_conflict, RuntimeWarning, stacklevel=2)

__getattr__, __dir__ = _loaded_on_use(
    __name__,
    {
        "Metastore": "metastore",
        "MetastoreRegistry": "metastore",
        "Session": "session",
        "SparkCondition": "predicates.condition",
        "connect": "session",
        "load_ipython_extension": "ground.notebook",
        "open": "opening",
        "scan": "opening",  # a package that can be called: it may already be here as one
    },
)

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
    "SparkCondition",
    "StorageError",
    "TableInfo",
    "TableMetadataUnit",
    "__version__",
    "connect",
    "open",
]
