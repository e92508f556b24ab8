"""The health of a table: a score from 0 to 100 for each part, and the lowest of them for the table.

A part scores 100 up to its good value and 0 from its bad value on. Between them the score falls evenly, for counts and
sizes on a logarithmic scale. :data:`PARTS` has the values. Nothing is changed. Orphans are counted only on request,
because that lists all folders of the table.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table

from metastore.config.catalogs import OWN_CATALOG
from metastore.daemon.listing import every_table
from metastore.daemon.logs import message_of, unforeseen
from metastore.daemon.policy import TableName
from metastore.errors import FormatError
from metastore.lake.iceberg.manifests.manifest_reader import read_list, read_live_entries
from metastore.lake.iceberg.manifests.partition_key import partition_key
from metastore.session import Session

_log: Final = logging.getLogger(__name__)

_TARGET_PROPERTY: Final = "write.target-file-size-bytes"
_TARGET: Final = 512 << 20
_FEW_FILES: Final = 5


@dataclass(frozen=True)
class HealthPart:
    """One part: what it measures, up to which value it is good, and from which value on it is bad."""

    name: str
    meaning: str
    good: float
    bad: float
    by_magnitude: bool = True

    def score(self, value: float) -> int:
        """From 100 (good) to 0 (bad)."""
        if value <= self.good:
            return 100
        if value >= self.bad:
            return 0
        scale = math.log if self.by_magnitude else float
        low, high = scale(self.good), scale(self.bad)
        return round(100 * (high - scale(value)) / (high - low))


PARTS: Final[Mapping[str, HealthPart]] = {
    part.name: part
    for part in (
        HealthPart("snapshots", "snapshots that are kept", 100, 2_000),
        HealthPart(
            "small_files", "fraction of the data files that rewriting would save", 0.2, 0.95, by_magnitude=False
        ),
        HealthPart("manifests", "manifests of the current snapshot", 50, 2_000),
        HealthPart("metadata_bytes", "size of the current metadata.json", 1_000_000, 50_000_000),
        HealthPart(
            "orphans", "bytes of unreferenced files, as a fraction of the data's bytes", 0.02, 0.5, by_magnitude=False
        ),
    )
}
"""The parts of a score, with their thresholds."""

COLUMNS: Final = ("table", "score", *(name for part in PARTS for name in (part, f"{part}_score")), "error")


def health_of(session: Session, table: TableName | None, *, count_orphans: bool) -> Iterator[dict[str, Any]]:
    """Returns a row for ``table``, or for every table of every catalog, worst first. A table that fails has an error.

    Raises NotFoundError if ``table`` does not exist.
    """
    if table is not None:
        yield _row(table, _measure_table(session, table, count_orphans=count_orphans))
        return
    rows = [_score_or_error(session, each, count_orphans=count_orphans) for each in every_table(session.catalogs, warn)]
    yield from sorted(rows, key=lambda row: (-1 if row["score"] is None else row["score"], row["table"]))


def warn(place: str, error: Exception) -> None:
    """Log that a catalog or namespace does not answer."""
    _log.warning("%s is skipped: %s", place, message_of(error), exc_info=unforeseen(error))


def _score_or_error(session: Session, table: TableName, *, count_orphans: bool) -> dict[str, Any]:
    try:
        return _row(table, _measure_table(session, table, count_orphans=count_orphans))
    except Exception as error:  # noqa: BLE001 - one bad table never hides the rest
        if unforeseen(error):
            _log.warning("%s cannot be scored: %s", table, message_of(error), exc_info=error)
        return {**dict.fromkeys(COLUMNS), "table": str(table), "error": message_of(error)}


def _row(table: TableName, measured: Mapping[str, float]) -> dict[str, Any]:
    scores = {name: PARTS[name].score(value) for name, value in measured.items()}
    row: dict[str, Any] = {**dict.fromkeys(COLUMNS), "table": str(table), "score": min(scores.values())}
    for name, value in measured.items():
        row |= {name: value if isinstance(value, int) else round(value, 3), f"{name}_score": scores[name]}
    return row


def _measure_table(session: Session, name: TableName, *, count_orphans: bool) -> dict[str, float]:
    """Returns the value of each part that is known."""
    table = session.catalogs.load(name.catalog, name.schema, name.name)
    found: dict[str, float] = {"snapshots": len(table.metadata.snapshots)}
    found["metadata_bytes"] = len(table.io.new_input(table.metadata_location))
    snapshot = table.metadata.current_snapshot()
    size = 0
    if snapshot is not None:
        try:
            manifests = read_list(table.io, snapshot.manifest_list)
            files = [entry.data_file for each in manifests for entry in read_live_entries(table.io, each)]
        except FileNotFoundError as error:
            raise FormatError(f"a file of the current snapshot of {name} is missing: {error}") from error
        data = [file for file in files if file.content == DataFileContent.DATA]
        size = sum(file.file_size_in_bytes for file in data)
        found["manifests"] = len(manifests)
        if name.catalog != OWN_CATALOG:  # Component tables have one file in each partition by design.
            partitions = len({partition_key(file.spec_id, file.partition) for file in data})
            found["small_files"] = small_files(len(data), size, partitions, _target(table))
    if count_orphans:
        call = f"{name.catalog}.system.remove_orphan_files"
        rows = session.call(call, schema=name.schema, table_name=name.name, dry_run=True).to_pylist()
        orphaned = sum(row["file_size_in_bytes"] or 0 for row in rows)
        found["orphans"] = orphaned / max(1, orphaned + size)
    return found


def small_files(files: int, size: int, partitions: int, target: int) -> float:
    """Returns the share of files that fewer files of ``target`` bytes a partition would save; 0 for a few files."""
    ideal = max(partitions, math.ceil(size / target))
    return max(0.0, (files - ideal) / files) if files >= _FEW_FILES else 0.0


def _target(table: Table) -> int:
    text = table.metadata.properties.get(_TARGET_PROPERTY, "")
    return int(text) if text.isdecimal() and int(text) else _TARGET
