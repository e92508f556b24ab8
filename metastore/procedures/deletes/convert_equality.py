"""``convert_equality_deletes``: equality deletes become deletion vectors or position deletes; no data file is written.

An equality delete makes every reader compare each row. This procedure reads each affected data file once, and only the
compared columns. In format version 3, all deletes of a data file become one vector. In version 2, the positions of the
rows that equality deletes remove are written to position delete files.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from pyiceberg.manifest import DataFileContent
from pyiceberg.table.metadata import TableMetadata

from metastore.errors import ProcedureError
from metastore.lake.iceberg.rows.delete_index import DeleteFile, Deletes, unpartitioned_specs
from metastore.lake.iceberg.rows.live_files import LiveFiles
from metastore.lake.iceberg.rows.row_lineage import VERSION_OF_LINEAGE
from metastore.lake.writes.pieces import Slice
from metastore.procedures.deletes.conversion import ConversionPlan, convert, result_row
from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns

_RESULT: Final = columns(
    rewritten_delete_files_count=pa.int32(),
    added_delete_files_count=pa.int32(),
    rewritten_bytes_count=pa.int64(),
    added_bytes_count=pa.int64(),
    deleted_rows_count=pa.int64(),
    message=pa.string(),
)


@procedure(result=_RESULT)
def convert_equality_deletes(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    dry_run: bool = False,
) -> Mapping[str, Any]:
    """Turns equality deletes into deletion vectors or position deletes, without writing data files."""
    target = context.table(schema, table_name)

    def plan(files: LiveFiles, metadata: TableMetadata) -> ConversionPlan:
        if metadata.format_version == 1:
            raise ProcedureError(f"{target} has format version 1, which has no delete files")
        return equality_plan(files, metadata)

    done = convert(context, target, plan, dry_run=dry_run)
    return result_row(done, {"deleted_rows_count": done.rows})


def equality_plan(files: LiveFiles, metadata: TableMetadata) -> ConversionPlan:
    """Returns the plan: removes all equality deletes, and reads each data file that one of them may apply to."""
    if not files.equality_deletes:
        return ConversionPlan(message="nothing to change: the table has no equality deletes")
    index = Deletes(files.deletes, unpartitioned_specs(metadata))
    vectors = metadata.format_version >= VERSION_OF_LINEAGE
    groups: dict[str, list[Slice]] = {}
    for data in files.data:
        near = index.of(data)
        if any(each.file.content == DataFileContent.EQUALITY_DELETES for each in near) and data.file.record_count:
            cut = Slice.whole(data, sorted({DeleteFile.of(each.file) for each in near}))
            groups.setdefault("" if vectors else f"{cut.spec_id} {cut.partition}", []).append(cut)
    return ConversionPlan(tuple(map(tuple, groups.values())), files.equality_deletes)
