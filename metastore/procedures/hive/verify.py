"""``system.verify_migration`` compares a migrated table as Hive and as Iceberg: counts, and metrics of each column."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow as pa

from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns
from metastore.procedures.hive.migration.verify import verify
from metastore.procedures.hive.service import hive_properties

_RESULT: Final = columns(
    column=pa.string(),
    ok=pa.bool_(),
    hive_rows=pa.int64(),
    iceberg_rows=pa.int64(),
    hive_nulls=pa.int64(),
    iceberg_nulls=pa.int64(),
    min=pa.string(),
    max=pa.string(),
    problem=pa.string(),
    warning=pa.string(),
)


@procedure(result=_RESULT)
def verify_migration(
    context: CallContext,
    *,
    schema_name: str,
    table_name: str,
) -> Iterator[dict[str, Any]]:
    """Compares a migrated table with its original Hive table, column by column."""
    properties = hive_properties(context)
    for check in verify(context.table(schema_name, table_name).load(), properties, context.engine):
        yield {
            "column": check.column,
            "ok": check.problem is None,
            "hive_rows": check.hive.rows,
            "iceberg_rows": check.iceberg.rows,
            "hive_nulls": check.hive.nulls,
            "iceberg_nulls": check.iceberg.nulls,
            "min": check.low,
            "max": check.high,
            "problem": check.problem,
            "warning": check.warning,
        }
