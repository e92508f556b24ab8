"""Maintenance policies: what is kept in shape, how often, and within which bounds; the layers as they were written.

Place in the flow: ``settings`` opens ``drill.metastore.policies``, this module reads each layer (the default one, those
of catalogs, namespaces and tables) into typed values that remember their key and file; ``metastore.daemon.policy`` lays
them over one another for a table. Promises: every value is checked when the configuration is loaded, a layer holds only
what its author wrote, and the default one has every value: where an action, or all of them, is set to null, those that
are shipped, which enable nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from metastore.config.catalogs import OWN_CATALOG
from metastore.config.loader import Configuration, defaults
from metastore.config.section import Reading, Section, dotted
from metastore.config.units import parse_duration

_Reader = Callable[[Section, str], Any]


@dataclass(frozen=True)
class LayerValue:
    """One value of one layer: the key that it stands at, and the file."""

    value: Any
    key: str
    origin: str


Layer = Mapping[str, LayerValue]
"""Values by ``action.field``, such as ``expire_snapshots.older_than``; only those that the layer sets."""


@dataclass(frozen=True)
class PolicySettings:
    """The layers. ``named`` has those of catalogs, namespaces and tables by their dotted name: ``lake.shop.orders``.

    A name of one part is a catalog's. What is a namespace and what a table is told apart, since a catalog may have both
    under one name. ``plugins`` are the storage plugins: layers of their names are for tables in folders and databases.
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
    """Five or six fields are a cron expression, which the daemon's library reads; all else is an interval."""
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
    """Whether a schedule is a cron expression: five or six fields, or a name such as ``@daily``."""
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
    "analyze": _EVERY,
    "refresh": _EVERY,
}
"""The fields of every action, and how each is read. Everyone has the first six."""

_REQUIRED: Final = ("enabled", "schedule", "quiet")
_NAME: Final = re.compile(r"[^.\s]+(\.[^.\s]+)*")


def policy_settings(section: Section, catalogs: Collection[str], plugins: Collection[str]) -> PolicySettings:
    """The layers below ``drill.metastore.policies``; ``catalogs`` and storage ``plugins`` are the configured ones.

    Where both have a name it is the catalog's. Raises ConfigError for a wrong value, and for a layer of what is not
    configured.
    """
    shipped = Reading(Configuration([defaults()], {})).section(*section.key, "default")
    default = {**_layer(shipped), **_layer(section.section("default"))}
    for action in FIELDS:
        for name in _REQUIRED:
            if default[f"{action}.{name}"].value is None:
                holder = section.section("default").section(action)
                holder.required(name, None)
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
            yield f"{action}.{name}", LayerValue(read(inner, last), dotted(key), str(origin))
