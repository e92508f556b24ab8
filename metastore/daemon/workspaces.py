"""Tables of storage plugins for the daemon: listing them, when their files changed, and updating them.

Place in the flow: beside tables of catalogs, the loop lists tables of plugins here; :mod:`metastore.daemon.actions`
runs ``analyze`` and ``refresh``. Both end in one commit and can be repeated. So a run that lost its lease meanwhile
changes nothing that the next run would not change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from metastore.analyze.reading import Progress
from metastore.analyze.worklist import analyzed_tables, names_workspace, new_tables, searched_workspaces
from metastore.daemon.guard import Guard
from metastore.daemon.listing import Namespace, Trouble, catalog_of
from metastore.daemon.policy import TableName
from metastore.daemon.unmatched_policies import enables
from metastore.errors import MetastoreError
from metastore.model.identity import TableInfo
from metastore.session import Session
from metastore.sources.listing import list_files


def tables_of(session: Session, name: str, trouble: Trouble) -> Iterator[Namespace | TableName]:
    """Yields the tables of the catalog ``name`` or, if there is none, of the storage plugin ``name``."""
    if name in session.catalogs.names():
        return catalog_of(session.catalogs, name, trouble)
    return plugin_of(session, name, trouble)


def looked_after(session: Session) -> list[str]:
    """Returns the catalogs and storage plugins in which a policy enables any action."""
    policies = session.settings.policies
    return [name for name in (*session.catalogs.names(), *sorted(policies.plugins)) if enables(policies, name)]


def plugin_of(session: Session, plugin: str, trouble: Trouble) -> Iterator[Namespace | TableName]:
    """Yields every workspace of a storage plugin and its tables: analyzed ones, new ones, and materialized views.

    Folders of the preconfigured workspaces are listed only if a policy names the workspace.
    """
    settings = session.settings
    named = [*settings.policies.namespaces, *settings.policies.tables]
    known = [each for each in analyzed_tables(session.metastore.tables) if each.storage_plugin == plugin]
    views = [view for view in materialized_views(session) if view.storage_plugin == plugin]
    for workspace in sorted({*settings.storage[plugin].workspaces, *(each.workspace for each in (*known, *views))}):
        yield Namespace(plugin, workspace)
    yield from map(table_name, (*known, *views))
    for workspace in searched_workspaces(settings, plugin, lambda name: names_workspace(named, name)):
        try:
            yield from map(table_name, new_tables(settings, plugin, workspace, known))
        except MetastoreError as error:  # noqa: PERF203 - one bad workspace never hides the rest
            trouble(f"workspace {plugin}.{workspace}", error)


def materialized_views(session: Session) -> Sequence[TableInfo]:
    """Returns the names of all materialized views."""
    return [unit.info for unit in session.materialized_views.list()]


def table_name(table: TableInfo) -> TableName:
    """Returns the name that policies use for a table of a plugin."""
    return TableName(table.storage_plugin, table.workspace, table.name)


def table_info(table: TableName) -> TableInfo:
    """Returns the table of a plugin to which a policy's name refers."""
    return TableInfo(table.catalog, table.schema, table.name)


def changed_ms(session: Session, table: TableName) -> int | None:
    """Returns when the newest file of a table in a folder changed, in epoch ms; None if that is not known."""
    source = session.source(table_info(table))
    try:
        files = list_files(source.location, options=source.options, passed_over=source.passed_over).files
    except MetastoreError:  # it has no folder, or is a view
        return None
    return max((file.mtime_ns // 1_000_000 for file in files), default=None)


def progress_under(guard: Guard) -> Progress:
    """Returns what ANALYZE calls between files, so that ``guard`` may stop it there and before its commit."""
    return lambda done, of: guard.before_change() if done == of else guard.between()


def analyze(session: Session, table: TableName, guard: Guard, *, dry_run: bool) -> Mapping[str, Any]:
    """Update the metadata of a table; an empty result if it is up to date. ``guard`` may stop it between files."""
    if dry_run:
        return {"would": "analyze what changed"}
    done = session.analyze(table_info(table), on_progress=progress_under(guard))
    if done.status != "analyzed":
        return {}
    counted = (
        "files",
        "new",
        "changed",
        "removed",
        "rows",
        "segments_written",
        "segments_removed",
        "version",
        "engine",
    )
    return {name: getattr(done, name) for name in counted}


def refresh(session: Session, table: TableName, *, dry_run: bool) -> Mapping[str, Any]:
    """Update the rows of a materialized view. Returns an empty result if they are up to date."""
    if dry_run:
        return {"would": "refresh what changed"}
    done = session.materialized_views.refresh(table_info(table))
    if done.mode == "up to date":
        return {}
    return {name: getattr(done, name) for name in ("mode", "reason", "files", "rows", "version", "engine")}
