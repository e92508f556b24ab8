"""Every procedure of this package by its name, and where its factory stands; and those of installed packages.

A family is imported when one of its procedures is first needed. A package adds its own by entry points of the group
``metastore.procedures``: the name of each is ``schema.name``, for every catalog of Iceberg tables, or
``catalog.schema.name``, for that one; its value is a function without parameters that makes the procedure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from metastore.errors import InvalidRequestError
from metastore.procedures.framework.model import BaseProcedure
from metastore.procedures.framework.registry import Provider, Registry

GROUP: Final = "metastore.procedures"
"""Entry points of this group are procedures."""

ON_ICEBERG: Final[tuple[tuple[str, str], ...]] = (
    ("system.rollback_to_snapshot", "metastore.procedures.refs.snapshots:rollback_to_snapshot"),
    ("system.rollback_to_timestamp", "metastore.procedures.refs.snapshots:rollback_to_timestamp"),
    ("system.set_current_snapshot", "metastore.procedures.refs.snapshots:set_current_snapshot"),
    ("system.fast_forward", "metastore.procedures.refs.snapshots:fast_forward"),
    ("system.ancestors_of", "metastore.procedures.refs.snapshots:ancestors_of"),
    ("system.cherrypick_snapshot", "metastore.procedures.refs.cherrypick:cherrypick_snapshot"),
    ("system.publish_changes", "metastore.procedures.refs.cherrypick:publish_changes"),
    ("system.create_branch", "metastore.procedures.refs.branches:create_branch"),
    ("system.replace_branch", "metastore.procedures.refs.branches:replace_branch"),
    ("system.drop_branch", "metastore.procedures.refs.branches:drop_branch"),
    ("system.create_tag", "metastore.procedures.refs.branches:create_tag"),
    ("system.replace_tag", "metastore.procedures.refs.branches:replace_tag"),
    ("system.drop_tag", "metastore.procedures.refs.branches:drop_tag"),
    ("system.expire_snapshots", "metastore.procedures.expire.expire:expire_snapshots"),
    ("system.remove_orphan_files", "metastore.procedures.orphans.remove_orphans:remove_orphan_files"),
    ("system.remove_old_metadata", "metastore.procedures.orphans.old_metadata:remove_old_metadata"),
    ("system.rewrite_manifests", "metastore.procedures.tables.rewrite_manifests:rewrite_manifests"),
    ("system.add_files", "metastore.procedures.imports.add_files:add_files"),
    ("system.register_table", "metastore.procedures.tables.register:register_table"),
    ("system.unregister_table", "metastore.procedures.tables.register:unregister_table"),
    ("system.set_table_property", "metastore.procedures.tables.set_property:set_table_property"),
    ("system.compute_table_stats", "metastore.procedures.tables.table_stats:compute_table_stats"),
    ("system.drop_stats", "metastore.procedures.tables.drop_stats:drop_stats"),
    ("system.rewrite_table_path", "metastore.procedures.tables.rewrite_path:rewrite_table_path"),
    ("system.rewrite_data_files", "metastore.procedures.rewrite.procedure:rewrite_data_files"),
    ("system.migrate", "metastore.procedures.hive.migrate:migrate"),
    ("system.revert_migration", "metastore.procedures.hive.revert:revert_migration"),
    ("system.verify_migration", "metastore.procedures.hive.verify:verify_migration"),
    ("system.snapshot_table", "metastore.procedures.hive.snapshot:snapshot_table"),
    ("system.add_files_from_hive", "metastore.procedures.hive.add_files:add_files_from_hive"),
    ("system.sync_partition_metadata", "metastore.procedures.hive.partitions:sync_partition_metadata"),
    ("system.create_empty_partition", "metastore.procedures.hive.partitions:create_empty_partition"),
)
"""Procedures on Iceberg tables: in the catalog ``metastore``, and in every one of ``drill.metastore.catalogs``."""


def register_builtin(registry: Registry, catalogs: Iterable[str]) -> None:
    """Add the procedures of this package to each of ``catalogs``, which are of Iceberg tables."""
    for name, place in ON_ICEBERG:
        provider = Provider.at(name, place)
        for catalog in catalogs:
            registry.register(catalog, provider)


def register_installed(registry: Registry, catalogs: Iterable[str], found: Iterable[EntryPoint] | None = None) -> None:
    """Add the procedures that installed packages bring. Imports none of them.

    Raises InvalidRequestError for an entry point whose name is not one, or is taken.
    """
    for entry in entry_points(group=GROUP) if found is None else found:
        *of, schema, name = ["", *entry.name.split(".")]
        wanted = [catalog for catalog in catalogs if of in ([""], ["", catalog])]
        if len(of) > 2 or not (schema and name):
            raise InvalidRequestError(f"entry point {entry.name} of {GROUP}: [catalog.]schema.name is expected")
        provider = Provider(f"{schema}.{name}", _loaded(entry))
        for catalog in wanted:
            registry.register(catalog, provider)


def _loaded(entry: EntryPoint) -> Callable[[], BaseProcedure]:
    def make() -> BaseProcedure:
        made: BaseProcedure = entry.load()()
        return made

    return make
