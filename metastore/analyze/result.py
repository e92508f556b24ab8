"""The result of an ANALYZE as plain data, without imports from the rest of the package."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from metastore.ground.notebook import facts
from metastore.model.identity import TableInfo


@dataclass(frozen=True)
class AnalyzeResult:
    """What a run found and did.

    * ``status`` is "analyzed" or "up to date".
    * ``reason`` says why all files were affected, not only changed ones. It does not mean that all were read.
    * File counts compare the table with its metadata. If none of the metadata could be used, every file counts as new.
    * ``files`` is the number of files of the table, or of its parts that were named.
    * ``units`` is the number of units written. ``rows`` is the number of rows in the files, including rows that delete
      files remove. It is None if the log of a Delta table does not count the rows of every file.
    * ``version`` is the component's version that holds the result.
    * ``engine`` names the engine that read files; None if there were no files to read.
    * ``without_bounds`` maps each column that cannot skip files to the reason. It is empty if the run found nothing to
      do.
    * ``passed_over`` are the named paths where there is no data file and, as far as the metadata knows, was none.
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
    rows: int | None = 0
    seconds: float = 0.0
    reason: str | None = None
    engine: str | None = None
    without_bounds: Mapping[str, str] = field(default_factory=dict)
    passed_over: Sequence[str] = ()

    def _repr_html_(self) -> str:
        """The notebook view of the result; zero counts are left out."""
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
                ("paths without a data file", len(self.passed_over) or None),
                *((f"{column} cannot skip files", why) for column, why in self.without_bounds.items()),
                ("version", str(self.version)),
            ],
        )
