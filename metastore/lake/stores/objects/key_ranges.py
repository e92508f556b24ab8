"""Divides the keys below a prefix into ranges that are listed concurrently. Pure functions: no request is sent here.

An object store lists keys in order, 1,000 a page, starting after any key. The distribution of the keys is unknown, so
:class:`KeyRanges` learns it from the pages: after a full page, the rest of its range is divided again, as long as more
ranges may be listed. The directories below the prefix are the borders, if they are known. Otherwise borders are guessed
from the keys of the page: the next digits at the positions where keys of a table differ.

A wrong border costs a request that finds little, but never loses a key: ranges are disjoint and cover all keys. After
requests that found little, fewer borders are guessed.

An empty object may be a directory marker: the store lists its key ``a/`` as ``a``, out of order. So only the order of
objects with content is used, and markers may be found twice.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

ListedObject: TypeAlias = tuple[str, int, int]
"""Path, size in bytes, and modification time in epoch ns; a plain tuple, because a listing has millions."""

Objects: TypeAlias = Sequence[ListedObject]

_FREE_GUESSES: Final = 3
"""Number of poor requests that are allowed before full pages earn more."""

_TELLING: Final = 6
"""Number of ordered keys that prove an ordered listing; random keys are ordered once in 720 times."""

_DIGITS: Final = "0123456789"
_HEXADECIMAL: Final = "0123456789abcdef"


class OutOfOrderError(Exception):
    """The store does not list in key order, so ranges cannot be listed. This error never leaves the package."""


@dataclass(frozen=True)
class ListingRange:
    """Keys after ``after``, up to and including ``until``; None: to the end."""

    after: str
    until: str | None


class KeyRanges:
    """The ranges of a listing. :meth:`take` returns one to request, :meth:`answer` takes its page.

    ``at_once`` is the maximum number of concurrent ranges, ``page`` the number of objects in a full page.
    """

    def __init__(self, at_once: int, page: int) -> None:
        self._at_once = at_once
        self._page = page
        self._waiting: deque[ListingRange] = deque()
        self._in_work = 0
        self._full_pages = 0
        self._poor = 0
        self._guesses: set[str] = set()
        self._directories: Sequence[str] = ()

    def begin(self, first: Objects) -> Objects:
        """Take the first page of all keys; return its objects.

        Raises :class:`OutOfOrderError`, also if too few objects have content to prove an order.
        """
        if sum(size > 0 for _, size, _ in first) < _TELLING:
            raise OutOfOrderError
        self._in_work += 1
        return self.answer(ListingRange("", None), first)

    def know_directories(self, directories: Sequence[str]) -> None:
        """Use ``directories``, the paths of those directly below the prefix, as borders from now on."""
        self._directories = sorted(directories)

    def take(self) -> ListingRange | None:
        """Return a range to request now, or None if the next depends on pending answers."""
        if not self._waiting:
            return None
        self._in_work += 1
        return self._waiting.popleft()

    def answer(self, range_: ListingRange, page: Objects) -> Objects:
        """Take the ``page`` that begins after ``range_.after``; return its objects in the range.

        The rest of the range waits for :meth:`take`. Raises :class:`OutOfOrderError`.
        """
        self._in_work -= 1
        kept, last, ends = _within(range_, page)
        is_full = len(page) >= self._page
        if is_full:
            self._full_pages += 1
        if range_.after in self._guesses and len(kept) * 4 < self._page:
            self._poor += 1
        if is_full and not ends:
            after = max(last, page[-1][0])
            if after <= range_.after:
                raise OutOfOrderError(after)
            self._divide(ListingRange(after, range_.until), page)
        return kept

    def _divide(self, left: ListingRange, page: Objects) -> None:
        idle = self._at_once - self._in_work - len(self._waiting) - 1
        guesses = max(0, min(idle, _FREE_GUESSES + self._full_pages // 2 - self._poor))
        borders = [] if guesses == 0 else self._borders(left, page, guesses)
        self._guesses.update(borders)
        starts = [left.after, *borders]
        ends: list[str | None] = [*borders, left.until]
        self._waiting.extend(map(ListingRange, starts, ends))

    def _borders(self, left: ListingRange, page: Objects, most: int) -> list[str]:
        begin = bisect_right(self._directories, left.after)
        end = len(self._directories) if left.until is None else bisect_right(self._directories, left.until)
        known = [each for each in self._directories[begin:end] if each != left.until]
        if known:
            count = min(most, len(known))
            return [known[number * len(known) // count] for number in range(count)]
        names = [path for path, size, _ in page if size]
        if not names or names[-1] != left.after:
            return []
        guessed = guessed_borders(names[0], left.after, {char for name in names[::50] for char in name})
        fitting = [each for each in guessed if each > left.after and (left.until is None or each < left.until)]
        return sorted(fitting[:most])


def guessed_borders(first: str, last: str, seen: set[str]) -> list[str]:
    """Return keys after ``last`` that probably have many keys between them, the likeliest first.

    The page of ``last`` began with ``first``; ``seen`` are the characters of its keys. Keys often count up, so after
    ``last`` come keys with a higher digit at a position before the one where the page's own keys differ.
    """
    pairs = enumerate(zip(first, last, strict=False))
    differ = next((place for place, (one, other) in pairs if one != other), len(first))
    digits = _HEXADECIMAL if _looks_hexadecimal(last, seen) else _DIGITS
    steps: list[tuple[int, int, str]] = []
    last_letter = None
    for place in range(min(differ + 1, len(last))):
        char = last[place]
        if char in digits:
            higher = digits[digits.index(char) + 1 :]
            steps += [(step, place, last[:place] + each) for step, each in enumerate(higher)]
        elif char.isascii() and char.isalpha():
            last_letter = place
            if place == differ:
                higher = "".join(sorted(each for each in seen if each > char and each.isascii() and each.isalpha()))
                steps += [(step, place, last[:place] + each) for step, each in enumerate(higher)]
    if last_letter is not None and last[last_letter] not in "zZ":
        steps.append((0, -1, last[:last_letter] + chr(ord(last[last_letter]) + 1)))
    return list(dict.fromkeys(border for _, _, border in sorted(steps)))


def _looks_hexadecimal(last: str, seen: set[str]) -> bool:
    name = last.rpartition("/")[2].partition(".")[0]
    return len(name) >= 8 and set(name) <= {*_HEXADECIMAL, "-"} and len(seen & set(_HEXADECIMAL)) > 12


def _within(range_: ListingRange, page: Objects) -> tuple[Objects, str, bool]:
    """Return the page's objects in the range, its last key in order, and whether the page goes beyond the range."""
    kept: list[ListedObject] = []
    last = range_.after
    for entry in page:
        path, size, _ = entry
        if size:
            if path <= last:
                raise OutOfOrderError(path)
            if range_.until is not None and path > range_.until:
                return kept, last, True
            last = path
        kept.append(entry)
    return kept, last, False
