"""Policies that match no table, mostly because a name is misspelled. Pure functions.

Whoever writes a policy expects that the daemon maintains those tables. A layer that matches no table is reported by its
key, with the most similar name. Layers of catalogs that could not be listed are not reported.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from metastore.config.policies import Layer, PolicySettings
from metastore.config.policy_effects import applies
from metastore.daemon.policy import TableName
from metastore.ground.suggestions import did_you_mean


@dataclass
class CatalogContents:
    """What listing the catalogs and plugins has found: their names, ``namespaces`` by name, and ``tables``.

    ``unknown`` are catalogs and namespaces that could not be listed completely.
    """

    catalogs: set[str] = field(default_factory=set)
    namespaces: set[str] = field(default_factory=set)
    tables: set[TableName] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class UnmatchedLayer:
    """One layer of policy that matches no table: the name it is for, its key, where it is set, and the reason."""

    name: str
    key: str
    origin: str
    reason: str

    def __str__(self) -> str:
        """Returns one sentence."""
        return f"the policy {self.key} ({self.origin}) matches nothing: {self.reason}"


def find_unmatched(settings: PolicySettings, seen: CatalogContents) -> list[UnmatchedLayer]:
    """Returns the layers for catalogs, namespaces and tables that match none of the tables ``seen``."""
    return [
        UnmatchedLayer(name, f"drill.metastore.policies.{kind}.{name}", next(iter(layer.values())).origin, reason)
        for kind, name, layer in _layers(settings)
        if layer and name.partition(".")[0] in seen.catalogs and (reason := _reason(kind, name, seen)) is not None
    ]


def enables(settings: PolicySettings, catalog: str) -> bool:
    """Returns whether a policy enables any action that is possible in that catalog or storage plugin."""
    layers: list[Layer] = [settings.default, settings.catalogs.get(catalog, {})]
    for named in (settings.namespaces, settings.tables):
        layers += [layer for name, layer in named.items() if name.startswith(f"{catalog}.")]
    return any(
        given.value and applies(name.removesuffix(".enabled"), catalog, settings.plugins)
        for layer in layers
        for name, given in layer.items()
        if name.endswith(".enabled")
    )


def _layers(settings: PolicySettings) -> Iterator[tuple[str, str, Layer]]:
    for kind, named in (
        ("catalogs", settings.catalogs),
        ("namespaces", settings.namespaces),
        ("tables", settings.tables),
    ):
        yield from ((kind, name, layer) for name, layer in named.items())


def _reason(kind: str, name: str, seen: CatalogContents) -> str | None:
    """Returns why the layer matches no table; None if it matches one, or if that is not known."""
    tables = {str(table) for table in seen.tables}
    if name in tables if kind == "tables" else any(table.startswith(f"{name}.") for table in tables):
        return None
    if any(name == each or name.startswith(f"{each}.") or each.startswith(f"{name}.") for each in seen.unknown):
        return None
    if kind == "catalogs":
        return f"catalog {name} has no tables"
    if kind == "namespaces":
        return f"namespace {name} has no tables" if name in seen.namespaces else _missing(name, seen.namespaces, kind)
    namespace = name.rpartition(".")[0]
    if namespace not in seen.namespaces:
        return _missing(namespace, seen.namespaces, "namespaces")
    return _missing(name, tables, kind)


def _missing(name: str, known_names: Collection[str], kind: str) -> str:
    return f"there is no {kind.removesuffix('s')} {name}{did_you_mean(name, sorted(known_names), most=1)}"
