"""``check`` and ``repair``: whether the metastore is complete, and the return to its newest complete version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

from metastore.cli.incomplete import Incomplete

if TYPE_CHECKING:
    from metastore.session import Session


@dataclass(frozen=True)
class CheckedFiles:
    """Files that a component's table reaches; ``version`` is 0 if it has not been written yet."""

    name: str
    location: str
    version: int
    versions: int
    files: int
    bytes: int


@dataclass(frozen=True)
class ShownFinding:
    """One finding: ``severity`` is error, warning or note."""

    severity: str
    subject: str
    what: str
    next_step: str


@dataclass(frozen=True)
class CheckResult:
    """All components, and all findings."""

    components: tuple[CheckedFiles, ...]
    findings: tuple[ShownFinding, ...]


@dataclass(frozen=True)
class RepairedFiles:
    """The repair of one component, done or planned.

    See :class:`metastore.components.integrity.repair.RepairedComponent`.
    """

    name: str
    version: int | None
    aside: Mapping[str, str]
    hint: int | None
    lost: int
    obstacle: str | None


@dataclass(frozen=True)
class RepairResult:
    """The components that needed a repair; ``moved_to`` is the folder to which version files move."""

    dry_run: bool
    components: tuple[RepairedFiles, ...]
    moved_to: str | None


def check(session: Session, timeout: float | None = None) -> CheckResult | Incomplete:
    """Returns the findings of :meth:`Session.check`, as Incomplete if there are errors. ``timeout`` is in seconds."""
    report = session.check(None if timeout is None else timedelta(seconds=timeout))
    limit = session.settings.daemon.answer_timeout.total_seconds() if timeout is None else timeout
    checked = CheckResult(
        tuple(CheckedFiles(**vars(each)) for each in report.components),
        (*(ShownFinding(**vars(each)) for each in report.findings), *_of_policies(session, limit)),
    )
    if not report.errors:
        return checked
    return Incomplete(checked, f"{report.errors} of {len(report.findings)} findings must be fixed")


def _of_policies(session: Session, limit_s: float) -> Iterator[ShownFinding]:
    """Returns policies that match nothing, of the catalogs that answer in time."""
    from metastore.daemon.inquiry import Inquiries  # noqa: PLC0415 - for this command alone
    from metastore.daemon.listing import look_at  # noqa: PLC0415 - as above
    from metastore.daemon.unmatched_policies import find_unmatched  # noqa: PLC0415 - as above
    from metastore.daemon.workspaces import looked_after, tables_of  # noqa: PLC0415 - as above

    policies = session.settings.policies
    seen, _ = look_at(partial(tables_of, session), looked_after(session), Inquiries(limit_s))
    for each in find_unmatched(policies, seen):
        yield ShownFinding("warning", each.key, f"matches nothing: {each.reason}", f"fix or remove it ({each.origin})")


def repair(session: Session, *, dry_run: bool = False) -> RepairResult | Incomplete:
    """Runs :meth:`Session.repair`; returns Incomplete if a component cannot be repaired."""
    report = session.repair(dry_run=dry_run)
    done = RepairResult(
        report.dry_run, tuple(RepairedFiles(**vars(each)) for each in report.components), report.moved_to
    )
    if not report.obstacles:
        return done
    return Incomplete(done, f"{report.obstacles} of {len(report.components)} damaged components cannot be repaired")
