"""The components: each has its own folder below the base location, and its table properties.

Place in the flow: ``settings`` opens ``drill.metastore.iceberg.components``; this module reads each one. Promises: no
folder is inside another or inside the daemon's, and the properties include the common ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from metastore.config.section import Section, join_key
from metastore.config.table_properties import PropertyDoubt, doubts, versions_kept

_COMPONENTS: Final = ("tables", "views", "materialized_views", "runs")
LEASE_FOLDER: Final = "daemon"
"""The folder of the daemon's lease below the base location."""

DAMAGED_FOLDER: Final = "damaged"
"""The folder below the base location to which ``metastore repair`` moves damaged version files."""


DELETIONS_FOLDER: Final = "deletions"
"""The folder of the list of deletions that are put off, below the base location."""

_RESERVED: Final = {
    LEASE_FOLDER: "the daemon keeps its lease",
    DAMAGED_FOLDER: "metastore repair keeps damaged files",
    DELETIONS_FOLDER: "the metastore keeps its list of deletions",
}


@dataclass(frozen=True)
class ComponentSettings:
    """``location`` is a folder below the base location; ``properties`` (Iceberg's) include the common ones."""

    name: str
    location: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def versions_kept(self) -> int | None:
        """Number of versions kept after each commit, by the table properties; None if a commit deletes none."""
        return versions_kept(self.properties)


def components_settings(section: Section) -> dict[str, ComponentSettings]:
    """Read the components, by name. Raises ConfigError for folders inside each other, and for invalid properties."""
    common = section.section("common").properties("properties")
    _require_usable(section.section("common"), common)
    components: dict[str, ComponentSettings] = {}
    for name in _COMPONENTS:
        component = section.section(name)
        location = "/".join(part for part in component.text("location").split("/") if part)
        if {"", ".", ".."} & set(location.split("/")):
            raise component.refusal("location", "a folder below the base location is expected")
        if reserved := _RESERVED.get(location.partition("/")[0]):
            raise component.refusal("location", f"{reserved} in this folder; choose another")
        for other in components.values():
            if _holds(other.location, location) or _holds(location, other.location):
                key = f"{join_key(section.key)}.{other.name}.location"
                raise component.refusal(
                    "location",
                    f"it lies within {key} = {other.location}, or the other way round: choose separate folders",
                )
        own = component.properties("properties")
        _require_usable(component, own)
        properties = _without_nulls({**common, **own})
        components[name] = ComponentSettings(name, location, properties)
    return components


def _require_usable(component: Section, properties: Mapping[str, str | None]) -> None:
    """Raise ConfigError for table properties with invalid values."""
    for doubt in doubts(_without_nulls(properties)):
        if doubt.is_refused:
            key = (*component.key, "properties", *doubt.name.split("."))
            raise component.reading.refusal(key, doubt.value, doubt.reason)


def property_notes(components: Mapping[str, ComponentSettings]) -> Iterator[str]:
    """Returns a sentence for each table property without effect, with the components that set it."""
    found: dict[PropertyDoubt, list[str]] = {}
    for name, component in components.items():
        for doubt in doubts(component.properties):
            found.setdefault(doubt, []).append(name)
    for doubt, names in found.items():
        which = "common" if len(names) == len(components) else ",".join(names)
        yield (f"drill.metastore.iceberg.components.{which}.properties.{doubt.name} = {doubt.value}: {doubt.reason}")


def _holds(folder: str, other: str) -> bool:
    """Returns whether ``other`` is ``folder`` or inside it."""
    return f"{other}/".startswith(f"{folder}/")


def _without_nulls(properties: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in properties.items() if value is not None}
