"""Names that may be meant by one that is not there: what every error about an unknown name says in the same words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> list[str]:
    """Up to ``most`` of the ``known`` names that are like ``name`` in any case, the likest first.

    ``cutoff`` is the likeness, from 0 to 1, below which a name is not among them.
    """
    by_lower = {each.lower(): each for each in known}
    return [by_lower[each] for each in difflib.get_close_matches(name.lower(), by_lower, n=most, cutoff=cutoff)]


def did_you_mean(name: str, known: Iterable[str], *, most: int = 3, cutoff: float = 0.6, otherwise: str = "") -> str:
    """``; did you mean a or b?``, to follow what was said of ``name``; ``otherwise`` when no name is near."""
    near = nearest(name, known, most=most, cutoff=cutoff)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; {otherwise}" if otherwise else ""
