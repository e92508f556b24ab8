"""``unpublish_table`` ends a publication: the entry goes, and every file stays, also those of the table's metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa

from metastore.errors import InvalidRequestError, ProcedureError
from metastore.procedures.files.guards import PUBLISHED
from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns
from metastore.procedures.publishing.publish import target_named

_RESULT: Final = columns(table=pa.string(), published_as=pa.string(), metadata_location=pa.string())


@procedure(result=_RESULT)
def unpublish_table(context: CallContext, *, table: str, dry_run: bool = False) -> Mapping[str, Any]:
    """Removes a published table from its catalog; no file is deleted."""
    target = target_named(context, table)
    loaded = target.load()
    source = loaded.metadata.properties.get(PUBLISHED)
    if source is None:
        raise ProcedureError(f"{target} is no published table: DROP TABLE removes it")
    if target.source.settings.type == "filesystem":
        raise InvalidRequestError(
            f"{target.source} has no entries to remove: a table there is its folder. Remove {loaded.location()}, which "
            "holds metadata alone"
        )
    if not dry_run:
        target.drop_entry()
    return {"table": source, "published_as": str(target), "metadata_location": loaded.metadata_location}
