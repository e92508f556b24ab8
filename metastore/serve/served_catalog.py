"""One catalog as it is served: its namespaces, tables and views, with the answers that are kept.

A metadata file never changes, so an answer made of it is kept by its tag: a warm load asks the catalog for the newest
pointer, and reads nothing else. The list that was made for a first page is kept for a minute for the pages after it.
Threads may share it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from cachetools import LRUCache, TTLCache
from pyiceberg.typedef import Identifier

from metastore.components.catalogs import Catalogs
from metastore.errors import NotFoundError
from metastore.lake.iceberg.catalogs.open_tables import FileCache
from metastore.lake.iceberg.catalogs.pointers import Pointer
from metastore.procedures.files.guards import PUBLISHED
from metastore.serve.answers import etag_of, loaded_table
from metastore.serve.freshness import FolderLooks, StalePublication
from metastore.serve.requests import Page, Snapshots

_POINTERS: Final = 10_000
_LISTS: Final = 4
_LIST_SECONDS: Final = 60


@dataclass(frozen=True)
class LoadedTable:
    """The answer to the load of one version of a table, and the name of the table that it publishes, if any."""

    etag: str
    body: bytes
    source: str | None


class ServedCatalog:
    """The catalog ``name`` of ``catalogs``; ``cache`` keeps the answers of all served catalogs.

    Without ``freshness``, published tables are served as they were published last.
    """

    def __init__(self, name: str, catalogs: Catalogs, cache: FileCache, freshness: FolderLooks | None = None) -> None:
        self.name = name
        self._catalogs = catalogs
        self._cache = cache
        self._freshness = freshness
        self._pointers: LRUCache[Identifier, Pointer] = LRUCache(_POINTERS)
        self._lists: TTLCache[tuple[str, Identifier], Sequence[str]] = TTLCache(_LISTS, _LIST_SECONDS)
        self._lock = threading.Lock()

    def namespaces(self, above: Identifier, page: Page | None) -> Sequence[str] | None:
        """Return the last levels of the namespaces below ``above``, sorted; None if ``above`` does not exist."""

        def names() -> Sequence[str] | None:
            if above and self.properties(above) is None:
                return None
            return sorted(each[-1] for each in self._catalogs.namespaces(self.name, above))

        return self._kept_list("namespaces", above, page, names)

    def properties(self, namespace: Identifier) -> Mapping[str, str] | None:
        """Return the properties of a namespace; None if it does not exist."""
        return self._catalogs.namespace_properties(self.name, namespace)

    def tables(self, namespace: Identifier, page: Page | None) -> Sequence[str] | None:
        """Return the tables of a namespace, sorted; None if it does not exist."""
        return self._kept_list("tables", namespace, page, lambda: self._catalogs.tables_in(self.name, namespace))

    def views(self, namespace: Identifier, page: Page | None) -> Sequence[str] | None:
        """Return the views of a namespace, sorted; None if it does not exist."""
        return self._kept_list("views", namespace, page, lambda: self._catalogs.views_in(self.name, namespace))

    def view(self, namespace: Identifier, name: str) -> Mapping[str, Any] | None:
        """Return the location and metadata of a view; None if it does not exist."""
        return self._catalogs.view_document(self.name, (*namespace, name))

    def pointer(self, namespace: Identifier, name: str) -> Pointer | None:
        """Return where the newest metadata of a table is, by one look at the catalog; None if there is no table."""
        key = (*namespace, name)
        with self._lock:
            known = self._pointers.get(key)
        try:
            found = self._catalogs.target_in(self.name, namespace, name).newest_version(known)
        except NotFoundError:
            return None  # No component of the metastore.
        with self._lock:
            if found is None:
                self._pointers.pop(key, None)
            else:
                self._pointers[key] = found
        return found

    def renew_table(
        self, namespace: Identifier, name: str, pointer: Pointer, snapshots: Snapshots
    ) -> StalePublication | None:
        """Bring a published table up to date, and return why it may not be; None for other tables as well.

        Raises as :meth:`load_table`, which says what the table publishes.
        """
        if self._freshness is None:
            return None
        loaded = self.load_table(namespace, name, pointer, snapshots)
        if loaded is None or loaded.source is None:
            return None
        return self._freshness.look(loaded.source, ".".join((self.name, *namespace, name)))

    def load_table(
        self, namespace: Identifier, name: str, pointer: Pointer, snapshots: Snapshots
    ) -> LoadedTable | None:
        """Return the answer for a loaded table, of the version at ``pointer`` or a newer one.

        None if the table was dropped since. Raises StorageError, FormatError.
        """
        kept = self._cache.find(etag_of(pointer, snapshots))
        if isinstance(kept, LoadedTable):
            return kept
        document = self._catalogs.target_in(self.name, namespace, name).newest_document()
        if document is None:
            return None
        etag = etag_of(document.pointer, snapshots)
        body = loaded_table(document.location, document.content, snapshots)
        loaded = LoadedTable(etag, body, (document.content.get("properties") or {}).get(PUBLISHED))
        self._cache.put(etag, loaded, len(body))
        return loaded

    def _kept_list(
        self, kind: str, namespace: Identifier, page: Page | None, names: Callable[[], Sequence[str] | None]
    ) -> Sequence[str] | None:
        """Return the list of ``names``; for pages after the first, the one that the first was cut from."""
        key = (kind, namespace)
        if page is not None and page.after is not None:
            with self._lock:
                kept = self._lists.get(key)
            if kept is not None:
                return kept
        found = names()
        if page is not None and found is not None and len(found) > page.size:
            with self._lock:
                self._lists[key] = found
        return found
