"""The query of a page's address: bounded texts and numbers. Pure; what is not well formed is an InvalidRequestError."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar
from urllib.parse import parse_qsl, quote, urlencode

from metastore.errors import InvalidRequestError

T = TypeVar("T")

_LONGEST: Final = 4_000
_MOST: Final = 20


@dataclass(frozen=True)
class Query:
    """Names and values of one address; of a name that is repeated, the last value counts."""

    given: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> Query:
        """Reads what follows the ``?``. Raises InvalidRequestError."""
        try:
            given = dict(parse_qsl(text, strict_parsing=False, errors="strict", max_num_fields=_MOST))
        except ValueError as error:
            raise InvalidRequestError(f"the query of the address cannot be read: {error}") from error
        if any(len(value) > _LONGEST for value in given.values()):
            raise InvalidRequestError(f"a value of the address has more than {_LONGEST:,} characters")
        return cls(given)

    def text(self, name: str) -> str:
        """Returns the value without blanks at its ends; empty if it is not given."""
        return self.given.get(name, "").strip()

    def require(self, name: str) -> str:
        """Returns a value that the page needs. Raises InvalidRequestError."""
        if not (value := self.text(name)):
            raise InvalidRequestError(f"the address of this page needs {name}=…")
        return value

    def number(self, name: str, default: int = 1) -> int:
        """Returns a whole number from 0 on. Raises InvalidRequestError."""
        text = self.text(name)
        if text and not (text.isascii() and text.isdigit() and len(text) < 20):
            raise InvalidRequestError(f"{name}={text[:40]}: a whole number is expected")
        return int(text) if text else default

    def flag(self, name: str) -> bool:
        """Returns whether the value is ``yes``."""
        return self.text(name) == "yes"


@dataclass(frozen=True)
class PagePosition:
    """One page of a list: its number from 1, the number of pages, and the number of all items."""

    page: int
    pages: int
    total: int


def part_of(items: Sequence[T], page: int, size: int) -> tuple[Sequence[T], PagePosition]:
    """Returns the items of a page; a number beyond the last page means the last one."""
    pages = max(1, -(-len(items) // size))
    page = min(max(1, page), pages)
    return items[(page - 1) * size : page * size], PagePosition(page, pages, len(items))


def link(path: str, **values: object) -> str:
    """Returns the address of a page of the console; values that are None, empty or False are left out."""
    kept = {name: "yes" if value is True else str(value) for name, value in values.items() if value}
    return f"{path}?{urlencode(kept, quote_via=quote)}" if kept else path
