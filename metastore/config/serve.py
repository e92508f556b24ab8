"""Settings of ``metastore serve``: its address and protection, the catalogs that it serves, and its limits."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Final, Literal

from metastore.config.catalogs import OWN_CATALOG
from metastore.config.section import Section
from metastore.ground.suggestions import did_you_mean

ReportsUse = Literal["drop", "log"]
_REPORTS: Final[dict[str, ReportsUse]] = {"drop": "drop", "log": "log"}


@dataclass(frozen=True)
class TlsSettings:
    """Paths of the PEM files with the certificate chain and its private key."""

    certificate: str
    key: str


@dataclass(frozen=True)
class ServeLimits:
    """Most connections at a time, bytes of a body, time of a request, names in a page, and files in a part of a plan.

    ``renewal`` is how long a load waits for a published table to be renewed.
    """

    connections: int = 100
    body_bytes: int = 1 << 20
    request: timedelta = timedelta(seconds=30)
    renewal: timedelta = timedelta(seconds=10)
    page: int = 1000
    plan: int = 5000


@dataclass(frozen=True)
class ServeSettings:
    """``port`` 0 is any free port; ``catalogs`` are served by these names.

    - ``host_names``: names by which clients reach the server, beside IP addresses and localhost.
    - ``virtual_tables``: storage plugins whose analyzed tables are served without being published.
    - ``reports``: whether metrics reports of clients are dropped or written to the log.
    - ``freshness``: how old the last look at a published table's folder may be; None: loads do not look.
    - ``cache_bytes``: memory for answers with the metadata of tables.
    """

    host: str = "127.0.0.1"
    port: int = 8181
    token: str | None = field(default=None, repr=False)
    tls: TlsSettings | None = None
    host_names: tuple[str, ...] = ()
    catalogs: tuple[str, ...] = (OWN_CATALOG,)
    virtual_tables: tuple[str, ...] = ()
    reports: ReportsUse = "drop"
    freshness: timedelta | None = None
    cache_bytes: int = 64 << 20
    limits: ServeLimits = field(default_factory=ServeLimits)

    @property
    def warehouses(self) -> tuple[str, ...]:
        """Everything that is served, by name."""
        return (*self.catalogs, *self.virtual_tables)


def serve_settings(
    section: Section, catalogs: Collection[str], plugins: Collection[str], cwd: Path | None
) -> ServeSettings:
    """Read the settings below ``drill.metastore.serve``. Raises ConfigError.

    ``catalogs`` are the configured ones, ``plugins`` the storage plugins of folders.
    """
    limits = section.section("limits")
    request = limits.require("request", limits.duration("request"))
    if request <= timedelta():
        raise limits.refusal("request", "a time above zero is expected")
    renewal = limits.require("renewal", limits.duration("renewal"))
    freshness = section.duration("freshness")
    if freshness is not None and freshness < timedelta():
        raise section.refusal("freshness", "a time not below zero, or null, is expected")
    if freshness is not None and not timedelta() < renewal < request:
        raise limits.refusal("renewal", "a time above zero and below limits.request is expected")
    return ServeSettings(
        host=section.text("host"),
        port=section.port("port"),
        token=section.optional_text("token") or None,
        tls=_tls(section.section("tls"), cwd),
        host_names=tuple(section.texts("host_names")),
        catalogs=_read_names(section, "catalogs", [OWN_CATALOG, *catalogs]),
        virtual_tables=_read_virtual(section, plugins),
        reports=section.choice("metrics_reports", _REPORTS),
        freshness=freshness,
        cache_bytes=section.require("cache", section.size("cache")),
        limits=ServeLimits(
            connections=limits.require("connections", limits.whole("connections", least=1)),
            body_bytes=limits.require("body", limits.size("body")),
            request=request,
            renewal=renewal,
            page=limits.require("page", limits.whole("page", least=1)),
            plan=limits.require("plan", limits.whole("plan", least=1)),
        ),
    )


def _tls(section: Section, cwd: Path | None) -> TlsSettings | None:
    given = {name: section.optional_text(name) for name in ("certificate", "key")}
    if not any(given.values()):
        return None
    found = {name: section.local_path(name, section.require(name, value), cwd) for name, value in given.items()}
    return TlsSettings(**found)


def _read_names(section: Section, key: str, known_names: Collection[str]) -> tuple[str, ...]:
    names = section.texts(key)
    for name in names:
        if name not in known_names:
            what = "catalog" if key == "catalogs" else "storage plugin of folders"
            reason = f"there is no {what} {name}{did_you_mean(name, known_names, cutoff=0.5)}"
            raise section.refusal(key, f"{reason}; configured are {', '.join(known_names)}")
    return tuple(dict.fromkeys(names))


def _read_virtual(section: Section, plugins: Collection[str]) -> tuple[str, ...]:
    names = _read_names(section, "virtual_tables", plugins)
    if twice := sorted({*names}.intersection(section.texts("catalogs"))):
        raise section.refusal("virtual_tables", f"the name {twice[0]} is that of a served catalog, too")
    return names
