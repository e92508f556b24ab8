"""``rewrite_position_delete_files``: merges small position delete files, in format version 3 into deletion vectors.

Positions in data files that no longer exist are dropped. In version 2, the position delete files of a partition are
merged if there are enough of them. In version 3, all position delete files are removed, and each of their data files
gets one vector.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
from pyiceberg.table.metadata import TableMetadata

from metastore.errors import InvalidRequestError
from metastore.iceberg.delete_index import Delete, Deletes, unpartitioned_specs
from metastore.iceberg.live_files import LiveFile, LiveFiles
from metastore.iceberg.row_lineage import VERSION_OF_LINEAGE
from metastore.procedures.deletes.conversion import ConversionPlan, convert, is_vector, result_row
from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns
from metastore.procedures.rewrite.groups import Slice

_MIN_INPUT_FILES: Final = "min-input-files"
_REWRITE_ALL: Final = "rewrite-all"
_DEFAULT_MIN: Final = 5

_RESULT: Final = columns(
    rewritten_delete_files_count=pa.int32(),
    added_delete_files_count=pa.int32(),
    rewritten_bytes_count=pa.int64(),
    added_bytes_count=pa.int64(),
    message=pa.string(),
)


@procedure(result=_RESULT)
def rewrite_position_delete_files(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    options: dict[str, str] | None = None,
    dry_run: bool = False,
) -> Mapping[str, Any]:
    """Merges position delete files, in version 3 into vectors; drops positions in data files that no longer exist."""
    least = _least(options or {})
    target = context.table(schema, table_name)

    def plan(files: LiveFiles, metadata: TableMetadata) -> ConversionPlan:
        return position_plan(files, metadata, least)

    return result_row(convert(context, target, plan, dry_run=dry_run), {})


def position_plan(files: LiveFiles, metadata: TableMetadata, least: int) -> ConversionPlan:
    """Choose partitions with at least ``least`` position delete files, and files that apply to nothing.

    In version 3, choose every position delete file that is not a vector, and every vector whose data file is gone.
    """
    index = Deletes(files.position_deletes, unpartitioned_specs(metadata))
    near = {data: index.of(data) for data in files.data}
    used = {delete.place for deletes in near.values() for delete in deletes}
    chosen = {live.place for live in files.position_deletes if live.place not in used}
    if metadata.format_version >= VERSION_OF_LINEAGE:
        chosen |= {live.place for live in files.position_deletes if not is_vector(live)}
    else:
        groups: dict[tuple[object, ...], list[LiveFile]] = defaultdict(list)
        for live in files.position_deletes:
            groups[(live.file.spec_id, str(live.file.partition))].append(live)
        chosen |= {live.place for group in groups.values() if len(group) >= least for live in group}
    if not chosen:
        return ConversionPlan(
            message=f"nothing to change: no partition has {least} position delete files; {_REWRITE_ALL} takes all"
        )
    slices = []
    for data, deletes in near.items():
        if not any(delete.place in chosen for delete in deletes):
            continue
        # A vector replaces all position deletes of its data file.
        merged = deletes if metadata.format_version >= VERSION_OF_LINEAGE else [d for d in deletes if d.place in chosen]
        slices.append(Slice.whole(data, sorted({Delete.of(each.file) for each in merged})))
    return ConversionPlan(tuple(slices), tuple(live for live in files.position_deletes if live.place in chosen))


def _least(options: Mapping[str, str]) -> int:
    """Returns the least number of files in a partition. Raises InvalidRequestError."""
    unknown = options.keys() - {_MIN_INPUT_FILES, _REWRITE_ALL}
    if unknown:
        raise InvalidRequestError(
            f"option {min(unknown)} is not supported; the options are {_MIN_INPUT_FILES} and {_REWRITE_ALL}"
        )
    every = options.get(_REWRITE_ALL, "false").lower()
    if every not in ("true", "false"):
        raise InvalidRequestError(f"option {_REWRITE_ALL} is true or false, not {every!r}")
    if every == "true":
        return 1
    text = options.get(_MIN_INPUT_FILES, str(_DEFAULT_MIN))
    if not text.isdigit() or int(text) < 1:
        raise InvalidRequestError(f"option {_MIN_INPUT_FILES} is a number from 1 on, not {text!r}")
    return int(text)
