"""One file has many names: what makes two spellings of a location the same file, for all that delete by comparison.

Metadata, listings and users spell locations as their writers did: ``/p/a b``, ``file:///p/a%20b``, ``s3a://b//k``.
Two spellings are compared by a canonical path, and apart from it by scheme and authority.

Promise: a canonical path errs on one side only. Different files may share one (``a%20b`` and ``a b`` can both exist),
so that one of them is kept although it need not be; but one file never has two, as long as it is spelled in the ways
above. On the local disk links to folders are followed, since a folder has as many names as links.
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
"""Paths that are canonical as they stand, as nearly all are."""

_PLAIN_NAME: Final = re.compile(r"[^/%.][^/%]*")
"""Names that are spelled in one way only, in whichever folder."""

_LOCAL: Final = "file"

_BUCKETS: Final = frozenset({"s3", "gs"})
_STORES: Final = frozenset({_LOCAL, "hdfs", "abfss", *_BUCKETS})
"""Schemes of stores that share no file."""

DEFAULT_EQUAL_SCHEMES: Final[Mapping[str, str]] = {"s3n,s3a": "s3", "gcs": "gs", "wasbs,wasb,abfs": "abfss"}
"""Schemes that name the same stores, as the clients of different engines spell them."""


@dataclass(frozen=True)
class Place:
    """A location in comparable form; ``scheme`` and ``authority`` are None where the spelling leaves them out."""

    scheme: str | None
    authority: str | None
    path: str


@dataclass
class Spelling:
    """How locations are compared; each map gives for names, with commas between them, the one that they stand for.

    Raises InvalidRequestError for a name that stands for two.
    """

    equal_schemes: Mapping[str, str] = field(default_factory=dict)
    equal_authorities: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._schemes = {**_flat("equal_schemes", DEFAULT_EQUAL_SCHEMES), **_flat("equal_schemes", self.equal_schemes)}
        self._authorities = _flat("equal_authorities", self.equal_authorities)
        self._folders: dict[str, str] = {}
        self._prefixes: dict[str, str] = {}

    def place(self, location: str) -> Place:
        """The comparable form of ``location``."""
        scheme, authority, path = _parts(location)
        if scheme is not None:
            scheme = self._schemes.get(scheme.lower(), scheme.lower())
        if authority is not None:
            authority = self._authorities.get(authority, authority)
        return Place(scheme, authority, self.path(location, path))

    def path(self, location: str, path: str | None = None) -> str:
        """The canonical path of ``location`` alone: what two spellings of one file have in common."""
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
            # So it is with every plain name in that folder: a manifest names a thousand.
            self._prefixes[folder] = found[: -len(name)]
        return found

    def _without_links(self, path: str) -> str:
        """The folder as the disk knows it, and the name in it as it stands: a file is its entry, not where it leads."""
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
        """Pickles as its maps: another machine has a disk of its own."""
        return {"equal_schemes": self.equal_schemes, "equal_authorities": self.equal_authorities}

    def __setstate__(self, state: dict[str, Mapping[str, str]]) -> None:
        Spelling.__init__(self, state["equal_schemes"], state["equal_authorities"])


def canonical(path: str) -> str:
    """``path`` without escapes, doubled slashes, ``.`` and ``..``, in Unicode's composed form."""
    if path.isascii() and _PLAIN.fullmatch(path):
        return path
    # Escapes may be escaped again on the way through an engine or two.
    while (plain := unquote(path, errors="surrogateescape")) != path:
        path = plain
    return unicodedata.normalize("NFC", posixpath.normpath("/" + path.lstrip("/")))


def agree(one: Place, other: Place) -> bool:
    """Whether scheme and authority are the same, or left open by one of the two; paths are not looked at."""
    schemes = _as_written(one.scheme), _as_written(other.scheme)
    return schemes[0] == schemes[1] and (one.authority or "") == (other.authority or "")


def surely_apart(one: Place, other: Place) -> bool:
    """Whether no file of the one place can be of the other, by scheme and authority; paths are not looked at.

    False where it is open: a cluster has several names, a bucket has one.
    """
    schemes = _as_written(one.scheme), _as_written(other.scheme)
    if schemes[0] != schemes[1]:
        return _STORES.issuperset(schemes)
    authorities = {one.authority, other.authority} - {None}
    return schemes[0] in _BUCKETS and len(authorities) > 1


def path_of(location: str) -> str:
    """The path alone, as it is spelled but for the slashes at its beginning."""
    return "/" + _parts(location)[2].lstrip("/")


def is_inside(place: Place, folder: Place) -> bool:
    """Whether ``place`` is ``folder``, or lies in it; True where scheme and authority leave it open."""
    within = place.path == folder.path or place.path.startswith(f"{folder.path.rstrip('/')}/")
    return within and not surely_apart(folder, place)


def _as_written(scheme: str | None) -> str:
    # A plain path is the local disk's, and so is a URI of it.
    return scheme or _LOCAL


def _is_local(location: str) -> bool:
    return _SCHEME.match(location) is None or location.startswith(f"{_LOCAL}:")


def _parts(location: str) -> tuple[str | None, str | None, str]:
    """Scheme, authority and path. What looks like a query or a fragment is part of a name on every store."""
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
                raise InvalidRequestError(f"{name}: {each} stands for {found[each]} and for {stands_for.strip()}")
    return found
