"""What a published table says of itself, and whether it is as the last publication left it.

Place in the flow: a publication reads this first. Its state is in the manifests' headers: the segments that each holds,
with the state of their units. So it is carried over and expires with the manifests, and no snapshot grows by it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from pyiceberg.io import FileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table, TableProperties

from metastore.errors import InvalidRequestError, ProcedureError
from metastore.ground.threads import Threads
from metastore.lake.iceberg.catalogs.own_properties import OWN_PROPERTIES
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.manifests.manifest_reader import header_note
from metastore.lake.iceberg.manifests.manifests import live_count
from metastore.lake.iceberg.snapshots.sweep import GC_ENABLED
from metastore.lake.stores.locations import is_local
from metastore.lake.stores.spelling import Spelling, is_inside
from metastore.procedures.files.guards import PUBLISHED
from metastore.procedures.publishing.columns import PublishedColumns, published_columns

VERSION: Final = f"{OWN_PROPERTIES}published.version"
"""In the summary of each snapshot: the metastore's version that it publishes."""

FIELD_IDS: Final = f"{OWN_PROPERTIES}published.field-ids"
"""Property: whether files have field ids, which are then the table's."""

MILLISECONDS: Final = f"{OWN_PROPERTIES}published.milliseconds"
"""Property: whether a publication has accepted times in milliseconds, which all later ones then do."""

SEGMENTS: Final = f"{OWN_PROPERTIES}segments"
"""In the header of each manifest: a JSON object of its segments, each with the state of its units."""

_SCHEME: Final = "file://"
_READ_AT_ONCE: Final = 16
_KEPT_METADATA: Final = "20"


def new_properties(source: str, columns: PublishedColumns, format_version: int) -> Mapping[str, str]:
    """Returns the properties of a new published table."""
    return {
        GC_ENABLED: "false",
        PUBLISHED: source,
        **properties_of(columns),
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": _KEPT_METADATA,
        "format-version": str(format_version),
    }


def properties_of(columns: PublishedColumns) -> Mapping[str, str]:
    """Returns the properties that say what the schema does not: spellings, and what holds for all files."""
    accepted = {MILLISECONDS: "true"} if columns.milliseconds else {}
    return {
        FIELD_IDS: str(bool(columns.has_ids)).lower(),
        **accepted,
        TableProperties.DEFAULT_NAME_MAPPING: columns.mapping,
    }


def columns_of(table: Table) -> PublishedColumns:
    """Returns the columns of a published table."""
    metadata = table.metadata
    mapping = metadata.properties[TableProperties.DEFAULT_NAME_MAPPING]
    has_ids = metadata.properties.get(FIELD_IDS) == "true"
    found = published_columns(metadata.schema(), metadata.spec(), mapping, metadata.last_column_id, has_ids=has_ids)
    return replace(found, milliseconds=metadata.properties.get(MILLISECONDS) == "true")


def require_own(table: Table, target: TargetTable, source: str, *, replace: bool) -> None:
    """Raise ProcedureError for a table that does not publish ``source``, or that another program has changed.

    ``replace`` accepts such changes, which the publication then undoes.
    """
    metadata = table.metadata
    if (named := metadata.properties.get(PUBLISHED)) != source:
        what = "is no published table" if named is None else f"publishes {named}"
        raise ProcedureError(f"{target} {what}: choose another name for {source}, or drop that table first")
    snapshot = metadata.current_snapshot()
    if snapshot is None or replace:
        return
    last = next(
        (each for each in reversed(metadata.snapshots) if each.summary and each.summary[VERSION] is not None), None
    )
    if snapshot.summary is None or snapshot.summary[VERSION] is None:
        back = (
            ""
            if last is None
            else (
                f"CALL {target.catalog_name}.system.rollback_to_snapshot('{target.schema_name}', '{target.name}', "
                f"{last.snapshot_id}) takes it back; "
            )
        )
        raise ProcedureError(
            f"another program has written snapshot {snapshot.snapshot_id} of {target}, so nothing is published: {back}"
            "replace => true publishes all files anew over it"
        )
    if snapshot.schema_id != metadata.current_schema_id:
        raise ProcedureError(
            f"another program has changed the columns of {target} since snapshot {snapshot.snapshot_id}, so nothing is "
            "published: replace => true publishes all files anew"
        )


def require_apart(location: str, root: str, target: TargetTable) -> None:
    """Raise InvalidRequestError if the table's folder is at, above or below the data: a DROP would delete the files."""
    spelling = Spelling()
    folder, data = (spelling.place(f"{place.rstrip('/')}/") for place in (location, root))
    if is_inside(data, folder) or is_inside(folder, data):
        raise InvalidRequestError(
            f"{target} would lie at {location}, and the files at {root}: an engine that drops it would delete them. "
            "Publish into a catalog whose warehouse is elsewhere"
        )


@dataclass(frozen=True)
class PathSpelling:
    """Spells the paths of files for manifests: on a local disk as the table's own location is spelled."""

    prefix: str = ""

    @classmethod
    def of(cls, location: str, root: str) -> PathSpelling:
        """Returns the spelling for the table at ``location``."""
        return cls(_SCHEME if location.startswith("file:") and root.startswith("/") else "")

    def location(self, path: str) -> str:
        """Returns the location of a file of the units."""
        return self.prefix + path

    def path(self, location: str) -> str:
        """Returns the path in the units of a file of a manifest."""
        return location.removeprefix(self.prefix)


def unspellable(paths: Iterable[str]) -> Iterator[str]:
    """Yields the local paths that an engine cuts."""
    return (path for path in paths if is_local(path) and ("#" in path or "?" in path))


def segments_of(io: FileIO, manifests: Sequence[ManifestFile]) -> list[Mapping[str, str]]:
    """Returns the states of the segments of each of ``manifests``, by key; read from the headers."""
    paths = [manifest.manifest_path for manifest in manifests]

    def states(path: str) -> Mapping[str, str]:
        found: Mapping[str, str] = json.loads(header_note(io, path, SEGMENTS) or "{}")
        return found

    if not paths or is_local(paths[0]):
        return list(map(states, paths))
    with Threads(_READ_AT_ONCE) as threads:
        return list(threads.map(states, paths))


def note_of(states: Mapping[str, str]) -> str:
    """Returns the note of a manifest that holds segments in these states."""
    return json.dumps(states, ensure_ascii=False, separators=(",", ":"))


def live(manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
    """Returns the manifests that have live files."""
    return [manifest for manifest in manifests if live_count(manifest)]
