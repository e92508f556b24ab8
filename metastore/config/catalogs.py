"""Catalogs: the one that holds the component tables, and other catalogs for procedures and queries.

Place in the flow: ``settings`` opens the sections; this module turns each into a :class:`CatalogSettings`. Promises:
the kind is supported, the name is valid in SQL, the client accepts the URI of a Hive Metastore, and properties are not
part of ``repr``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, get_args
from urllib.parse import urlsplit

from metastore.config.section import Section, is_local

CatalogType = Literal["filesystem", "sql", "rest", "hive", "glue", "dynamodb", "bigquery", "in-memory"]
KINDS: Final[Mapping[str, CatalogType]] = {kind: kind for kind in get_args(CatalogType)}

OWN_CATALOG: Final = "metastore"
"""The reserved name of the component tables' catalog in procedures and queries."""

_NAME: Final = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class CatalogSettings:
    """One catalog; ``properties`` are PyIceberg's.

    ``namespace`` holds the component tables, as a tuple of levels; empty for other catalogs.
    """

    type: CatalogType
    name: str
    namespace: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


def catalogs_settings(section: Section, cwd: Path | None) -> dict[str, CatalogSettings]:
    """Read the catalogs below ``drill.metastore.catalogs``, by their names in SQL.

    Relative paths start at ``cwd``, or at the working directory if that is None. A catalog's ``name``, which SQL
    catalogs store in their rows, is the key by default.
    """
    return {key: _catalog(key, section, cwd) for key in section.sections()}


def check_hive(section: Section, uri: str, *, with_port: bool) -> None:
    """Raise ConfigError if ``uri`` is not an address of a Hive Metastore, or several with commas between.

    ``with_port``: the port is required, because the client has no default port.
    """
    for each in uri.split(","):
        try:
            address = urlsplit(each.strip())
            known = address.scheme == "thrift" and address.hostname and (address.port or not with_port)
        except ValueError:
            known = False
        if not known:
            raise section.refusal("uri", "an address such as thrift://host:9083 is expected, or several with commas")


def _catalog(key: str, catalogs: Section, cwd: Path | None) -> CatalogSettings:
    """The settings of one catalog; ConfigError names the key that it refuses. Null properties are left out."""
    section = catalogs.section(key)
    if key.lower() == OWN_CATALOG:
        raise catalogs.refusal(key, "this name is taken: it is the catalog of the component tables")
    if not _NAME.fullmatch(key):
        raise catalogs.refusal(key, "a catalog's name is letters, digits and underscores, and begins with no digit")
    if taken := [other for other in catalogs.sections() if other.lower() == key.lower() and other != key]:
        raise catalogs.refusal(key, f"the catalog {taken[0]} differs only in case, which SQL ignores")
    kind = section.choice("type", KINDS)
    if kind == "filesystem":
        section.text("warehouse")
    own = {"type", "name"}
    given = catalogs.properties(key).items()
    properties = {name: value for name, value in given if value is not None and name not in own}
    if kind == "hive" and "uri" in properties:
        check_hive(section, properties["uri"], with_port=True)
    warehouse = properties.get("warehouse", "")
    if is_local(warehouse):
        section.require_no_host("warehouse", warehouse)
    if kind == "filesystem" and (is_local(warehouse) or "://" not in warehouse):
        properties["warehouse"] = section.local_path("warehouse", warehouse, cwd)
    return CatalogSettings(kind, section.optional_text("name") or key, (), properties)
