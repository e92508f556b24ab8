"""``set_table_property`` sets one property of a table of a catalog; some keys are refused, however they are set.

Place in the flow: the procedure and ``ALTER TABLE … SET PROPERTIES`` both call :func:`require_settable`. So only the
metastore's own procedures write the properties in which it keeps its state.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from pyiceberg.table import Table
from pyiceberg.table.update import AssertTableUUID, SetPropertiesUpdate

from metastore.errors import InvalidRequestError
from metastore.lake.iceberg.catalogs.own_properties import OWN_PROPERTIES
from metastore.lake.iceberg.rows.row_mode_values import require_row_mode_value
from metastore.lake.iceberg.snapshots.contention import until_won
from metastore.procedures.files.guards import require_foreign, require_unpublished
from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns
from metastore.redaction import redact_value

_RESERVED: Final = frozenset(
    {
        "format-version",
        "uuid",
        "location",
        "snapshot-count",
        "current-snapshot-summary",
        "current-snapshot-id",
        "current-snapshot-timestamp-ms",
        "current-schema",
        "default-partition-spec",
        "default-sort-order",
    }
)
"""Names that engines show or accept as properties, but that metadata stores elsewhere."""

_OF_TRINO: Final[Mapping[str, str]] = {
    "format": "write.format.default",
    "format_version": "format-version (by ALTER TABLE)",
    "compression_codec": "write.parquet.compression-codec",
    "max_commit_retry": "commit.retry.num-retries",
    "object_store_layout_enabled": "write.object-storage.enabled",
    "data_location": "write.data.path",
    "delete_after_commit_enabled": "write.metadata.delete-after-commit.enabled",
    "max_previous_versions": "write.metadata.previous-versions-max",
    "orc_bloom_filter_columns": "write.orc.bloom.filter.columns",
    "parquet_bloom_filter_columns": "write.parquet.bloom-filter-enabled.column.<name>",
    "sorted_by": "the table's sort order, which is no property",
}
"""Trino's names for properties of Iceberg; stored under these names, they would have no effect."""

_RESULT: Final = columns(
    key=pa.string(),
    previous_value=pa.string(),
    value=pa.string(),
)


def require_settable(key: str) -> None:
    """Raise InvalidRequestError for a key that Iceberg or the metastore sets itself, or that no reader would use."""
    if not key or key in _RESERVED or key.startswith(OWN_PROPERTIES):
        raise InvalidRequestError(f"{key!r} is not a property that can be set")
    if key in _OF_TRINO:
        raise InvalidRequestError(f"{key!r} is Trino's name, and would have no effect: set {_OF_TRINO[key]}")


@procedure(result=_RESULT)
def set_table_property(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    key: str,
    value: str,
) -> Mapping[str, Any]:
    """Sets one property of a table; the result masks secrets."""
    require_settable(key)
    require_row_mode_value(key, value)
    target = context.table(schema, table_name)
    require_foreign(
        target,
        "its properties are those of drill.metastore.iceberg.components, and would be set back by the next write",
    )

    def attempt(table: Table) -> Mapping[str, Any]:
        require_unpublished(table, target)
        before = table.metadata.properties.get(key)
        if before != value:
            same = AssertTableUUID(uuid=table.metadata.table_uuid)
            target.commit(table, [same], [SetPropertiesUpdate(updates={key: value})])
        return {"key": key, "previous_value": redact_value(key, before), "value": redact_value(key, value)}

    return until_won(target, context.settings.iceberg.commit.timeout, attempt)
