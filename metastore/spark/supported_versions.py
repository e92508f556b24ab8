"""Which versions of Spark are supported. This module imports nothing of PySpark, since an old PySpark lacks modules."""

from __future__ import annotations

import re
from typing import Final

from metastore.errors import EngineError

OLDEST: Final = (3, 5)
"""Major and minor version of the oldest Spark that is supported."""

NEWEST: Final = (4, 99)
"""The next major version is not supported."""

DATA_SOURCES: Final = (4, 1)
"""The first version whose Python data sources write Arrow data and take filters."""


def require_supported(version: str) -> None:
    """Raise EngineError for a Spark version that lacks required features. ``version`` is a text such as ``4.1.0``."""
    if OLDEST <= _parse_version(version) <= NEWEST:
        return
    oldest = ".".join(map(str, OLDEST))
    raise EngineError(
        f"Spark {version} is not supported; {oldest} or later, and below {NEWEST[0] + 1}, is required. "
        f"Run pip install 'pyspark[sql]>={oldest},<{NEWEST[0] + 1}', and upgrade the cluster to the same version"
    )


def has_artifacts(version: str) -> bool:
    """Whether a classic session of this version takes files of its own; before, its application does."""
    return _parse_version(version) >= (4, 0)


def has_data_sources(version: str) -> bool:
    """Whether this version of Spark has what the data source ``metastore`` needs."""
    return _parse_version(version) >= DATA_SOURCES


def require_data_sources(version: str) -> None:
    """Raise EngineError for a Spark version without what the data source ``metastore`` needs."""
    if not has_data_sources(version):
        first = ".".join(map(str, DATA_SOURCES))
        raise EngineError(
            f'the format "metastore" needs Spark {first} or later, and this is Spark {version}, whose Python data '
            'sources lack writers of Arrow data. Use read_table, register(spark, ms, "dfs.shop.*") and '
            'ms.sql(…, engine="spark") here'
        )


def _parse_version(version: str) -> tuple[int, int]:
    major, minor = (int(number) for number in re.findall(r"\d+", f"{version}.0")[:2])
    return major, minor
