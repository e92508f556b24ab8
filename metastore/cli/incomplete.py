"""A partial result: it is shown, and the command fails."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Incomplete:
    """The result of a command that failed in part, and the reason. The result is shown."""

    result: object
    why: str
