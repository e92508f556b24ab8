"""Which version a command looks at: every one of its reads sees the same version, also while others write."""

from __future__ import annotations

from datetime import datetime, timezone

from metastore.errors import InvalidRequestError, NotFoundError
from metastore.session import Session


def version_at(session: Session, at: str | None) -> int:
    """The version that ``at`` means: its id, or a time in ISO 8601 with a zone; None means the current one.

    Raises InvalidRequestError for anything else, NotFoundError for a time before the oldest version that is kept.
    """
    if at is None:
        return session.tables.metadata.version
    if at.isdecimal():
        return int(at)
    time = moment(at)
    history = session.tables.metadata.history()
    for version in history:
        if version.timestamp <= time:
            return version.version
    if history and history[-1].parent is not None:
        raise NotFoundError(f"no version of {at} is kept; the oldest is from {history[-1].timestamp.isoformat()}")
    return 0


def moment(text: str) -> datetime:
    """The time that ``text`` writes in ISO 8601, with a zone. Raises InvalidRequestError."""
    try:
        # Python 3.10 does not know the zone Z.
        found = datetime.fromisoformat(text.removesuffix("Z") + ("+00:00" if text.endswith("Z") else ""))
    except ValueError:
        raise InvalidRequestError(
            f"{text!r} is neither a version nor a time; `metastore history` lists the versions"
        ) from None
    if found.tzinfo is None:
        utc = found.replace(tzinfo=timezone.utc).isoformat().replace("+00:00", "Z")
        raise InvalidRequestError(f"the time {text} has no zone; if UTC is meant, write {utc}")
    return found
