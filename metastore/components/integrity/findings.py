"""The findings of a check, as plain data for people and programs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from metastore.ground.notebook import facts, grid

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """The problem of ``subject``, and the next step. An error must be fixed; a note is for information."""

    severity: Severity
    subject: str
    what: str
    next_step: str


@dataclass(frozen=True)
class CheckedComponent:
    """Versions, files and bytes that a component's table reaches; ``version`` is 0 if it has not been written yet."""

    name: str
    location: str
    version: int
    versions: int
    files: int
    bytes: int


@dataclass(frozen=True)
class CheckReport:
    """All components, and all findings."""

    components: tuple[CheckedComponent, ...]
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        """The number of findings that must be fixed."""
        return sum(finding.severity == "error" for finding in self.findings)

    def _repr_html_(self) -> str:
        """Shows the findings in a notebook."""
        rows = [(each.severity, each.subject, each.what, each.next_step) for each in self.findings]
        if not rows:
            return facts("Everything is in order.", ())
        return grid("Findings", ("severity", "subject", "what is wrong", "next step"), rows)


def some(findings: Iterable[Finding], most: int) -> list[Finding]:
    """Returns at most ``most`` findings; the last one gives the number of the rest."""
    listed = list(findings)
    if len(listed) <= most:
        return listed
    last = listed[most - 1]
    more = Finding(last.severity, last.subject, f"{len(listed) - most + 1:,} more of this kind", last.next_step)
    return [*listed[: most - 1], more]
