"""``sql``, ``call``, ``procedures``: statements, run by :meth:`Session.sql`."""

from __future__ import annotations

from collections.abc import Callable

from metastore.errors import InvalidRequestError
from metastore.overview.results import Rows
from metastore.session import Session
from metastore.sql.statement import Statement

OnProgress = Callable[[int, int], None]


def sql(session: Session, text: str, on_progress: OnProgress | None = None) -> Rows:
    """Run one statement of any kind. Raises what :meth:`Session.sql` raises."""
    return Rows.of(session.sql(text, on_progress))


def call(session: Session, text: str, on_progress: OnProgress | None = None) -> Rows:
    """Run a CALL. Raises InvalidRequestError for other statements, and what :meth:`Session.sql` raises."""
    if Statement.parse(text).word(0) != "CALL":
        raise InvalidRequestError("CALL catalog.schema.name(…) is expected; `metastore sql` runs other statements")
    return sql(session, text, on_progress)


def procedures(session: Session, catalog: str | None) -> Rows:
    """Returns every procedure, or those of ``catalog``. Raises NotFoundError."""
    return Rows.of(session.procedures.list(catalog))
