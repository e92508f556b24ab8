"""Catalogs: the one that holds the component tables, and those of others that procedures and queries may name.

Place in the flow: ``settings`` opens the sections, this module turns each into a :class:`CatalogSettings`. Promises:
a kind is one that can be opened, a name is one that SQL can say, the URI of a Hive Metastore is one that its client
takes, and properties stay out of ``repr``.
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
"""The catalog of the component tables, as procedures and queries name it; no other may be called so."""

_NAME: Final = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class CatalogSettings:
    """Who keeps the pointers; ``properties`` are PyIceberg's.

    ``namespace`` is where the component tables are, by levels; empty for the catalogs of others.
    """

    type: CatalogType
    name: str
    namespace: tuple[str, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)


def catalogs_settings(section: Section, cwd: Path | None) -> dict[str, CatalogSettings]:
    """The catalogs below ``drill.metastore.catalogs``, by the names that SQL calls them.

    ``cwd`` is what relative paths are taken from, None for the working directory. A catalog's ``name``, which SQL
    catalogs keep in their rows, is by default the key.
    """
    return {key: _catalog(key, section, cwd) for key in section.sections()}


def check_hive(section: Section, uri: str, *, with_port: bool) -> None:
    """Refuse what is no address of a Hive Metastore, or none of several with commas between, as the key ``uri``.

    ``with_port``: the client has no port that it takes by itself.
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
    section = catalogs.section(key)
    if key.lower() == OWN_CATALOG:
        raise catalogs.refusal(key, "this name is taken: it is the catalog of the component tables")
    if not _NAME.fullmatch(key):
        raise catalogs.refusal(key, "a catalog's name is letters, digits and underscores, and begins with no digit")
    if taken := [other for other in catalogs.sections() if other.lower() == key.lower() and other != key]:
        raise catalogs.refusal(key, f"the catalog {taken[0]} differs only in case, which SQL does not see")
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
