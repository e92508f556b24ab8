"""A result that is less than was asked for: it is shown all the same, and the command fails."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Incomplete:
    """What a command came to that could not do all it was to: its result, which is shown all the same, and why."""

    result: object
    why: str
