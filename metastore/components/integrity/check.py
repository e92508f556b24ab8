"""The check of a deployment: finds damage, doubtful states and overdue work, each with the next step. Changes nothing.

Place in the flow: ``Session.check`` and ``metastore check``. One problem does not hide another: a check that fails is
itself a finding, and a catalog that does not answer is skipped after a timeout.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import combinations
from typing import Any, Final

from metastore.components.catalogs import Catalogs
from metastore.components.component import Component
from metastore.components.expiration.policy import LAST_RUN, ExpirationPolicy, is_due
from metastore.components.integrity.findings import CheckedComponent, CheckReport, Finding, some
from metastore.components.integrity.reached_files import LostFile, StoredFiles, Walk
from metastore.config.catalogs import OWN_CATALOG
from metastore.config.settings import Settings
from metastore.errors import DamageError, MetastoreError
from metastore.lake.iceberg.catalogs.version_files import HINT, VersionFiles
from metastore.lake.stores.opening import open_store

CATALOG_TIMEOUT: Final = timedelta(seconds=10)
"""Timeout for a catalog to list its schemas."""

_WRITES_HINT: Final = "metastore repair, or the next commit, writes it"
_SHOWN: Final = 20
"""Maximum number of lost files that are listed for a component."""

_OVERDUE: Final = 2
"""Number of periods without a run after which an expiration is overdue."""

Check = Callable[[Settings], Iterable[Finding]]
"""A check of the configuration alone. Callers pass further checks to :func:`check_metastore`."""


def check_metastore(
    catalogs: Catalogs, now_ms: int, timeout: timedelta = CATALOG_TIMEOUT, more: Iterable[Check] = ()
) -> CheckReport:
    """Check components, configuration and catalogs. If a check fails, that is a finding, and no error is raised."""
    metastore = catalogs.metastore
    settings = metastore.settings
    components: list[CheckedComponent] = []
    findings: list[Finding] = []
    for component in metastore.components.values():
        state, found = _component(component, settings, now_ms)
        components.append(state)
        findings += found
    for check in (_nested_locations, _warnings, *more):
        findings += check(settings)
    findings += _catalogs(catalogs, timeout)
    return CheckReport(tuple(components), tuple(findings))


def _component(component: Component[Any], settings: Settings, now_ms: int) -> tuple[CheckedComponent, list[Finding]]:
    """What one component has and what is wrong with it; an error that ends the look is a finding, too."""
    name, entry = component.definition.name, component.table.entry
    nothing = CheckedComponent(name, entry.location, 0, 0, 0, 0)
    try:
        findings = list(_pointer(component))
        table = component.table.load()
        if table is None:
            return nothing, findings
        _, io = open_store(entry.location, entry.source.store_properties)
        walk = Walk(io, StoredFiles(io, entry.location))
        metadata = table.metadata
        current = metadata.current_snapshot()
        lost = list(walk.find_lost_files(metadata, metadata.snapshots))
    except DamageError as error:
        return nothing, [Finding("error", name, str(error), "metastore repair --dry-run")]
    except MetastoreError as error:
        return nothing, [Finding("error", name, str(error), "fix the cause, then run metastore check again")]
    version = current.snapshot_id if current else 0
    findings += some((_of_lost(name, each, version) for each in lost), _SHOWN)
    findings += _overdue(component, settings, now_ms)
    reach = walk.reach
    return CheckedComponent(name, entry.location, version, len(metadata.snapshots), reach.files, reach.bytes), findings


def _pointer(component: Component[Any]) -> Iterator[Finding]:
    """Yields findings about the version hint, if the file system keeps the pointer."""
    entry, name = component.table.entry, component.definition.name
    if entry.source.settings.type != "filesystem":
        return
    store, _ = open_store(entry.location, entry.source.store_properties)
    try:
        found = VersionFiles(entry.location, store).standing()
    except OSError as error:
        yield Finding("error", name, f"cannot list {entry.location}/metadata: {error}", "restore access to the store")
        return
    newest = max(found.versions, default=0)
    if newest and found.hint is None:
        yield Finding("note", name, f"{HINT} is missing or no number", _WRITES_HINT)
    elif found.hint is not None and found.hint < newest:
        text = f"{HINT} names version {found.hint}, and {newest} is the newest"
        yield Finding("note", name, text, _WRITES_HINT)


def _of_lost(component: str, lost: LostFile, current: int) -> Finding:
    what = f"{lost.kind} {lost.location} of version {lost.version}: {lost.what}"
    if lost.version != current:
        step = "restore it from a backup, or remove those before the current one: `metastore expire --older-than 0s`"
    elif lost.kind == "data file":
        step = (
            "restore it from a backup, see `metastore repair --dry-run`, or forget its table by "
            "`metastore drop-metadata` and analyze it again"
        )
    else:
        step = "restore it from a backup, or see `metastore repair --dry-run`"
    return Finding("error", component, what, step)


def _overdue(component: Component[Any], settings: Settings, now_ms: int) -> Iterator[Finding]:
    expiration = settings.iceberg.expiration
    table = component.table.load()
    if expiration.period is None or table is None:
        return
    policy = ExpirationPolicy(expiration.period * _OVERDUE, expiration.retain_last, expiration.min_age)
    if is_due(policy, table.metadata, now_ms):
        last = "has never run" if LAST_RUN not in table.metadata.properties else "last ran long ago"
        yield Finding(
            "warning",
            component.definition.name,
            f"its expiration {last}: the period is {expiration.period}, and more than {_OVERDUE} have passed",
            "metastore expire",
        )


def _nested_locations(settings: Settings) -> Iterator[Finding]:
    for one, other in combinations(settings.iceberg.components.values(), 2):
        first, second = f"{one.location.strip('/')}/", f"{other.location.strip('/')}/"
        if first.startswith(second) or second.startswith(first):
            yield Finding(
                "error",
                f"{one.name}, {other.name}",
                f"one component's folder lies within the other's: {one.location}, {other.location}",
                f"set drill.metastore.iceberg.components.{other.name}.location to a folder of its own",
            )


def _warnings(settings: Settings) -> Iterator[Finding]:
    for warning in settings.warnings:
        yield Finding("warning", "configuration", warning, "correct or remove the key")


def _catalogs(catalogs: Catalogs, timeout: timedelta) -> Iterator[Finding]:
    """Yields the catalogs that do not list their schemas in time; all are queried concurrently."""
    names = [name for name in catalogs.names() if name != OWN_CATALOG]
    answers: dict[str, str | None] = {}

    def ask(name: str) -> None:
        try:
            catalogs.schemas(name)
            answers[name] = None
        except MetastoreError as error:
            answers[name] = str(error)

    # Daemon threads: a catalog that never answers must not keep the process alive.
    threads = [
        threading.Thread(target=ask, args=(name,), name=f"metastore-check-{name}", daemon=True) for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout.total_seconds())
    for name in names:
        what = answers.get(name, f"it did not answer within {timeout.total_seconds():g} s")
        if what is not None:
            yield Finding("error", f"catalog {name}", what, f"see drill.metastore.catalogs.{name}")
