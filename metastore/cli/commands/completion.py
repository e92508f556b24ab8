"""Words that Tab completes in the prompt: keywords, names of tables, and columns of the tables that were typed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache

from metastore.errors import MetastoreError
from metastore.session import Session
from metastore.sql.door import STATEMENTS

_CLAUSES = ("AND", "AS", "BY", "FROM", "GROUP", "IN", "INTO", "JOIN", "LIMIT", "NOT", "OR", "ORDER", "VALUES", "WHERE")
_NAME = re.compile(r"[\w.$\"`-]+")

Names = Callable[[], Iterable[str]]
Columns = Callable[[str], Iterable[str]]


def candidates(typed: str, word: str, tables: Names, columns: Columns) -> list[str]:
    """Return what ``word`` may become: columns of tables named in ``typed`` first, then tables, then keywords.

    Case does not count; a keyword is completed in the case of the word.
    """
    known = list(tables())
    mentioned = {each.lower() for each in _NAME.findall(typed)}
    own = [name for table in known if table.lower() in mentioned for name in columns(table)]
    keywords = {part for words in STATEMENTS for part in words} | set(_CLAUSES)
    cased = sorted(each.lower() if word.islower() else each for each in keywords)
    return [each for each in dict.fromkeys([*own, *known, *cased]) if each.lower().startswith(word.lower())]


class Completer:
    """Readline's completer for one session; names are asked for once, and again after ``forget``."""

    def __init__(self, session: Session, typed: Callable[[], str]) -> None:
        """``typed`` returns the earlier lines of the statement."""
        self._typed = typed
        self._tables = cache(lambda: _query_names(session, "SELECT table_schema || '.' || table_name FROM {}.tables"))
        columns = "SELECT column_name FROM {}.columns WHERE table_schema || '.' || table_name = '%s'"
        self._columns = cache(lambda table: _query_names(session, columns % table.replace("'", "''")))
        self._found: list[str] = []

    def forget(self) -> None:
        """After a statement there may be other tables."""
        self._tables.cache_clear()
        self._columns.cache_clear()

    def __call__(self, word: str, number: int, line: str = "") -> str | None:
        """Return candidate ``number`` of ``word``, which is in ``line``; None after the last."""
        if number == 0:
            self._found = candidates(f"{self._typed()} {line}", word, self._tables, self._columns)
        return self._found[number] if number < len(self._found) else None


def _query_names(session: Session, query: str) -> tuple[str, ...]:
    """Return the names that the metastore knows; none if they cannot be read, since Tab is no place for an error."""
    try:
        return tuple(map(str, session.sql(query.format("information_schema")).column(0).to_pylist()))
    except MetastoreError:
        return ()
