"""The tables that one run over many brings up to date: previously analyzed tables, and new ones in workspaces.

Place in the flow: ``Session.analyze_all`` and the daemon get the tables here and analyze one after the other. A new
table is a directory at the top of a workspace's folder that has data files and no metadata yet. A single file does not
count, since any file may be there. New tables of catalogs and databases are not looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from metastore.analyze.result import AnalyzeResult
from metastore.components.storage.own_folders import folders_within
from metastore.components.tables import Tables
from metastore.config import Settings
from metastore.config.own_workspaces import is_shipped
from metastore.errors import InvalidRequestError, MetastoreError
from metastore.model.identity import TableInfo
from metastore.model.vocabulary import MetadataType
from metastore.sources.listing import directories_at, list_files
from metastore.sources.naming import resolve, workspace_location

_NAME = ("storagePlugin", "workspace", "tableName")


@dataclass(frozen=True)
class TableOutcome:
    """The outcome for one table of a run over many: a ``result``, or the ``error`` that left the table unchanged."""

    table: TableInfo
    result: AnalyzeResult | None = None
    error: MetastoreError | None = None


def worklist(settings: Settings, tables: Tables, patterns: Sequence[str] = ()) -> list[TableInfo]:
    """The tables whose names match one of ``patterns`` (default: all), in order: those with metadata and new ones.

    Raises InvalidRequestError for a pattern that matches no table, StorageError for a workspace that cannot be listed.
    """
    known = analyzed_tables(tables)
    plugins = [name for name in settings.storage if not patterns or _may_be_of(patterns, name)]
    new = [
        table
        for plugin in plugins
        for workspace in searched_workspaces(settings, plugin, lambda name: names_workspace(patterns, name))
        for table in new_tables(settings, plugin, workspace, known)
    ]
    every = sorted({*known, *new})
    for pattern in patterns:
        if not matching(every, [pattern]):
            raise InvalidRequestError(
                f"no table fits {pattern!r}: plugin.workspace.table is expected, such as 'dfs.shop.*'"
            )
    return matching(every, patterns) if patterns else every


def analyze_each(tables: Iterable[TableInfo], analyze: Callable[[TableInfo], AnalyzeResult]) -> Iterator[TableOutcome]:
    """Runs ``analyze`` for each table, one after the other; an error in one table does not end the run."""
    for table in tables:
        try:
            yield TableOutcome(table, analyze(table))
        except MetastoreError as error:  # noqa: PERF203 - one bad table never stops the rest
            yield TableOutcome(table, error=error)


def analyzed_tables(tables: Tables) -> list[TableInfo]:
    """Every table that has metadata, sorted by name."""
    rows = tables.read().metadata_types(MetadataType.TABLE).columns(*_NAME).to_arrow().to_pylist()
    return sorted({TableInfo(*(row[name] for name in _NAME)) for row in rows})


def searched_workspaces(settings: Settings, plugin: str, named: Callable[[str], bool]) -> list[str]:
    """The workspaces of ``plugin`` whose folders may have new tables; none for a catalog or database.

    ``named`` says whether a workspace, ``plugin.workspace``, was requested by name. The shipped workspaces for ``/``
    and ``/tmp`` are searched only then.
    """
    storage = settings.storage[plugin]
    if not storage.enabled or not storage.kind.in_folders:
        return []
    return [
        name
        for name, workspace in storage.workspaces.items()
        if not is_shipped(plugin, workspace) or named(f"{plugin}.{name}")
    ]


def new_tables(settings: Settings, plugin: str, workspace: str, analyzed: Iterable[TableInfo]) -> Iterator[TableInfo]:
    """The tables in a workspace's folder that are not ``analyzed``. Raises StorageError if it cannot be listed.

    A folder that does not exist has no tables.
    """
    storage, taken = settings.storage[plugin], set(analyzed)
    location = workspace_location(storage, storage.workspaces[workspace])
    for name in directories_at(location, storage.properties):
        table = TableInfo(plugin, workspace, name)
        if table not in taken and _is_new(settings, table):
            yield table


def matching(tables: Iterable[TableInfo], patterns: Sequence[str]) -> list[TableInfo]:
    """The tables whose name ``plugin.workspace.table`` matches one of the shell ``patterns``.

    A pattern of one or two parts means all tables of a plugin or of a workspace.
    """
    # A star also matches dots.
    whole = [pattern if pattern.count(".") >= 2 else f"{pattern}.*" for pattern in patterns]
    return [table for table in tables if any(fnmatchcase(plain_name(table), pattern) for pattern in whole)]


def names_workspace(patterns: Sequence[str], workspace: str) -> bool:
    """Whether one of ``patterns`` names ``workspace`` (``plugin.workspace``) explicitly."""
    return any(".".join(pattern.split(".")[:2]) == workspace for pattern in patterns)


def is_pattern(text: str, settings: Settings) -> bool:
    """Whether ``text`` means several tables: it has ``*`` or ``?``, or is the name of a workspace."""
    if text.startswith(("/", ".")) or "://" in text:
        return False
    plugin, _, workspace = text.partition(".")
    known = settings.storage.get(plugin)
    return "*" in text or "?" in text or (known is not None and workspace in known.workspaces)


def _may_be_of(patterns: Sequence[str], plugin: str) -> bool:
    return any(fnmatchcase(plugin, pattern.partition(".")[0]) for pattern in patterns)


def plain_name(table: TableInfo) -> str:
    """The name of ``table`` without quotes, as patterns use it."""
    return f"{table.storage_plugin}.{table.workspace}.{table.name}"


def _is_new(settings: Settings, table: TableInfo) -> bool:
    """Whether there are data files, apart from the metastore's own."""
    source = resolve(settings.storage, table)
    own = folders_within(settings.iceberg, source.location)
    if "" in own:
        return False
    try:
        return bool(list_files(source.location, options=source.options, passed_over=own).files)
    except InvalidRequestError:  # the directory is a view
        return False
