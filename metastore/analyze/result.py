"""What an ANALYZE came to: plain data, for whoever asked for it, and for who shows it and needs nothing of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from metastore.model.identity import TableInfo
from metastore.notebook import facts


@dataclass(frozen=True)
class AnalyzeResult:
    """What a run found and did. ``status`` is "analyzed" or "up to date".

    ``reason`` tells why all files were concerned, not only changed ones; which does not mean that all were read. File
    counts compare the table with its metadata; where nothing of it could be used, every file counts as new. ``units``
    counts those written, ``rows`` those that the files have, also if delete files take some of them away. ``version``
    is the component's version that holds the result. ``engine`` names the one that read files; None when there were
    none to read. ``without_bounds`` has the columns that cannot skip files, each with the reason; empty if the run
    found nothing to do.
    """

    status: str
    table: TableInfo
    version: int
    files: int
    new: int = 0
    changed: int = 0
    removed: int = 0
    segments_written: int = 0
    segments_removed: int = 0
    units: int = 0
    rows: int = 0
    seconds: float = 0.0
    reason: str | None = None
    engine: str | None = None
    without_bounds: Mapping[str, str] = field(default_factory=dict)

    def _repr_html_(self) -> str:
        """What was found and done, as a notebook shows it; what is nothing is left out."""
        counts = {
            "files": self.files,
            "new": self.new,
            "changed": self.changed,
            "removed": self.removed,
            "rows": self.rows,
            "metadata units": self.units,
        }
        return facts(
            f"{self.table}: {self.status}",
            [
                *((name, count or None) for name, count in counts.items()),
                ("time", f"{self.seconds:.2f} s"),
                ("engine", self.engine),
                ("all files concerned", self.reason),
                *((f"{column} cannot skip files", why) for column, why in self.without_bounds.items()),
                ("version", str(self.version)),
            ],
        )
