"""``sql``, ``call``, ``procedures``: statements by the session's one door."""

from __future__ import annotations

from collections.abc import Callable

from metastore.cli.results import Rows
from metastore.errors import InvalidRequestError
from metastore.session import Session
from metastore.sql.statement import Statement

OnProgress = Callable[[int, int], None]


def sql(session: Session, text: str, on_progress: OnProgress | None = None) -> Rows:
    """Run any one statement. Raises as :meth:`Session.sql`."""
    return Rows.of(session.sql(text, on_progress))


def call(session: Session, text: str, on_progress: OnProgress | None = None) -> Rows:
    """Run a statement that is a CALL. Raises InvalidRequestError for any other, and as :meth:`Session.sql`."""
    if Statement.parse(text).word(0) != "CALL":
        raise InvalidRequestError("CALL catalog.schema.name(…) is expected; `metastore sql` runs other statements")
    return sql(session, text, on_progress)


def procedures(session: Session, catalog: str | None) -> Rows:
    """Every procedure that can be called, or those in ``catalog``. Raises NotFoundError."""
    return Rows.of(session.procedures.list(catalog))
