"""Procedures on the Iceberg tables of every catalog, and the public names for packages that add their own.

Each name is loaded on first use: a module of this package that needs no procedure loads none.
"""

import typing as _typing

from metastore.ground.loaded_on_use import loaded_on_use as _loaded_on_use

if _typing.TYPE_CHECKING:
    from metastore.procedures.framework.arguments import Argument as Argument
    from metastore.procedures.framework.declaration import Integer as Integer
    from metastore.procedures.framework.declaration import procedure as procedure
    from metastore.procedures.framework.model import BaseProcedure as BaseProcedure
    from metastore.procedures.framework.model import CallContext as CallContext
    from metastore.procedures.framework.model import DistributedProcedure as DistributedProcedure
    from metastore.procedures.framework.model import DistributedProcedureType as DistributedProcedureType
    from metastore.procedures.framework.model import Plan as Plan
    from metastore.procedures.framework.model import Procedure as Procedure
    from metastore.procedures.framework.model import (
        TableDataRewriteDistributedProcedure as TableDataRewriteDistributedProcedure,
    )
    from metastore.procedures.framework.model import TableImportDistributedProcedure as TableImportDistributedProcedure
    from metastore.procedures.framework.model import columns as columns
    from metastore.procedures.framework.registry import Provider as Provider

__getattr__, __dir__ = _loaded_on_use(
    __name__,
    {
        "Argument": "framework.arguments",
        "BaseProcedure": "framework.model",
        "CallContext": "framework.model",
        "DistributedProcedure": "framework.model",
        "DistributedProcedureType": "framework.model",
        "Integer": "framework.declaration",
        "Plan": "framework.model",
        "Procedure": "framework.model",
        "Provider": "framework.registry",
        "TableDataRewriteDistributedProcedure": "framework.model",
        "TableImportDistributedProcedure": "framework.model",
        "columns": "framework.model",
        "procedure": "framework.declaration",
    },
)

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
