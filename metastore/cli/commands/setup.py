"""``init`` and ``config``: the store is made ready, and its settings are told."""

from __future__ import annotations

from dataclasses import dataclass

from metastore.config import Settings
from metastore.session import Session


@dataclass(frozen=True)
class Initialized:
    """Where the tables component lies; ``created`` is False when it was there before."""

    location: str
    version: int
    created: bool


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
    existed = session.tables.metadata.location is not None
    location = session.tables.initialize()
    return Initialized(location, session.tables.metadata.version, not existed)


def config(settings: Settings) -> Configuration:
    """What is in effect, in alphabetical order of keys."""
    effective = (EffectiveSetting(each.key, each.value, str(each.origin)) for each in settings.explain())
    return Configuration(tuple(effective), settings.warnings)
