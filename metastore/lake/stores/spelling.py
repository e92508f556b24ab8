"""Compares locations of files, which one file can have in several spellings, before anything is deleted.

Metadata, listings and users spell locations in different ways: ``/p/a b``, ``file:///p/a%20b``, ``s3a://b//k``. Two
spellings are compared by a canonical path, and separately by scheme and authority.

Promise: canonical paths err on the safe side. Two different files may have the same canonical path (``a%20b`` and ``a
b`` can both exist); then one is kept without need. One file in the spellings above never has two canonical paths. On
the local disk, symbolic links to folders are followed, because each link is another name of the folder.
"""

from __future__ import annotations

import os
import posixpath
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from metastore.errors import InvalidRequestError

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_PLAIN: Final = re.compile(r"(?:/[^/%.][^/%]*)+")
"""Paths that are already canonical, like almost all."""

_PLAIN_NAME: Final = re.compile(r"[^/%.][^/%]*")
"""Names that have only one spelling, in any folder."""

_LOCAL: Final = "file"

_BUCKETS: Final = frozenset({"s3", "gs"})
_STORES: Final = frozenset({_LOCAL, "hdfs", "abfss", *_BUCKETS})
"""Schemes of stores that share no files."""

DEFAULT_EQUAL_SCHEMES: Final[Mapping[str, str]] = {"s3n,s3a": "s3", "gcs": "gs", "wasbs,wasb,abfs": "abfss"}
"""Schemes that different clients use for the same store, and the one that stands for them."""


@dataclass(frozen=True)
class Place:
    """A location in comparable form. ``scheme`` and ``authority`` are None if the spelling omits them."""

    scheme: str | None
    authority: str | None
    path: str


@dataclass
class Spelling:
    """The rules of comparison. Each mapping has comma-separated names as key, and the name they stand for as value.

    Raises InvalidRequestError if a name stands for two names.
    """

    equal_schemes: Mapping[str, str] = field(default_factory=dict)
    equal_authorities: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._schemes = {**_flat("equal_schemes", DEFAULT_EQUAL_SCHEMES), **_flat("equal_schemes", self.equal_schemes)}
        self._authorities = _flat("equal_authorities", self.equal_authorities)
        self._folders: dict[str, str] = {}
        self._prefixes: dict[str, str] = {}

    def place(self, location: str) -> Place:
        """Returns the comparable form of ``location``."""
        scheme, authority, path = _parts(location)
        if scheme is not None:
            scheme = self._schemes.get(scheme.lower(), scheme.lower())
        if authority is not None:
            authority = self._authorities.get(authority, authority)
        return Place(scheme, authority, self.path(location, path))

    def path(self, location: str, path: str | None = None) -> str:
        """Returns the canonical path of ``location``, which all spellings of one file share."""
        folder, _, name = location.rpartition("/")
        is_plain = name.isascii() and _PLAIN_NAME.fullmatch(name) is not None
        if is_plain and (prefix := self._prefixes.get(folder)) is not None:
            return prefix + name
        if path is None:
            _, _, path = _parts(location)
        if _is_local(location):
            path = self._without_links(path)
        found = canonical(path)
        if is_plain and folder and found.endswith(f"/{name}"):
            # This holds for every plain name in that folder, and a manifest names a thousand of them.
            self._prefixes[folder] = found[: -len(name)]
        return found

    def _without_links(self, path: str) -> str:
        """Resolves links in the folder, but not the name: a link to a file is a directory entry of its own."""
        folder, slash, name = path.rpartition("/")
        if not slash:
            return path
        known = self._folders.get(folder)
        if known is None:
            decoded = unquote(folder)
            known = folder if os.path.isdir(folder) or not os.path.isdir(decoded) else decoded
            known = self._folders[folder] = os.path.realpath(known or "/")
        return f"{known.rstrip('/')}/{name}"

    def __getstate__(self) -> dict[str, Mapping[str, str]]:
        """Pickles only the mappings: the cached paths belong to the disk of this machine."""
        return {"equal_schemes": self.equal_schemes, "equal_authorities": self.equal_authorities}

    def __setstate__(self, state: dict[str, Mapping[str, str]]) -> None:
        Spelling.__init__(self, state["equal_schemes"], state["equal_authorities"])


def canonical(path: str) -> str:
    """Returns ``path`` without escapes, doubled slashes, ``.`` and ``..``, in Unicode's composed form (NFC)."""
    if path.isascii() and _PLAIN.fullmatch(path):
        return path
    # Engines may have escaped a path more than once.
    while (plain := unquote(path, errors="surrogateescape")) != path:
        path = plain
    return unicodedata.normalize("NFC", posixpath.normpath("/" + path.lstrip("/")))


def agree(one: Place, other: Place) -> bool:
    """Returns whether schemes and authorities are equal; none counts as ``file`` and empty. Paths are not compared."""
    schemes = _as_written(one.scheme), _as_written(other.scheme)
    return schemes[0] == schemes[1] and (one.authority or "") == (other.authority or "")


def surely_apart(one: Place, other: Place) -> bool:
    """Returns whether scheme and authority prove that the two cannot be the same file. Paths are not compared.

    False if that is unknown: a cluster has several names, but a bucket has one.
    """
    schemes = _as_written(one.scheme), _as_written(other.scheme)
    if schemes[0] != schemes[1]:
        return _STORES.issuperset(schemes)
    authorities = {one.authority, other.authority} - {None}
    return schemes[0] in _BUCKETS and len(authorities) > 1


def path_of(location: str) -> str:
    """Returns the path alone, as spelled, with exactly one slash at its beginning."""
    return "/" + _parts(location)[2].lstrip("/")


def is_inside(place: Place, folder: Place) -> bool:
    """Returns whether ``place`` is ``folder`` or lies in it. True also if scheme and authority leave that open."""
    within = place.path == folder.path or place.path.startswith(f"{folder.path.rstrip('/')}/")
    return within and not surely_apart(folder, place)


def _as_written(scheme: str | None) -> str:
    # A path without a scheme is on the local disk, like a ``file`` URI.
    return scheme or _LOCAL


def _is_local(location: str) -> bool:
    return _SCHEME.match(location) is None or location.startswith(f"{_LOCAL}:")


def _parts(location: str) -> tuple[str | None, str | None, str]:
    """Returns scheme, authority and path. ``?`` and ``#`` are part of the name on every store."""
    match = _SCHEME.match(location)
    if match is None:
        return None, None, location
    rest = location[match.end() :]
    if not rest.startswith("//"):
        return match[1], None, rest
    authority, slash, path = rest[2:].partition("/")
    if match[1].lower() == _LOCAL and authority == "localhost":
        authority = ""
    return match[1], authority or None, slash + path


def _flat(name: str, groups: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for names, stands_for in groups.items():
        for each in (part.strip() for part in names.split(",")):
            if found.setdefault(each, stands_for.strip()) != stands_for.strip():
                both = f"{found[each]} and {stands_for.strip()}"
                raise InvalidRequestError(f"{name}: {each} has two other names, {both}; give it one")
    return found
