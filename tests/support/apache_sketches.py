"""Apache's own sketches, the measure of ours; their library has no wheel for Python 3.14."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

import pytest


def apache_sketches() -> Any:
    """Return the module ``datasketches``. Only on Python 3.14 and later may it be missing: the test is skipped then."""
    has_wheel = sys.version_info < (3, 14)
    if has_wheel:
        return import_module("datasketches")
    return pytest.importorskip("datasketches", reason="Apache DataSketches has no wheel for this Python")
