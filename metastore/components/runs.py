"""The runs component: the history of the daemon's runs, one file for each day."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression, EqualTo, GreaterThanOrEqual, LessThan

from metastore.components.component import Component, ComponentDefinition
from metastore.components.operations.versions import on_newest
from metastore.errors import ConflictError
from metastore.model.run_unit import RunUnit
from metastore.model.vocabulary import MetadataType


def _of_types(types: frozenset[MetadataType]) -> BooleanExpression:
    """Runs have none of the metadata types of tables: only a read of all types returns them."""
    return AlwaysTrue() if MetadataType.ALL in types else AlwaysFalse()


RUNS = ComponentDefinition("runs", RunUnit, _of_types, _of_types, frozenset())


class Runs(Component[RunUnit]):
    """The history of the daemon's runs; each partition holds one day."""

    def since(self, day: str) -> list[RunUnit]:
        """Return all runs that began on ``day`` (``2026-11-20``, UTC) or later, oldest first."""
        read = self.read().metadata_types(MetadataType.ALL).filter(GreaterThanOrEqual("day", day))
        return sorted(read.execute(), key=lambda run: (run.started or 0, run.run_id or ""))

    def add(self, runs: Sequence[RunUnit]) -> int:
        """Add ``runs`` to their days, one commit for each day; returns the last version.

        Raises ConflictError when others kept adding, and the errors of :meth:`Modify.execute`.
        """
        days: dict[str, list[RunUnit]] = defaultdict(list)
        for run in runs:
            days[run.day or ""].append(run)
        version = self.metadata.version
        for day, of_day in sorted(days.items()):
            version = self._add(day, of_day)
        return version

    def forget_before(self, day: str) -> int:
        """Remove all days before ``day``; returns the version that is current afterwards."""
        return self.modify().delete(LessThan("day", day)).execute()

    def _add(self, day: str, runs: Sequence[RunUnit]) -> int:
        of_day = EqualTo("day", day)

        def attempt(version: int) -> int | ConflictError:
            present = self.read().metadata_types(MetadataType.ALL).filter(of_day).at(version).execute()
            return self.modify().overwrite([*present, *runs]).execute_unless_changed(version, of_day)

        lost = ConflictError(f"other writers kept adding runs of {day}; these were not written")
        return on_newest(self.metadata, attempt, lost)
