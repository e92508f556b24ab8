"""Apache's own sketches, the measure of ours; their library has wheels for Python 3.13 and older."""

from __future__ import annotations

from typing import Any

import pytest


def apache_sketches() -> Any:
    """Return the module ``datasketches``; without it the test is skipped."""
    return pytest.importorskip("datasketches", reason="Apache DataSketches has no wheel for this Python")
