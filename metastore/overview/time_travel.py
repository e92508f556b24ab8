"""The version that a command reads. All of its reads use this version, also while others write."""

from __future__ import annotations

from datetime import datetime, timezone

from pyiceberg.expressions import AlwaysFalse

from metastore.errors import InvalidRequestError
from metastore.model.vocabulary import MetadataType
from metastore.session import Session


def version_at(session: Session, at: str | None) -> int:
    """Returns the version for ``at``: its id, or a time in ISO 8601 with a zone; None means the current version.

    For a time before the first version, it returns 0, the empty version. Raises InvalidRequestError for other texts,
    NotFoundError for a time whose version has expired.
    """
    if at is None:
        return session.metastore.tables.metadata.version
    if at.isdecimal():
        return int(at)
    nothing = session.metastore.tables.read().metadata_types(MetadataType.ALL).filter(AlwaysFalse())
    return nothing.as_of(moment(at)).parts().version


def moment(text: str) -> datetime:
    """Parses a time in ISO 8601 with a zone. Raises InvalidRequestError."""
    try:
        # Python 3.10 does not parse the zone Z.
        found = datetime.fromisoformat(text.removesuffix("Z") + ("+00:00" if text.endswith("Z") else ""))
    except ValueError:
        raise InvalidRequestError(
            f"{text!r} is neither a version nor a time; `metastore history` lists the versions"
        ) from None
    if found.tzinfo is None:
        utc = found.replace(tzinfo=timezone.utc).isoformat().replace("+00:00", "Z")
        raise InvalidRequestError(f"the time {text} has no zone; if UTC is meant, write {utc}")
    return found
