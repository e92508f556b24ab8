"""The page of what a condition would read: the decision of ``metastore prune``, its command, and its links."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, replace
from typing import Any, Final

from metastore.console.query import Query
from metastore.errors import InvalidRequestError
from metastore.overview.pruning import prune
from metastore.overview.results import PruneReport
from metastore.session import Session

_SHOWN: Final = 100
_SPECIAL: Final = re.compile(r'["$`\\!]')


@dataclass(frozen=True)
class ReadPage:
    """The decision on a table; None without a condition. ``wrong`` says why a condition cannot be used.

    ``trusted`` means that the files that exist now were not listed. The document is that of ``metastore prune --json``.
    """

    table: str
    where: str
    zone: str
    trusted: bool
    command: str
    pruned: PruneReport | None = None
    wrong: str | None = None
    shown: int = _SHOWN

    def as_document(self) -> Any:
        """Returns the decision alone."""
        return {"error": self.wrong} if self.pruned is None else self.pruned


def in_shell(word: str) -> str:
    """Returns a word for a shell, in double quotes if it has apostrophes and nothing that is special in them."""
    return f'"{word}"' if "'" in word and not _SPECIAL.search(word) else shlex.quote(word)


def read_page(session: Session, query: Query) -> ReadPage:
    """Returns what ``where`` reads of the table ``name``; ``trust`` skips the listing, ``files`` lists every file.

    Raises NotFoundError for a table without metadata, and what :meth:`Session.prune` raises beside InvalidRequestError.
    """
    table, where, zone = query.require("name"), query.text("where"), query.text("zone")
    trusted, as_json = query.flag("trust"), query.text("format") == "json"
    with_files = query.flag("files") or not as_json
    name = str(session.table_info(table))
    options = [*(["--no-list"] if trusted else []), *(["--time-zone", zone] if zone else []), "--files"]
    command = " ".join(map(in_shell, ["metastore", "prune", name, where or "…", *options]))
    page = ReadPage(name, where, zone, trusted, command)
    if not where:
        return page
    try:
        pruned = prune(
            session,
            table,
            where,
            list_files=not trusted,
            time_zone=zone or None,
            with_files=with_files,
            most_files=None if as_json else _SHOWN,
        )
    except InvalidRequestError as error:
        return replace(page, wrong=str(error))
    return replace(page, pruned=pruned)
