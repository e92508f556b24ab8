"""The procedures of this package, and those of installed packages.

Each procedure is declared in its own module and nowhere else. A new module must be added to :data:`MODULES`; these are
imported when a session first needs a procedure. Other packages add procedures by entry points of the group
``metastore.procedures``. The name of an entry point is ``schema.name``, for every catalog of Iceberg tables, or
``catalog.schema.name``, for one catalog. Its value is the procedure, or a function without parameters that makes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from itertools import chain
from typing import Any, Final

from metastore.errors import InvalidRequestError
from metastore.procedures.framework.model import BaseProcedure
from metastore.procedures.framework.registry import Provider, Registry

_log: Final = logging.getLogger(__name__)

GROUP: Final = "metastore.procedures"
"""The group of entry points that declare procedures."""

MODULES: Final = (
    "metastore.procedures.refs.snapshots",
    "metastore.procedures.refs.cherrypick",
    "metastore.procedures.refs.branches",
    "metastore.procedures.expire.expire",
    "metastore.procedures.orphans.remove_orphans",
    "metastore.procedures.orphans.old_metadata",
    "metastore.procedures.imports.add_files",
    "metastore.procedures.tables.rewrite_manifests",
    "metastore.procedures.tables.register",
    "metastore.procedures.tables.set_property",
    "metastore.procedures.tables.upgrade",
    "metastore.procedures.tables.table_stats",
    "metastore.procedures.tables.partition_stats",
    "metastore.procedures.tables.drop_stats",
    "metastore.procedures.tables.rewrite_path",
    "metastore.procedures.tables.changelog_view",
    "metastore.procedures.tables.invalidate_caches",
    "metastore.procedures.rewrite.procedure",
    "metastore.procedures.deletes.convert_equality",
    "metastore.procedures.deletes.rewrite_positions",
    "metastore.procedures.hive.migrate",
    "metastore.procedures.hive.revert",
    "metastore.procedures.hive.verify",
    "metastore.procedures.hive.snapshot",
    "metastore.procedures.hive.add_files",
    "metastore.procedures.hive.partitions",
    "metastore.procedures.publishing.publish",
    "metastore.procedures.publishing.unpublish",
    "metastore.procedures.publishing.publications",
)
"""Modules that declare procedures on Iceberg tables, for the catalog ``metastore`` and each configured catalog."""


def declared_in(modules: Iterable[str]) -> list[BaseProcedure]:
    """Returns every procedure that one of the modules defines."""
    values = chain.from_iterable(vars(import_module(module)).values() for module in modules)
    return list({id(each): each for each in values if isinstance(each, BaseProcedure)}.values())


def register_builtin(registry: Registry, catalogs: Iterable[str]) -> None:
    """Add the procedures of this package to each of ``catalogs``, which hold Iceberg tables."""
    for each in declared_in(MODULES):
        provider = Provider.of(each)
        for catalog in catalogs:
            registry.register(catalog, provider)


def register_installed(registry: Registry, catalogs: Iterable[str], found: Iterable[EntryPoint] | None = None) -> None:
    """Add the procedures of installed packages. Imports none of them.

    One whose name is malformed or already registered is left out, with a warning that names its package.
    """
    for entry in entry_points(group=GROUP) if found is None else found:
        try:
            _register(registry, catalogs, entry)
        except InvalidRequestError as error:  # noqa: PERF203 - one package must not stop the others
            package = entry.dist.name if entry.dist is not None else "unknown"
            _log.warning("the procedure %s of the installed package %s is left out: %s", entry.name, package, error)


def _register(registry: Registry, catalogs: Iterable[str], entry: EntryPoint) -> None:
    *of, schema, name = ["", *entry.name.split(".")]
    wanted = [catalog for catalog in catalogs if of in ([""], ["", catalog])]
    if len(of) > 2 or not (schema and name):
        raise InvalidRequestError(f"entry point {entry.name} of {GROUP}: [catalog.]schema.name is expected")
    provider = Provider(f"{schema}.{name}", _loader_of(entry))
    for catalog in wanted:
        registry.register(catalog, provider)


def _loader_of(entry: EntryPoint) -> Callable[[], BaseProcedure]:
    def make() -> BaseProcedure:
        loaded: Any = entry.load()
        made: BaseProcedure = loaded if isinstance(loaded, BaseProcedure) else loaded()
        return made

    return make
