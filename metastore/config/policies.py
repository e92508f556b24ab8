"""Maintenance policies: which actions run on which tables, how often, and within which limits. The layers as written.

Place in the flow: ``settings`` opens ``drill.metastore.policies``. This module reads each layer (default, catalog,
namespace, table) into typed values that know their key and file. ``metastore.daemon.policy`` merges the layers for one
table. Promises: every value is checked when the configuration is loaded. A layer holds only values that its author
wrote. The default layer has every value; if an action or all actions are null, it has the shipped values, which enable
nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from metastore.config.catalogs import OWN_CATALOG
from metastore.config.loader import Configuration, defaults
from metastore.config.section import ConfigReading, Section, join_key
from metastore.config.units import parse_duration

_Reader = Callable[[Section, str], Any]


@dataclass(frozen=True)
class LayerValue:
    """One value of one layer, with its key and file."""

    value: Any
    key: str
    origin: str


Layer = Mapping[str, LayerValue]
"""Values that a layer sets, by ``action.field``, such as ``expire_snapshots.older_than``."""


@dataclass(frozen=True)
class PolicySettings:
    """The layers. ``named`` has those of catalogs, namespaces and tables by dotted name, such as ``lake.shop.orders``.

    A name of one part is a catalog. Namespaces and tables are kept apart, since a catalog may have both under one name.
    ``plugins`` are the storage plugins; a layer with such a name is for tables in folders and databases.
    """

    default: Layer = field(default_factory=dict)
    catalogs: Mapping[str, Layer] = field(default_factory=dict)
    namespaces: Mapping[str, Layer] = field(default_factory=dict)
    tables: Mapping[str, Layer] = field(default_factory=dict)
    plugins: frozenset[str] = frozenset()


def _flag(section: Section, name: str) -> bool | None:
    return None if section.optional_text(name) is None else section.flag(name, default=False)


def _count(section: Section, name: str) -> int | None:
    return section.whole(name, least=1)


def _bytes(section: Section, name: str) -> int | None:
    size = section.size(name)
    if size == 0:
        raise section.refusal(name, "at least one byte is expected")
    return size


def _time(section: Section, name: str) -> timedelta | None:
    value = section.duration(name)
    if value is not None and value < timedelta():
        raise section.refusal(name, "a time not below zero is expected")
    return value


def _locations(section: Section, name: str) -> list[str]:
    return section.texts(name)


def _schedule(section: Section, name: str) -> str:
    """Reads a cron expression of five or six fields, which the daemon's library parses, or an interval."""
    text = section.text(name).strip()
    if not is_cron(text):
        try:
            interval = parse_duration(text)
        except ValueError as error:
            raise section.refusal(name, f"an interval or a cron expression is expected: {error}") from error
        if interval <= timedelta():
            raise section.refusal(name, "an interval above zero is expected")
    return text


def is_cron(schedule: str) -> bool:
    """Returns whether a schedule is a cron expression: five or six fields, or a name such as ``@daily``."""
    return schedule.startswith("@") or len(schedule.split()) in (5, 6)


_EVERY: Final[Mapping[str, _Reader]] = {
    "enabled": _flag,
    "schedule": _schedule,
    "quiet": _time,
    "budget.files": _count,
    "budget.bytes": _bytes,
    "budget.seconds": _count,
}
FIELDS: Final[Mapping[str, Mapping[str, _Reader]]] = {
    "expire_snapshots": {**_EVERY, "older_than": _time, "retain_last": _count, "owned": _locations},
    "remove_orphan_files": {
        **_EVERY,
        "older_than": _time,
        "allowed_locations": _locations,
        "owned": _locations,
    },
    "rewrite_manifests": {**_EVERY, "min_manifests": _count},
    "rewrite_data_files": {**_EVERY, "target_file_size": _bytes, "min_input_files": _count},
    "old_metadata": {**_EVERY, "keep": _count, "owned": _locations},
    "publish": _EVERY,
    "analyze": _EVERY,
    "refresh": _EVERY,
}
"""The fields of every action, and how each is read. Every action has the first six."""

_REQUIRED: Final = ("enabled", "schedule", "quiet")
_NAME: Final = re.compile(r"[^.\s]+(\.[^.\s]+)*")


def policy_settings(section: Section, catalogs: Collection[str], plugins: Collection[str]) -> PolicySettings:
    """Read the layers below ``drill.metastore.policies``; ``catalogs`` and storage ``plugins`` are the configured ones.

    If a catalog and a plugin share a name, it means the catalog. Raises ConfigError for a wrong value, and for a layer
    whose name is not configured.
    """
    shipped = ConfigReading(Configuration([defaults()], {})).section(*section.key, "default")
    default = {**_layer(shipped), **_layer(section.section("default"))}
    for action in FIELDS:
        for name in _REQUIRED:
            if default[f"{action}.{name}"].value is None:
                holder = section.section("default").section(action)
                holder.require(name, None)
    known = {OWN_CATALOG, *catalogs, *plugins}
    return PolicySettings(
        default,
        _layers(section.section("catalogs"), 1, known),
        _layers(section.section("namespaces"), 2, known),
        _layers(section.section("tables"), 3, known),
        frozenset(plugins) - {OWN_CATALOG, *catalogs},
    )


def _layers(section: Section, parts: int, catalogs: Collection[str]) -> dict[str, Layer]:
    found = {}
    for name, layer in section.sections().items():
        pieces = name.split(".")
        if not _NAME.fullmatch(name) or len(pieces) < parts or (parts == 1 and len(pieces) > 1):
            shape = ("catalog", '"catalog.namespace"', '"catalog.namespace.table"')[parts - 1]
            raise section.refusal(name, f"a name like {shape} is expected; quote names with dots")
        if pieces[0] not in catalogs:
            raise section.refusal(
                name, f"no catalog or storage plugin {pieces[0]} is configured; there are {', '.join(sorted(catalogs))}"
            )
        found[name] = _layer(layer)
    return found


def _layer(section: Section) -> Layer:
    return {name: given for action in FIELDS for name, given in _action(section, action)}


def _action(section: Section, action: str) -> Iterator[tuple[str, LayerValue]]:
    if action not in section.values:
        return
    holder = section.section(action)
    for name, read in FIELDS[action].items():
        group, _, last = name.rpartition(".")
        inner = holder.section(group) if group else holder
        if last in inner.values:
            key = (*inner.key, last)
            origin = section.reading.configuration.origin(key)
            yield f"{action}.{name}", LayerValue(read(inner, last), join_key(key), str(origin))
