"""Finds values that HOCON's rules drop silently: a key with a value that is also the prefix of another key.

Place in the flow: ``loader`` passes the statements of each tier, lowest tier first. ``fs.s3a.endpoint = X`` beside
``fs.s3a.endpoint.region = Y`` makes ``endpoint`` an object, and X is lost. Hadoop, Iceberg and Spark have many such
pairs of names. Quotes keep both. In reverse order Y is lost. Setting a key to null first shows that this is intended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from metastore.config.resolution import KeyPath

_PIECE: Final = re.compile(
    r"""(?P<text>\"\"\"(?s:.*?)\"\"\"+|"(?:[^"\\\n]|\\.)*") | (?P<reference>\$\{[^}]*\})
      | (?P<opens>[{\[]) | (?P<closes>[}\]]) | (?P<ends>[,\n]) | (?P<assigns>\+=|=|:)
      | (?P<blank>[ \t\r]+) | (?P<plain>[^\s"{}\[\],=:$+]+|.)
    """,
    re.VERBOSE,
)
_SEGMENT: Final = re.compile(r'"([^"]*)"|([^".]+)')


class Written(Enum):
    """The kind of value that a statement assigns to its key."""

    VALUE = auto()
    NULL = auto()
    REFERENCE = auto()  # it may be an object as well
    OBJECT = auto()


@dataclass(frozen=True)
class Assignment:
    """One statement of a document: the full key, and its line, counted from 0; None for a value given in code."""

    key: KeyPath
    written: Written
    line: int | None = None


@dataclass(frozen=True)
class Collision:
    """``lost`` has no effect because of ``other``. ``owner`` is the object passed to :func:`collisions` with each."""

    lost: Assignment
    other: Assignment
    owner_of_lost: Any
    owner_of_other: Any


def assignments(lines: Sequence[str]) -> Iterator[Assignment]:
    """Returns every statement of a HOCON text without comments and includes, in order, except those inside lists."""
    yield from _Scan().statements("\n".join(lines))


def assignments_in(mapping: Mapping[str, Any], above: KeyPath = ()) -> Iterator[Assignment]:
    """Returns the statements of a mapping given in code, whose keys may be dotted paths."""
    for name, value in mapping.items():
        key = (*above, *_segments(name))
        if isinstance(value, Mapping):
            yield from assignments_in(value, key)
        else:
            yield Assignment(key, Written.NULL if value is None else Written.VALUE)


def collisions(written: Iterable[tuple[Assignment, Any]]) -> Iterator[Collision]:
    """Returns the pairs in which one loses its value, in the order of the statements; each assignment has its owner."""
    standing: dict[KeyPath, tuple[Assignment, Any]] = {}
    for assignment, owner in written:
        key = assignment.key
        if assignment.written is Written.NULL:
            standing = {each: kept for each, kept in standing.items() if each[: len(key)] != key}
            continue
        if assignment.written is not Written.VALUE:
            continue
        above = [key[:length] for length in range(1, len(key)) if key[:length] in standing]
        below = [each for each in standing if len(each) > len(key) and each[: len(key)] == key]
        for each in (*above, *below):
            lost, owner_of_lost = standing.pop(each)
            yield Collision(lost, assignment, owner_of_lost, owner)
        standing[key] = (assignment, owner)


def said_of_lost(lost: str, other: str) -> str:
    """Returns the message that names both keys and their places."""
    return (
        f"{lost} is overridden by {other}: without quotes the dots in a name make an object of the shorter one, and "
        "HOCON keeps either the object or the value. Write each full name in quotes"
    )


@dataclass
class _Scan:
    """State of the scan of one text: the enclosing objects, and the current statement."""

    around: list[KeyPath | None] = field(default_factory=lambda: [()])
    key: str = ""
    value: str | None = None
    begun: int = 0

    def statements(self, text: str) -> Iterator[Assignment]:
        line = 0
        for piece in _PIECE.finditer(text):
            awaits_value = self.value is not None and not self.value.strip()
            if piece["closes"] or (piece["ends"] and not (piece["ends"] == "\n" and awaits_value)):
                yield from self._ended()
            if piece["opens"]:
                self._open(piece["opens"])
            elif piece["closes"]:
                self._close()
            elif piece["assigns"] and self.value is None:
                self.value, self.begun = "", line
            elif self.value is not None:
                self.value += piece[0]
            elif not piece["ends"]:
                self.key += piece[0]
            line += piece[0].count("\n")
        yield from self._ended()

    def _open(self, bracket: str) -> None:
        inner = self.around[-1]
        self.around.append(None if inner is None or bracket == "[" else (*inner, *_segments(self.key)))
        self.key, self.value = "", None

    def _close(self) -> None:
        if len(self.around) > 1:
            self.around.pop()

    def _ended(self) -> Iterator[Assignment]:
        prefix, key, value = self.around[-1], self.key, self.value
        self.key, self.value = "", None
        if prefix is None or value is None or not value.strip():
            return
        written = Written.NULL if value.strip() == "null" else Written.VALUE
        if value.strip().startswith("${"):
            written = Written.REFERENCE
        yield Assignment((*prefix, *_segments(key)), written, self.begun)


def _segments(key: str) -> KeyPath:
    """Returns the names of a key path; quoted dots are part of a name."""
    return tuple(quoted or plain.strip() for quoted, plain in _SEGMENT.findall(key) if (quoted or plain).strip())
