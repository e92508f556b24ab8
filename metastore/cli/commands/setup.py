"""``init``, ``upgrade``, ``register`` and ``config``: prepare the store, change its catalog, show its settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from metastore.components.column_upgrade import Upgraded, write_columns
from metastore.config import Settings, load
from metastore.session import Session
from metastore.storage.handover import Registered


@dataclass(frozen=True)
class Initialized:
    """Where the tables component lies; ``created`` is False when it was there before."""

    location: str
    version: int
    created: bool


@dataclass(frozen=True)
class Registration:
    """The tables that are in another catalog now."""

    tables: tuple[Registered, ...]


@dataclass(frozen=True)
class EffectiveSetting:
    """One key in effect, secrets redacted, and where it was set."""

    key: str
    value: object
    origin: str


@dataclass(frozen=True)
class Configuration:
    """Every key in effect, and what is doubtful about the files."""

    settings: tuple[EffectiveSetting, ...]
    warnings: tuple[str, ...]


def init(session: Session) -> Initialized:
    """Create the component's table if there is none, and bring it up to date if there is."""
    existed = session.metastore.tables.metadata.location is not None
    location = session.metastore.tables.initialize()
    return Initialized(location, session.metastore.tables.metadata.version, not existed)


def upgrade(session: Session) -> Upgraded:
    """Bring the component up to date, and write what older releases wrote anew where planning is faster for it."""
    session.metastore.tables.initialize()
    return write_columns(session.metastore.tables)


def register(session: Session, source: Path | None) -> Registration:
    """Hand the component tables over from the catalog that the configuration ``source`` names, or the file system."""
    return Registration(tuple(session.register(load(source) if source else None)))


def config(settings: Settings) -> Configuration:
    """What is in effect, in alphabetical order of keys."""
    effective = (EffectiveSetting(each.key, each.value, str(each.origin)) for each in settings.explain())
    return Configuration(tuple(effective), settings.warnings)
