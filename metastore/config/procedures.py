"""Limits of procedures on Iceberg tables that the arguments of a call cannot lift."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from metastore.config.section import Section


@dataclass(frozen=True)
class ProcedureSettings:
    """``min_orphan_age``: a younger file is never an orphan, since a writer may be about to commit it.

    ``allowed_locations``: folders below which procedures may delete files, beside those that a catalog gives. The
    search for orphans may enter them because a table's properties name them. ``deletion_delay``: how long a file waits
    on the list of deletions before it is deleted; zero means that none waits.
    """

    min_orphan_age: timedelta = timedelta(hours=24)
    allowed_locations: tuple[str, ...] = ()
    deletion_delay: timedelta = timedelta()


def procedure_settings(section: Section) -> ProcedureSettings:
    """Read the settings below ``drill.metastore.procedures``. Raises ConfigError for a negative time."""
    age = _not_negative(section, "min_orphan_age")
    delay = _not_negative(section.section("deletion"), "delay")
    return ProcedureSettings(age, tuple(section.texts("allowed_locations")), delay)


def _not_negative(section: Section, name: str) -> timedelta:
    time = section.require(name, section.duration(name))
    if time < timedelta():
        raise section.refusal(name, "a time not below zero is expected")
    return time
