"""``history``, ``drop-metadata``, ``purge`` and ``expire``: versions of the metastore, and deleting metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Final

from metastore.components.expiration.handler import ExpirationHandler, ExpirationResult
from metastore.components.expiration.policy import ExpirationPolicy
from metastore.config.settings import ExpirationSettings
from metastore.config.units import parse_duration
from metastore.errors import InvalidRequestError
from metastore.session import Session

_SAFE_AGE: Final = timedelta(days=5)
"""Of versions that stay where nothing is configured; Iceberg's own default for snapshots."""


@dataclass(frozen=True)
class VersionSummary:
    """One kept version; ``parent`` is None for the very first version."""

    version: int
    parent: int | None
    time: datetime
    operation: str
    summary: Mapping[str, str]


@dataclass(frozen=True)
class VersionHistory:
    """Versions, newest first, and their total number if not all are listed."""

    versions: tuple[VersionSummary, ...]
    kept: int


@dataclass(frozen=True)
class DropResult:
    """``dropped`` is False if there was nothing to drop."""

    table: str
    dropped: bool
    version: int


@dataclass(frozen=True)
class PurgeResult:
    """The empty version that a purge created."""

    version: int


@dataclass(frozen=True)
class Expiry:
    """The result of an expiry, or of its dry run, over all components; ``kept`` versions remain.

    ``refreshes`` are earlier rows of materialized views that were deleted with the versions that referred to them.
    """

    dry_run: bool
    expired: ExpirationResult
    kept: int
    refreshes: int = 0


def history(session: Session, limit: int | None = None) -> VersionHistory:
    """Returns the kept versions, newest first, at most ``limit``."""
    versions = session.metastore.tables.metadata.history()
    listed = (
        VersionSummary(each.version, each.parent, each.timestamp, each.operation, each.summary)
        for each in islice(versions, limit and min(limit, len(versions)))
    )
    return VersionHistory(tuple(listed), len(versions))


def drop_metadata(session: Session, table: str, *, if_exists: bool = False) -> DropResult:
    """Drop the metadata of a table; its data stays. Raises NotFoundError like :meth:`Session.drop_metadata`."""
    dropped = session.drop_metadata(table, if_exists=if_exists)
    return DropResult(str(session.table_info(table)), dropped, session.metastore.tables.metadata.version)


def purge(session: Session) -> PurgeResult:
    """Drop the metadata of all tables. Earlier versions stay readable until they expire."""
    return PurgeResult(session.metastore.tables.modify().purge())


def expire(session: Session, *, dry_run: bool = False, older_than: str | None = None) -> Expiry:
    """Expire versions that are outdated, now, in every component: by ``older_than``, else by the configuration.

    If that has no age and no number of versions, versions younger than five days stay. Raises InvalidRequestError for
    text that is no duration.
    """
    configured = session.settings.iceberg.expiration
    age = configured.min_age if older_than is None else _age(older_than)
    if older_than is None and configured == ExpirationSettings():
        age = _SAFE_AGE
    components = session.metastore.components
    expired = ExpirationResult()
    for name, component in components.items():
        least = session.settings.iceberg.components[name].versions_kept
        policy = ExpirationPolicy(None, configured.retain_last, age, least)
        expired += ExpirationHandler(component.table, policy, session.metastore.clock).expire(dry_run)
    kept = sum(len(component.metadata.history()) for component in components.values())
    if dry_run:
        return Expiry(dry_run, expired, kept - len(expired.versions))
    return Expiry(dry_run, expired, kept, len(session.materialized_views.remove_unneeded()))


def _age(text: str) -> timedelta:
    try:
        return parse_duration(text)
    except ValueError as error:
        raise InvalidRequestError(f"--older-than {text!r} is no duration: {error}") from error
