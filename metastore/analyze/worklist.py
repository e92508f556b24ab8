"""Which tables one run over many brings up to date: those that were analyzed before, and new ones in workspaces.

Place in the flow: ``Session.analyze_all`` and the daemon ask here, and analyze one table after the other. A new table
is a directory at the top of a workspace's folder that has data files and no metadata yet; a single file is none, since
any file may lie there. Tables of catalogs and databases that nobody analyzed are not looked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache

from metastore.analyze.result import AnalyzeResult
from metastore.components.tables import Tables
from metastore.config import Settings
from metastore.config.settings import WorkspaceSettings
from metastore.errors import InvalidRequestError, MetastoreError
from metastore.model.identity import TableInfo
from metastore.model.vocabulary import MetadataType
from metastore.sources.kinds import KINDS
from metastore.sources.listing import directories_at, list_files
from metastore.sources.naming import resolve, workspace_location
from metastore.storage.own_folders import folders_within

_NAME = ("storagePlugin", "workspace", "tableName")


@dataclass(frozen=True)
class TableOutcome:
    """What came of one table of a run over many: a ``result``, or the ``error`` that kept it as it was."""

    table: TableInfo
    result: AnalyzeResult | None = None
    error: MetastoreError | None = None


def worklist(settings: Settings, tables: Tables, patterns: Sequence[str] = ()) -> list[TableInfo]:
    """The tables whose names fit one of ``patterns``, or all of them, in order: those with metadata and new ones.

    Raises InvalidRequestError for a pattern that fits no table, StorageError for a workspace that cannot be listed.
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
    """What ``analyze`` makes of each table, one after the other; one that fails ends nothing."""
    for table in tables:
        try:
            yield TableOutcome(table, analyze(table))
        except MetastoreError as error:  # noqa: PERF203 - one bad table never stops the rest
            yield TableOutcome(table, error=error)


def analyzed_tables(tables: Tables) -> list[TableInfo]:
    """Every table that has metadata, in order of names."""
    rows = tables.read().metadata_types(MetadataType.TABLE).columns(*_NAME).to_arrow().to_pylist()
    return sorted({TableInfo(*(row[name] for name in _NAME)) for row in rows})


def searched_workspaces(settings: Settings, plugin: str, named: Callable[[str], bool]) -> list[str]:
    """The workspaces of ``plugin`` whose folders may have new tables; none of a catalog or database.

    ``named`` says of a workspace, ``plugin.workspace``, whether somebody asked for it by name: only then the folders of
    the shipped ones, ``/`` and ``/tmp``, are looked into.
    """
    storage = settings.storage[plugin]
    if not storage.enabled or not KINDS[storage.type].in_folders:
        return []
    shipped = _shipped_workspaces()
    return [
        name
        for name, workspace in storage.workspaces.items()
        if shipped.get((plugin, name)) != workspace or named(f"{plugin}.{name}")
    ]


def new_tables(settings: Settings, plugin: str, workspace: str, known: Iterable[TableInfo]) -> Iterator[TableInfo]:
    """Tables of a workspace in a folder that are not ``known``. Raises StorageError where it cannot be listed.

    A folder that is not there has no tables.
    """
    storage, taken = settings.storage[plugin], set(known)
    location = workspace_location(storage, storage.workspaces[workspace])
    for name in directories_at(location, storage.properties):
        table = TableInfo(plugin, workspace, name)
        if table not in taken and _is_new(settings, table):
            yield table


def matching(tables: Iterable[TableInfo], patterns: Sequence[str]) -> list[TableInfo]:
    """Those whose name ``plugin.workspace.table`` fits one of the shell ``patterns``.

    A pattern of one or two parts means all tables of a plugin or of a workspace.
    """
    whole = [_of_three_parts(pattern) for pattern in patterns]
    return [table for table in tables if any(fnmatchcase(plain_name(table), pattern) for pattern in whole)]


def names_workspace(patterns: Sequence[str], workspace: str) -> bool:
    """Whether one of ``patterns`` asks for ``workspace``, ``plugin.workspace``, by its name."""
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


def _of_three_parts(pattern: str) -> str:
    return pattern if pattern.count(".") >= 2 else f"{pattern}.*"  # a star stands for dots too


def plain_name(table: TableInfo) -> str:
    """The name of ``table`` without quotes, as patterns have it."""
    return f"{table.storage_plugin}.{table.workspace}.{table.name}"


def _is_new(settings: Settings, table: TableInfo) -> bool:
    """Whether there are files of data, which are not the metastore's own."""
    source = resolve(settings.storage, table)
    own = folders_within(settings.iceberg, source.location)
    if "" in own:
        return False
    try:
        return bool(list_files(source.location, options=source.options, passed_over=own).files)
    except InvalidRequestError:  # a view lies there
        return False


@cache
def _shipped_workspaces() -> Mapping[tuple[str, str], WorkspaceSettings]:
    plugins = Settings.from_mapping({}).storage.values()
    return {(plugin.name, name): workspace for plugin in plugins for name, workspace in plugin.workspaces.items()}
