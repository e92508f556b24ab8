"""Which versions of Spark are supported. This module imports nothing of PySpark, since an old PySpark lacks modules."""

from __future__ import annotations

import re
from typing import Final

from metastore.errors import EngineError

OLDEST: Final = (4, 1)
"""Major and minor version of the oldest Spark that is supported. The next major version is not."""


def require_supported(version: str) -> None:
    """Raise EngineError for a Spark version that lacks required features. ``version`` is a text such as ``4.1.0``."""
    major, minor = (int(number) for number in re.findall(r"\d+", f"{version}.0")[:2])
    if OLDEST <= (major, minor) < (OLDEST[0] + 1, 0):
        return
    oldest = ".".join(map(str, OLDEST))
    raise EngineError(
        f"Spark {version} is not supported; {oldest} or later, and below {OLDEST[0] + 1}, is required. "
        f"Run pip install 'pyspark[sql]>={oldest},<{OLDEST[0] + 1}', and upgrade the cluster to the same version"
    )
