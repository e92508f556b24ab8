"""Procedures on the Iceberg tables of every catalog, and the public names for packages that add their own."""

from metastore.procedures.framework.arguments import Argument
from metastore.procedures.framework.declaration import Integer, procedure
from metastore.procedures.framework.model import (
    BaseProcedure,
    CallContext,
    DistributedProcedure,
    DistributedProcedureType,
    Plan,
    Procedure,
    TableDataRewriteDistributedProcedure,
    TableImportDistributedProcedure,
    columns,
)
from metastore.procedures.framework.registry import Provider

__all__ = [
    "Argument",
    "BaseProcedure",
    "CallContext",
    "DistributedProcedure",
    "DistributedProcedureType",
    "Integer",
    "Plan",
    "Procedure",
    "Provider",
    "TableDataRewriteDistributedProcedure",
    "TableImportDistributedProcedure",
    "columns",
    "procedure",
]
