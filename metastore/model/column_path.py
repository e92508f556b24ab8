"""Column names as paths: a struct's leaf has several segments; a name with dots is one segment.

The quoted form is the key in ``columnsStatistics`` and the form in ``interestingColumns``. Every segment is in
backquotes, with a backslash before each inner backquote and backslash, as Drill reads it. ``parse`` inverts ``quote``
for every path.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from metastore.errors import FormatError, InvalidRequestError
from metastore.ground.quoting import quote_for_spark

ColumnPath = tuple[str, ...]

_SEGMENT = re.compile(r"`((?:[^`\\]|``|\\.)*)`|([^.`]+)", re.DOTALL)
_ESCAPE = re.compile(r"`(`)|\\([`\\])")


def repeated_names(names: Sequence[str]) -> str:
    """The names that occur more than once, joined into a text; empty if there are none."""
    return ", ".join(sorted(name for name, times in Counter(names).items() if times > 1))


def named_alike(names: Iterable[str]) -> dict[str, list[str]]:
    """The names that differ from another one only in case, grouped by their lower-case form."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(name.lower(), []).append(name)
    return {lower: several for lower, several in alike.items() if len(several) > 1}


def places_alike(wanted: Iterable[str], names: Sequence[str]) -> dict[str, str]:
    """Maps each wanted name to its match among ``names``: the exact one, else the one that differs only in case.

    A missing name is left out. Raises FormatError if a name has several candidates.
    """
    all_wanted = tuple(wanted)
    own, exact, twins = frozenset(all_wanted), frozenset(names), named_alike(all_wanted)
    free: dict[str, list[str]] = {}
    for name in names:
        if name not in own:
            free.setdefault(name.lower(), []).append(name)
    found = {}
    for name in all_wanted:
        several = free.get(name.lower(), [])
        if name in exact and not several:
            found[name] = name
        elif len(several) == 1 and name not in exact and name.lower() not in twins:
            found[name] = several[0]
        elif several:
            both = ", ".join(sorted({*several, *exact.intersection([name])}))
            raise FormatError(f"column {name} may be any of {both} in it; run ANALYZE, which tells them apart")
    return found


def lower_path(path: ColumnPath) -> ColumnPath:
    """``path`` in lower case."""
    return tuple(name.lower() for name in path)


def is_among(path: ColumnPath, columns: Iterable[ColumnPath]) -> bool:
    """Whether ``path`` is one of ``columns``, or inside one of them."""
    return any(path[: len(column)] == column for column in columns)


def quote(path: ColumnPath) -> str:
    """The back-quoted form of ``path``: segments ``a`` and ``b.c`` give ```a`.`b.c```."""
    return ".".join(map(quoted_name, path))


def sql_name(path: ColumnPath) -> str:
    """``path`` as a user types it in SQL: only segments that are no plain words are in backquotes."""
    return ".".join(name if name.isidentifier() else quote_for_spark(name) for name in path)


def quoted_name(name: str) -> str:
    """``name`` in backquotes, as a segment of a path or the name of a struct's field."""
    return "`" + name.replace("\\", "\\\\").replace("`", "\\`") + "`"


def unquote_name(inside: str) -> str:
    """The name whose quoted form has ``inside`` between its backquotes.

    A doubled backquote, as in SQL, counts as one.
    """
    return _ESCAPE.sub(lambda match: match[1] or match[2], inside) if "`" in inside or "\\" in inside else inside


def parse(text: str) -> ColumnPath:
    """The path that ``text`` names; segments without dots and backquotes may be unquoted.

    Raises InvalidRequestError for an empty text, an empty unquoted segment or an unclosed backquote.
    """
    segments: list[str] = []
    position = 0
    while True:
        match = _SEGMENT.match(text, position)
        if match is None:
            raise InvalidRequestError(
                f"{text!r} is no column path: a column name is expected at position {position + 1}"
            )
        quoted, bare = match.groups()
        segments.append(bare if quoted is None else unquote_name(quoted))
        position = match.end()
        if position == len(text):
            return tuple(segments)
        if text[position] != ".":
            raise InvalidRequestError(f"{text!r} is no column path: a dot is expected at position {position + 1}")
        position += 1
