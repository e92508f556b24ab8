"""``upgrade_format_version``: raises a table to a newer Iceberg format version; it cannot be lowered again.

Only metadata.json changes. In version 3, the next commit gives every row an ID, and deletes by position are written as
deletion vectors from then on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.typedef import TableVersion

from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.catalogs.iceberg_private import pending, upgrade
from metastore.lake.iceberg.rows.row_lineage import VERSION_OF_LINEAGE, with_lineage
from metastore.lake.iceberg.snapshots.contention import until_won
from metastore.procedures.files.guards import require_foreign, require_written_version
from metastore.procedures.framework.declaration import Integer, procedure
from metastore.procedures.framework.model import CallContext, columns

_RESULT: Final = columns(previous_version=pa.int32(), current_version=pa.int32(), message=pa.string())

_NEWEST: Final = VERSION_OF_LINEAGE

LOST_READERS: Final[Mapping[int, str]] = {
    2: "readers of format version 1 only, such as Iceberg for Java before 0.12, cannot read it",
    3: (
        "engines on Iceberg for Java before 1.10 (older releases of Spark, Flink, Trino, Presto, Hive and Impala) and "
        "Apache Drill cannot read it; PyIceberg 0.12 reads it, and does not write it"
    ),
}
"""Well-known engines that can no longer read a table after the upgrade to this version."""


@procedure(result=_RESULT)
def upgrade_format_version(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    format_version: Integer = _NEWEST,
    dry_run: bool = False,
) -> Mapping[str, Any]:
    """Raises a table to a newer format version of Iceberg; the message names engines that can no longer read it."""
    if format_version not in LOST_READERS:
        raise InvalidRequestError(f"format_version is 2 or 3, not {format_version}: this package writes no other")
    target = context.table(schema, table_name)
    require_foreign(target, "its format version is that of the metastore, which Apache Drill reads")

    def attempt(table: Table) -> Mapping[str, Any]:
        """Raise the version, or say why nothing changes. InvalidRequestError for a lower one or an unfit schema."""
        present = table.metadata.format_version
        if format_version < present:
            raise InvalidRequestError(f"{target} has format version {present}, which cannot be lowered")
        require_written_version(table, target)
        if format_version == present:
            message = f"nothing to change: {target} has format version {present} already"
            return {"previous_version": present, "current_version": present, "message": message}
        if format_version == _NEWEST:
            with_lineage(table.schema())
        transaction = table.transaction()
        upgrade(transaction, cast("TableVersion", format_version))
        lost = f"it cannot be lowered again; {LOST_READERS[format_version]}"
        if dry_run:
            message = f"dry run: nothing was changed; after the call, {lost}"
            return {"previous_version": present, "current_version": present, "message": message}
        requirements, updates = pending(transaction)
        target.commit(table, requirements, updates)
        return {"previous_version": present, "current_version": format_version, "message": lost}

    return until_won(target, context.settings.iceberg.commit.timeout, attempt)
