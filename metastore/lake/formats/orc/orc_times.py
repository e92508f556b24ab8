"""Times in ORC files: Arrow's releases before 25 silently change some of them, and are refused.

Place in the flow: every reader of ORC calls this module before it reads columns: ANALYZE and scans of directories, and
the row scan of Iceberg tables. This module imports little, since every task imports it.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from metastore.errors import EngineError

_REFUSES_FAR_TIMES: Final = 25
"""The first release of Arrow that refuses ORC times out of its range; earlier releases let them wrap around."""


def require_safe_times(schema: pa.Schema, arrow_version: str) -> None:
    """Raises EngineError for ORC times if this release of Arrow changes those outside 1677 to 2262."""
    if int(arrow_version.partition(".")[0]) >= _REFUSES_FAR_TIMES:
        return
    for column in schema:
        if "timestamp" in str(column.type):
            raise EngineError(
                f"column {column.name} has times in ORC, and PyArrow {arrow_version} reads those before 1677 and after "
                f"2262 as other times: pip install 'pyarrow>={_REFUSES_FAR_TIMES}'"
            )
