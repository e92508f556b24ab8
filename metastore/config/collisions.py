"""Finds values that HOCON's rules drop silently: a key with a value that is also the prefix of another key.

Place in the flow: ``loader`` passes the statements of each tier, lowest tier first. ``fs.s3a.endpoint = X`` beside
``fs.s3a.endpoint.region = Y`` makes ``endpoint`` an object, and X is lost. Hadoop, Iceberg and Spark have many such
pairs of names. Quotes keep both. In reverse order Y is lost. Setting a key to null first shows that this is intended.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, Final

from metastore.config.resolution import ConfigPlace, KeyPath

_SEGMENT: Final = re.compile(r'"([^"]*)"|([^".]+)')


class ValueForm(Enum):
    """The kind of value that a statement assigns to its key."""

    VALUE = auto()
    NULL = auto()
    REFERENCE = auto()  # it may be an object as well
    OBJECT = auto()


@dataclass(frozen=True)
class Assignment:
    """One statement of a document: the full key, and its place; None for a value given in code."""

    key: KeyPath
    written: ValueForm
    place: ConfigPlace | None = None


@dataclass(frozen=True)
class Collision:
    """``lost`` has no effect because of ``other``. ``owner`` is the object passed to :func:`collisions` with each."""

    lost: Assignment
    other: Assignment
    owner_of_lost: Any
    owner_of_other: Any


def assignments_in(mapping: Mapping[str, Any], above: KeyPath = ()) -> Iterator[Assignment]:
    """Returns the statements of a mapping given in code, whose keys may be dotted paths."""
    for name, value in mapping.items():
        key = (*above, *segments(name))
        if isinstance(value, Mapping):
            yield from assignments_in(value, key)
        else:
            yield Assignment(key, ValueForm.NULL if value is None else ValueForm.VALUE)


def collisions(written: Iterable[tuple[Assignment, Any]]) -> Iterator[Collision]:
    """Returns the pairs in which one loses its value, in the order of the statements; each assignment has its owner."""
    standing: dict[KeyPath, tuple[Assignment, Any]] = {}
    for assignment, owner in written:
        key = assignment.key
        if assignment.written is ValueForm.NULL:
            standing = {each: kept for each, kept in standing.items() if each[: len(key)] != key}
            continue
        if assignment.written is not ValueForm.VALUE:
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


def segments(key: str) -> KeyPath:
    """Returns the names of a key path; quoted dots are part of a name."""
    return tuple(quoted or plain.strip() for quoted, plain in _SEGMENT.findall(key) if (quoted or plain).strip())
