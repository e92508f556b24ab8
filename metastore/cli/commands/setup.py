"""``init``, ``register`` and ``config``: prepare the store, change its catalog, show its settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from metastore.components.storage.handover import TableRegistration
from metastore.config import Settings, load
from metastore.session import Session


@dataclass(frozen=True)
class InitResult:
    """The location of the tables component; ``created`` is False if it existed before."""

    location: str
    version: int
    created: bool


@dataclass(frozen=True)
class Registration:
    """The tables that were registered in another catalog."""

    tables: tuple[TableRegistration, ...]


@dataclass(frozen=True)
class EffectiveSetting:
    """One key in effect, without secrets, and where it was set."""

    key: str
    value: object
    origin: str


@dataclass(frozen=True)
class EffectiveConfiguration:
    """Every key in effect, and warnings about the files."""

    settings: tuple[EffectiveSetting, ...]
    warnings: tuple[str, ...]


def init(session: Session) -> InitResult:
    """Create the component's table, or bring an existing one up to date."""
    existed = session.metastore.tables.metadata.location is not None
    location = session.metastore.tables.initialize()
    return InitResult(location, session.metastore.tables.metadata.version, not existed)


def register(session: Session, source: Path | None) -> Registration:
    """Register the component tables that the catalog of configuration ``source``, or the file system, holds so far."""
    return Registration(tuple(session.register(load(source) if source else None)))


def config(settings: Settings) -> EffectiveConfiguration:
    """Returns the settings in effect, in alphabetical order of keys."""
    effective = (EffectiveSetting(each.key, each.value, str(each.origin)) for each in settings.explain())
    return EffectiveConfiguration(tuple(effective), settings.warnings)
