"""Suggestions of similar names: every error about an unknown name uses the same words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(name: str, names: Iterable[str], *, most: int = 3, cutoff: float = 0.6) -> list[str]:
    """Returns up to ``most`` of the ``names`` that are similar to ``name`` in any case, the most similar first.

    ``cutoff`` is the least similarity of a result, from 0 to 1.
    """
    by_lower = {each.lower(): each for each in names}
    return [by_lower[each] for each in difflib.get_close_matches(name.lower(), by_lower, n=most, cutoff=cutoff)]


def did_you_mean(name: str, names: Iterable[str], *, most: int = 3, cutoff: float = 0.6, otherwise: str = "") -> str:
    """Returns ``; did you mean a or b?``, which follows a message on ``name``; ``otherwise`` if no name is similar."""
    near = nearest(name, names, most=most, cutoff=cutoff)
    if near:
        return f"; did you mean {' or '.join(near)}?"
    return f"; {otherwise}" if otherwise else ""
