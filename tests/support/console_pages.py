"""Pages of the console as a browser sees them: elements, texts and addresses; and files of a table that they show."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from metastore.console.pages import Console
from metastore.errors import StorageError

_EMPTY = {"meta", "link", "input", "br"}

BAD = "<img src=x onerror=alert(1)>"
SALES = "dfs.w.sales"
HOSTILE = f"dfs.w.{BAD}"


def no_daemon() -> dict[str, object]:
    """The state of health where no daemon runs."""
    raise StorageError("no daemon answers")


def write(folder: Path, day: int, file: int, rows: int, **more: object) -> None:
    """Write one file of ``sales``: ids ascend from day to day; ``more`` are columns of one value."""
    place = folder / f"day=2026-11-{day:02d}"
    place.mkdir(parents=True, exist_ok=True)
    ids = [day * 1000 + file * 100 + each for each in range(rows)]
    columns: dict[str, Any] = {"id": ids, "price": [each / 7 for each in ids], "tags": [[1]] * rows}
    columns |= {name: [value] * rows for name, value in more.items()}
    pq.write_table(pa.table(columns), place / f"part-{file}.parquet", row_group_size=40)


@dataclass
class Seen(HTMLParser):
    """One parsed page: each element with its attributes, its text, and the addresses that it links to."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    text: str = ""
    open: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Begin."""
        super().__init__(convert_charrefs=True)

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, dict(attrs)))
        if tag not in _EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        """Note an empty element."""
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """Elements end in the order of their nesting."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note a text."""
        self.text += data

    @property
    def links(self) -> list[str]:
        """Addresses of all links."""
        return [value for tag, each in self.elements if tag == "a" and (value := each.get("href"))]


def page(console: Console, target: str, status: HTTPStatus = HTTPStatus.OK) -> Seen:
    """The page at ``target``, all of whose elements are closed."""
    answer = console.answer(target)
    assert (answer.status, answer.kind) == (status, "text/html; charset=utf-8"), answer.body.decode()[-500:]
    seen = Seen()
    seen.feed(answer.body.decode())
    seen.close()
    assert seen.open == []
    return seen


def document(console: Console, target: str, status: HTTPStatus = HTTPStatus.OK) -> Any:
    """The same page as JSON."""
    answer = console.answer(f"{target}{'&' if '?' in target else '?'}format=json")
    assert (answer.status, answer.kind) == (status, "application/json")
    return json.loads(answer.body)
