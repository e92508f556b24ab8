"""The time, and pauses. Code that waits or reads the time gets a clock as a parameter, so tests pass their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """Time as commits use it; tests pass their own clock."""

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    monotonic: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
