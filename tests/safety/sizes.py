"""How much the safety tests try: the short form that every run has, or the long one of ``make safety``.

``SAFETY=long`` chooses the long one. ``SAFETY_SEED`` is where chance begins; the same seed is the same run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Size:
    """``faults``: operations a task and fault (0: all). ``soak_s``: at least so long, and ``commits`` each writer.

    ``kept_s``: how long the soak keeps versions, which readers are to be done within.
    """

    faults: int
    examples: int
    steps: int
    writers: int
    commits: int
    soak_s: float
    kept_s: int
    inputs: int

    def spread(self, count: int, turn: int) -> Sequence[int]:
        """The numbers 1 to ``count``, or as many of them as fit; others at each ``turn``."""
        if not self.faults or self.faults >= count:
            return range(1, count + 1)
        stride = count / self.faults
        return sorted({1 + int(each * stride + turn * stride / 6) % count for each in range(self.faults)})


SHORT: Final = Size(faults=3, examples=8, steps=15, writers=4, commits=15, soak_s=0, kept_s=1, inputs=30)
LONG: Final = Size(faults=0, examples=300, steps=40, writers=8, commits=200, soak_s=120, kept_s=10, inputs=2_000)

SIZE: Final = LONG if os.environ.get("SAFETY", "short") == "long" else SHORT
SEED: Final = int(os.environ.get("SAFETY_SEED", "1"))
