"""Question: how long a page of the console takes over many tables and files.

The metastore has made-up tables with nine segments each. Pages are asked for in turns, each time of another table or
part of the list, and are answered with markup. "Just opened" is the first page of a session that has read nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from http import HTTPStatus
from itertools import count
from typing import Final

from benchmarks.content import SEGMENTS, Content, table_info
from benchmarks.measuring import OURS, Contender, Pace, Series, Verdict, measure
from metastore.config import Settings
from metastore.console.pages import Console
from metastore.console.query import link
from metastore.errors import StorageError
from metastore.session import connect

QUESTION: Final = "a page of the console"
OPENED: Final = "list of tables, just opened"
TABLES: Final = 10_000
FILES: Final = 1_000_000
SECONDS: Final = 0.1

_AT_ONCE: Final = 200
"""Tables of one transaction."""


def run(folder: str, tables: int, files: int, seed: int, pace: Pace, say: Callable[[str], None]) -> list[Series]:
    """Measure each kind of page over ``tables`` with about ``files`` in all."""
    settings = Settings.from_mapping({"drill.metastore.iceberg.location.base_path": folder}, environ={})
    content = Content(seed, files_of_a_segment=max(1, round(files / tables / SEGMENTS)))
    with connect(settings) as session:
        for first in range(0, tables, _AT_ONCE):
            say(f"building tables: {first:,} of {tables:,}")
            rows = content.tables(range(first, min(tables, first + _AT_ONCE)))
            session.metastore.tables.modify().overwrite(rows).execute()
    return pages(settings, tables, pace, say)


def pages(settings: Settings, tables: int, pace: Pace, say: Callable[[str], None]) -> list[Series]:
    """Measure each kind of page of a metastore with ``tables`` of :class:`Content`."""
    series = measure(QUESTION, OPENED, tables, [Contender(OURS, _opened(settings))], pace)
    with connect(settings) as session:
        console = Console(lambda: session, _no_daemon)
        for case, target in _pages(tables):
            say(case)
            contender = Contender(OURS, lambda target: _asked(console, target), target)
            series += measure(QUESTION, case, tables, [contender], pace)
    return series


def verdicts(series: Sequence[Series]) -> list[Verdict]:
    """What was asked for: 100 ms at the median, for each page but the first."""
    asked = [one for one in series if one.question == QUESTION and one.case != OPENED]
    return [
        Verdict(QUESTION, f"{one.case}: ≤ 1× {SECONDS * 1000:.0f} ms", one.median / SECONDS, one.median <= SECONDS)
        for one in asked
    ]


def _pages(tables: int) -> Iterator[tuple[str, Callable[[], str]]]:
    """Yields each kind of page by its case, with what returns the address of another one each time."""
    numbers = count()

    def name() -> str:
        return str(table_info(next(numbers) * 37 % tables))

    yield "list of tables", lambda: link("/", page=1 + next(numbers) % max(1, tables // 50))
    yield "search", lambda: link("/", search=f"orders_{next(numbers) * 37 % tables:06d}")
    yield "a table", lambda: link("/table", name=name())
    yield "files of a table", lambda: link("/files", name=name())
    yield "what would be read", lambda: link("/read", name=name(), where="id > 5 and dir0 = 'x'", trust=True)
    yield "versions", lambda: "/versions"
    yield "difference of two versions", lambda: link("/difference", name=name())


def _opened(settings: Settings) -> Callable[[None], None]:
    def first_page(_: None) -> None:
        with ExitStack() as opened:
            session = opened.enter_context(connect(settings))
            _asked(Console(lambda: session, _no_daemon), "/")

    return first_page


def _asked(console: Console, target: str) -> None:
    answer = console.answer(target)
    if answer.status is not HTTPStatus.OK:
        raise AssertionError(f"{target} is answered with {answer.status.value}: {answer.body[-300:].decode()}")


def _no_daemon() -> dict[str, object]:
    raise StorageError("no daemon runs beside a benchmark")
