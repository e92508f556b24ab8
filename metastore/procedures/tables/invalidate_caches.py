"""``invalidate_manifest_file_cache`` and ``invalidate_statistics_file_cache``: Presto's calls, as what they mean here.

Files of Iceberg never change, so what is kept of them is never stale. These calls give memory back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from pyiceberg.manifest import clear_manifest_cache

from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns

_RESULT: Final = columns(message=pa.string())


@procedure(result=_RESULT)
def invalidate_manifest_file_cache(context: CallContext) -> Mapping[str, Any]:  # noqa: ARG001 - every procedure has it
    """Forgets the manifest lists that this process keeps in memory."""
    clear_manifest_cache()
    return {"message": "manifest lists are read again when they are needed"}


@procedure(result=_RESULT)
def invalidate_statistics_file_cache(context: CallContext) -> Mapping[str, Any]:  # noqa: ARG001 - every procedure has it
    """Does nothing: files of statistics are read whenever they are needed."""
    return {"message": "nothing to forget: files of statistics are not kept in memory"}
