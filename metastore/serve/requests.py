"""What a request asks for, read from its path, query and headers. Pure; whatever is not well formed is a Refusal.

Nothing of a caller reaches a catalog before it is checked here: names are valid UTF-8, not empty, and of bounded
length.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Final, Literal
from urllib.parse import unquote, unquote_to_bytes

from pyiceberg.typedef import Identifier

Snapshots = Literal["all", "refs"]

_LEVELS_BETWEEN: Final = "\x1f"
_LONGEST_NAME: Final = 1024
_MOST_LEVELS: Final = 32
_ETAG: Final = re.compile(r'(?:W/)?"([^"]*)"')
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")


class Refusal(Exception):  # noqa: N818 - it is an answer, and not a failure
    """The answer to a request that gets no other: status, the error's type in Iceberg's model, and a text."""

    def __init__(self, status: HTTPStatus, kind: str, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.kind = kind
        self.text = text
        self.headers = headers or {}


def bad_request(text: str) -> Refusal:
    """Return the refusal of a request that is not well formed."""
    return Refusal(HTTPStatus.BAD_REQUEST, "BadRequestException", text)


@dataclass(frozen=True)
class Page:
    """Which part of a list is wanted: ``size`` names at most, after the name ``after``."""

    size: int
    after: str | None


@dataclass(frozen=True)
class CatalogRequest:
    """One request: names of its path as they were sent, its query and headers (names in lower case), and its body."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def namespace(self) -> Identifier:
        """The levels of the path's namespace. Raises Refusal."""
        return levels_of(self.path["namespace"])

    def name(self, kind: str) -> str:
        """Return the path's name of a ``table`` or ``view``. Raises Refusal."""
        return name_of(self.path[kind])

    @property
    def parents(self) -> Sequence[Identifier]:
        """The namespace whose children are wanted, in the order of its possible spellings. Raises Refusal.

        Empty for the first level. Some clients escape the levels twice, as in a path.
        """
        given = self.query.get("parent", "")
        spellings = dict.fromkeys([given, unquote(given, errors="strict")] if given else ())
        return [_checked_levels(each) for each in spellings]

    @property
    def snapshots(self) -> Snapshots:
        """Which snapshots are wanted; by default all. Raises Refusal."""
        match self.query.get("snapshots", "all"):
            case "all":
                return "all"
            case "refs":
                return "refs"
            case _:
                raise bad_request("snapshots is all or refs")

    def page(self, most: int) -> Page | None:
        """Return the wanted page of at most ``most`` names; None for the whole list. Raises Refusal.

        Who sends neither ``pageToken`` nor ``pageSize`` does not know of pages, and gets all.
        """
        token, size = self.query.get("pageToken"), self.query.get("pageSize")
        if token is None and size is None:
            return None
        if size and not (size.isascii() and size.isdigit() and int(size[:9]) > 0):
            raise bad_request("pageSize is a whole number above zero")
        return Page(min(most, int(size[:9])) if size else most, _name_in(token) if token else None)

    def knows(self, etag: str) -> bool:
        """Return whether ``If-None-Match`` names the tag."""
        given = self.headers.get("if-none-match", "")
        return given.strip() == "*" or etag in _ETAG.findall(given)

    def document(self) -> dict[str, Any]:
        """Return the body, a JSON object. Raises Refusal.

        The type must say JSON, which a web page cannot send to another site without asking it first.
        """
        if not self.headers.get("content-type", "").startswith("application/json"):
            raise bad_request("the body has to be of type application/json")
        try:
            found = json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise bad_request("the body is not JSON") from error
        if not isinstance(found, dict):
            raise bad_request("the body is not a JSON object")
        return found


def levels_of(segment: str) -> Identifier:
    """Return the levels of a namespace from its segment of a path. Raises Refusal."""
    return _checked_levels(_decode_name(segment))


def name_of(segment: str) -> str:
    """Return a name from its segment of a path. Raises Refusal."""
    return _check_name(_decode_name(segment))


def token_of(content: Any) -> str:
    """Return the token that holds ``content``, plain data."""
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode()


def content_of(token: str) -> Any:
    """Return what a token holds. Raises ValueError, TypeError or RecursionError for one that is none."""
    return json.loads(base64.b64decode(token, altchars=b"-_", validate=True))


def _name_in(token: str) -> str:
    try:
        [name] = content_of(token)
    except (ValueError, TypeError, RecursionError) as error:
        raise bad_request("pageToken is not one that this server has given") from error
    if not isinstance(name, str):
        raise bad_request("pageToken is not one that this server has given")
    return name


def _decode_name(segment: str) -> str:
    try:
        return unquote_to_bytes(segment.replace("+", " ")).decode()  # Iceberg for Java escapes names as forms do.
    except UnicodeDecodeError as error:
        raise bad_request("a name is not UTF-8") from error


def _checked_levels(text: str) -> Identifier:
    levels = tuple(_check_name(level) for level in text.split(_LEVELS_BETWEEN))
    if len(levels) > _MOST_LEVELS:
        raise bad_request(f"a namespace has at most {_MOST_LEVELS} levels")
    return levels


def _check_name(name: str) -> str:
    if not name or len(name) > _LONGEST_NAME or _CONTROL.search(name) or name in {".", ".."}:
        raise bad_request(f"a name has 1 to {_LONGEST_NAME} characters, none of them control characters; it is no dots")
    return name
