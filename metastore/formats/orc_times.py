"""Times in ORC, which an Arrow before release 25 silently reads as other times.

Place in the flow: whoever opens an ORC file asks here before it reads columns: ANALYZE and scans of directories, and
the row scan of Iceberg tables. Light, since every task imports it.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from metastore.errors import EngineError

_REFUSES_FAR_TIMES: Final = 25
"""The first release of Arrow that refuses times in ORC which it cannot hold; earlier ones let them wrap around."""


def require_safe_times(schema: pa.Schema, arrow_version: str) -> None:
    """EngineError for times in ORC where this release of Arrow reads those outside 1677 to 2262 as others."""
    if int(arrow_version.partition(".")[0]) >= _REFUSES_FAR_TIMES:
        return
    for column in schema:
        if "timestamp" in str(column.type):
            raise EngineError(
                f"column {column.name} has times in ORC, and PyArrow {arrow_version} reads those before 1677 and after "
                f"2262 as other times: pip install 'pyarrow>={_REFUSES_FAR_TIMES}'"
            )
