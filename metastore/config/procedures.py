"""What procedures on Iceberg tables may do by a call's arguments alone, and what only the configuration allows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from metastore.config.section import Section


@dataclass(frozen=True)
class ProcedureSettings:
    """``min_orphan_age``: no call takes a younger file for an orphan, since writers may be about to commit it.

    ``allowed_locations``: folders below which the properties of a table may lead the search for orphans.
    """

    min_orphan_age: timedelta = timedelta(hours=24)
    allowed_locations: tuple[str, ...] = ()


def procedure_settings(section: Section) -> ProcedureSettings:
    """The settings below ``drill.metastore.procedures``. Raises ConfigError for a time below zero."""
    age = section.required("min_orphan_age", section.duration("min_orphan_age"))
    if age < timedelta():
        raise section.refusal("min_orphan_age", "a time not below zero is expected")
    return ProcedureSettings(age, tuple(section.texts("allowed_locations")))
