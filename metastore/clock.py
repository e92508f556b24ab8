"""The time, and pauses: handed to whoever waits or dates, so that tests have a clock of their own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """Time as the commit uses it; tests bring their own."""

    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
    monotonic: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
