"""One action on one table: the call that performs it, under a guard, and its outcome.

Tables of catalogs are changed by procedures. The metastore's own tables are expired by their own handler, which also
removes version files. They need no rewriting, because each commit keeps their files in shape.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any, Final

from pyiceberg.table import Table

from metastore.components.expiration.handler import ExpirationHandler
from metastore.components.expiration.policy import ExpirationPolicy
from metastore.config.catalogs import OWN_CATALOG
from metastore.daemon import publications, workspaces
from metastore.daemon.gain import Facts
from metastore.daemon.guard import Guard, GuardedCatalogs, GuardedEngine, Looks, guard_table
from metastore.daemon.inquiry import Inquiries
from metastore.daemon.logs import message_of, unforeseen
from metastore.daemon.policy import WORKSPACE_ACTIONS, Action, ActionPolicy, TableName
from metastore.engines.traffic import Traffic, counting
from metastore.errors import MetastoreError, ProcedureError
from metastore.ground.epoch import millis_since_epoch
from metastore.lake.iceberg.snapshots.sweep import owns_its_files
from metastore.procedures.expire.expire import is_idle
from metastore.procedures.expire.retention import Retention
from metastore.procedures.files.due_deletions import tables_with_due
from metastore.procedures.files.guards import PUBLISHED
from metastore.procedures.framework.calls import Procedures
from metastore.session import Session

_log: Final = logging.getLogger(__name__)

PROCEDURES: Final[Mapping[Action, str]] = {
    Action.EXPIRE_SNAPSHOTS: "system.expire_snapshots",
    Action.REMOVE_ORPHAN_FILES: "system.remove_orphan_files",
    Action.REWRITE_MANIFESTS: "system.rewrite_manifests",
    Action.REWRITE_DATA_FILES: "system.rewrite_data_files",
    Action.OLD_METADATA: "system.remove_old_metadata",
    Action.PUBLISH: "system.publish_table",
    Action.ANALYZE: "analyze",
    Action.REFRESH: "refresh",
}
"""The call for each action: a procedure, or for the last two a method of the session."""

_DELETE_OLD: Final = "write.metadata.delete-after-commit.enabled"
_PREVIOUS: Final = "write.metadata.previous-versions-max"
_LISTED: Final = 20


@dataclass(frozen=True)
class ActionOutcome:
    """``status`` is the run's; ``result`` is what the procedure returned; ``error`` is why it failed or stopped early.

    ``defect`` is the exception itself if it is not a MetastoreError: the log shows its traceback. ``traffic`` counts
    the requests to object stores.
    """

    status: str
    procedure: str
    result: Mapping[str, Any] = field(default_factory=dict)
    error: str | None = None
    before: Facts = field(default_factory=Facts)
    after: Facts = field(default_factory=Facts)
    defect: Exception | None = None
    traffic: Traffic = field(default_factory=Traffic)


class Actions:
    """Performs actions on the tables of ``session``; with ``dry_run`` only reports what they would do.

    ``monotonic`` counts seconds. The guard asks ``lease`` and ``stopping``. ``inquiries`` limit the wait for a table
    that is loaded; if None, the catalog's own limits apply. Threads may share it, for different tables.
    """

    def __init__(
        self,
        session: Session,
        lease: Callable[[], None],
        stopping: Callable[[], bool],
        *,
        dry_run: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
        inquiries: Inquiries | None = None,
    ) -> None:
        self._session = session
        self._lease = lease
        self._stopping = stopping
        self._dry_run = dry_run
        self._monotonic = monotonic
        self._inquiries = inquiries
        self._looks = Looks(monotonic)
        self._changed: set[TableName] = set()

    def carry_out(self, table: TableName, policy: ActionPolicy) -> ActionOutcome:
        """Perform the action. Failures are part of the outcome; only exceptions that end the process are raised."""
        with counting() as counter:
            outcome = self._carried_out(table, policy)
        return replace(outcome, traffic=counter.so_far())

    def _carried_out(self, table: TableName, policy: ActionPolicy) -> ActionOutcome:
        """The outcome without traffic. Facts after a run are measured only if it changed the table."""
        began = self._monotonic()
        guard = Guard(self._lease, self._stopping, lambda: self._monotonic() - began, policy.budget)
        called = PROCEDURES[policy.action]
        name = called if policy.action in WORKSPACE_ACTIONS else f"{table.catalog}.{called}"
        before = Facts()
        try:
            if policy.action in WORKSPACE_ACTIONS:
                guard.before_change()
            pointer = None if table in self._changed else table.pointer
            seen = None if policy.action in WORKSPACE_ACTIONS else self._load(table, pointer)
            before = Facts() if seen is None else Facts.of(seen)
            result = self._act(_Call(self._procedures(guard), table, policy, guard, seen))
        except MetastoreError as error:
            status = guard.why or ("stopped" if self._stopping() else "failed")
            message = str(error) if guard.why else f"{error.code}: {error}"
            return ActionOutcome(status, name, _counts(guard), message, before, self._facts_if_any(table, before))
        except Exception as error:  # noqa: BLE001 - one bad table never stops the rest
            after = self._facts_if_any(table, before)
            return ActionOutcome("failed", name, _counts(guard), message_of(error), before, after, defect=error)
        if result or guard.why:
            self._changed.add(table)
        after = self._facts_if_any(table, before) if table in self._changed else before
        return ActionOutcome(guard.why or ("done" if result else "nothing"), name, result, guard.message, before, after)

    def _procedures(self, guard: Guard) -> Procedures:
        """The session's procedures, under ``guard``."""
        session = self._session
        return Procedures(
            GuardedCatalogs(session.catalogs, guard, self._inquiries, self._looks),
            session.settings,
            lambda files: GuardedEngine(session.engine_for(files), guard),
            session.metastore.clock.now_ms,
            registry=session.procedures.registry,
        )

    def _act(self, call: _Call) -> Mapping[str, Any]:
        """What the action returned; empty if there was nothing to do."""
        table, policy = call.table, call.policy
        if call.publishes and policy.action not in (Action.PUBLISH, Action.REMOVE_ORPHAN_FILES):
            return {}  # Publications alone change it, and they expire what they leave behind, if they live on.
        match policy.action:
            case Action.EXPIRE_SNAPSHOTS:
                return self._expire_component(call) if table.catalog == OWN_CATALOG else self._expire(call)
            case Action.REMOVE_ORPHAN_FILES:
                return self._remove_orphans(call)
            case Action.REWRITE_MANIFESTS:
                return self._rewrite_manifests(call)
            case Action.REWRITE_DATA_FILES:
                return self._rewrite_data_files(call)
            case Action.OLD_METADATA:
                return self._old_metadata(call)
            case Action.PUBLISH:
                return self._publish(call)
            case Action.ANALYZE:
                return workspaces.analyze(self._session, table, call.guard, dry_run=self._dry_run)
            case Action.REFRESH:
                return workspaces.refresh(self._session, table, dry_run=self._dry_run)

    def _expire(self, call: _Call) -> Mapping[str, Any]:
        """Expire snapshots; with a budget of bytes, a dry run says first how large each file is."""
        given = {
            "older_than": self._ago(call.option("older_than")),
            "retain_last": call.option("retain_last"),
            **call.owned_folders,
        }
        if self._is_idle(call, given["older_than"], given["retain_last"]):
            return {}
        if self._needs_sizes(call):
            [planned] = call.rows(**given, dry_run=True)
            call.guard.sizes = {file["location"]: file["bytes"] or 0 for file in planned["files"] or ()}
        [row] = call.rows(**given, dry_run=self._dry_run)
        if self._dry_run:
            files = call.guard.within([(file["location"], file["bytes"] or 0) for file in row["files"] or ()])
            row |= {"files": files, "deleted_bytes": sum(size for _, size in files)}
        row["files"] = len(row["files"] or ())
        if row["failed_files_count"] and not row["deleted_bytes"]:
            _log.warning("%s: %s", call.table, row["message"])
        return _unless_idle(
            {**row, **call.owned_folders}, ("expired_snapshots_count", "deleted_bytes", "failed_files_count")
        )

    def _is_idle(self, call: _Call, older_than: datetime | None, retain_last: int | None) -> bool:
        """Returns whether the table's metadata already shows that there is nothing to expire, nor to delete."""
        table = call.seen
        if table is None or not owns_its_files(table.metadata) or str(call.table) in self._with_due:
            return False
        bound = None if older_than is None else millis_since_epoch(older_than)
        return is_idle(table, Retention(bound, retain_last), self._session.metastore.clock.now_ms())

    @cached_property
    def _with_due(self) -> set[str]:
        return tables_with_due(self._session.metastore.deletions)

    def _expire_component(self, call: _Call) -> Mapping[str, Any]:
        component = self._session.metastore.components[call.table.name]
        policy = ExpirationPolicy(None, call.option("retain_last"), call.option("older_than"))
        handler = ExpirationHandler(guard_table(component.table, call.guard), policy, self._session.metastore.clock)
        expired = asdict(handler.expire(self._dry_run))
        expired["versions"] = len(expired["versions"])
        if component is self._session.metastore.materialized_views and not self._dry_run:
            call.guard.before_change()
            expired["earlier_rows"] = len(self._session.materialized_views.remove_unneeded())
        return _unless_idle(expired, tuple(expired))

    def _remove_orphans(self, call: _Call) -> Mapping[str, Any]:
        """Counts of orphans, and the first of them."""
        given = {
            "older_than": self._ago(call.option("older_than")),
            "allowed_locations": call.option("allowed_locations") or None,
            **call.owned_folders,
        }
        rows = self._delete_files(call, "orphan_file_location", **given)
        if rows is None:
            return {}
        some = [row["orphan_file_location"] for row in rows[:_LISTED]]
        return {"orphans": len(rows), **_counts_of_files(rows), "some": some, **call.owned_folders}

    def _delete_files(self, call: _Call, path: str, **arguments: Any) -> list[dict[str, Any]] | None:
        """The files in column ``path`` that the procedure found, of a dry run those within the budget; None if none.

        Raises ProcedureError if nothing proves that any of them may go.
        """
        if self._needs_sizes(call):
            planned = call.rows(**arguments, dry_run=True)
            call.guard.sizes = {row[path]: row["file_size_in_bytes"] for row in planned}
        rows = call.rows(**arguments, dry_run=self._dry_run)
        if not rows:
            return None
        _require_proof(rows)
        if self._dry_run:
            rows = rows[: len(call.guard.within([(row[path], row["file_size_in_bytes"] or 0) for row in rows]))]
        return rows

    def _needs_sizes(self, call: _Call) -> bool:
        """Whether a dry run has to say first how large each file is, so that the guard can count bytes."""
        return call.guard.budget.bytes is not None and not self._dry_run

    def _rewrite_manifests(self, call: _Call) -> Mapping[str, Any]:
        found = 0 if call.seen is None else _manifests(call.seen)
        if found < (call.option("min_manifests") or 1):
            return {}
        if self._dry_run:
            return {"manifests": found}
        [row] = call.rows()
        return _unless_idle(row, ("rewritten_manifests_count",))

    def _rewrite_data_files(self, call: _Call) -> Mapping[str, Any]:
        """Rewrite up to the budget; what an unbounded plan would have rewritten, too, is left in the guard."""
        budget = call.policy.budget
        options = {
            "target-file-size-bytes": call.option("target_file_size"),
            "min-input-files": call.option("min_input_files"),
            "max-files-to-rewrite": budget.files,
            "max-file-group-size-bytes": budget.bytes,
        }
        given = {name: str(value) for name, value in options.items() if value is not None}
        if budget.bytes is not None or budget.seconds is not None:
            # Groups are committed one at a time, so the work that fits the budget is kept.
            given |= {"partial-progress.enabled": "true", "max-concurrent-file-group-rewrites": "1"}
        wanted = 0
        if budget.files is not None:
            unbounded = {name: value for name, value in given.items() if name != "max-files-to-rewrite"}
            [planned] = call.rows(options=unbounded, dry_run=True)
            wanted = planned["rewritten_data_files_count"]
        [row] = call.rows(options=given, dry_run=self._dry_run)
        call.guard.leave(wanted - row["rewritten_data_files_count"] - row["failed_data_files_count"])
        if self._dry_run and budget.bytes is not None and row["rewritten_bytes_count"] > budget.bytes:
            row = _part_of(row, budget.bytes)
            call.guard.budget_error()
        return _unless_idle(
            row, ("rewritten_data_files_count", "removed_delete_files_count", "failed_data_files_count")
        )

    def _old_metadata(self, call: _Call) -> Mapping[str, Any]:
        """Set the properties that make writers clean up, then remove what is in no log any more."""
        wanted = {_DELETE_OLD: "true", _PREVIOUS: str(call.option("keep"))}
        present = {} if call.seen is None else call.seen.metadata.properties
        changed = {key: value for key, value in wanted.items() if present.get(key) != value}
        if not self._dry_run:
            for key, value in changed.items():
                call.rows("system.set_table_property", key=key, value=value)
        rows = self._delete_files(call, "metadata_file", **call.owned_folders)
        if rows is None:
            return changed
        return {**changed, **call.owned_folders, "metadata_files": len(rows), **_counts_of_files(rows)}

    def _publish(self, call: _Call) -> Mapping[str, Any]:
        if (source := call.publishes) is None:
            return {}
        if self._dry_run:
            return {"would": f"analyze what changed of {source}, and publish it"}
        watched = workspaces.progress_under(call.guard)
        row = publications.renew(self._session, source, str(call.table), call.procedures, watched)
        return {} if row["outcome"] == "unchanged" else row

    def _ago(self, age: timedelta | None) -> datetime | None:
        if age is None:
            return None
        now = datetime.fromtimestamp(self._session.metastore.clock.now_ms() / 1000, tz=timezone.utc)
        return now - age

    def _load(self, table: TableName, pointer: str | None = None) -> Table:
        def load() -> Table:
            target = self._session.catalogs.target(table.catalog, table.schema, table.name)
            return replace(target, pointer=pointer).load()

        if self._inquiries is None:
            return load()
        [loaded] = self._inquiries.ask(f"table {table}", lambda: [load()])
        return loaded

    def _facts_if_any(self, table: TableName, otherwise: Facts) -> Facts:
        try:
            return Facts() if table.catalog not in self._session.catalogs.names() else Facts.of(self._load(table))
        except Exception as error:  # noqa: BLE001 - why it cannot be read is told by the run, if by anything
            if unforeseen(error):
                _log.warning(
                    "the state of %s after the run could not be measured: %s", table, message_of(error), exc_info=error
                )
            return otherwise


@dataclass(frozen=True)
class _Call:
    """One action on one table; ``procedures`` run under its guard."""

    procedures: Procedures
    table: TableName
    policy: ActionPolicy
    guard: Guard
    seen: Table | None
    """The table as it was when the action began; None for a table of a storage plugin."""

    def option(self, name: str) -> Any:
        return self.policy.options[name]

    @property
    def publishes(self) -> str | None:
        """The table that this one publishes, if any."""
        return None if self.seen is None else self.seen.metadata.properties.get(PUBLISHED)

    @property
    def owned_folders(self) -> dict[str, list[str]]:
        """The folders that the policy declares to be the table's own, for the call and the history; often none."""
        folders = self.option("owned")
        return {"owned": folders} if folders else {}

    def rows(self, procedure: str | None = None, /, **arguments: Any) -> list[dict[str, Any]]:
        """Returns the rows of ``procedure``, or of the action's own, on the table. Drops arguments that are None."""
        name = f"{self.table.catalog}.{procedure or PROCEDURES[self.policy.action]}"
        given = {key: value for key, value in arguments.items() if value is not None}
        return self.procedures.call(name, schema=self.table.schema, table_name=self.table.name, **given).to_pylist()


def _manifests(table: Table) -> int:
    snapshot = table.metadata.current_snapshot()
    return len(snapshot.manifests(table.io)) if snapshot else 0


def _counts(guard: Guard) -> Mapping[str, Any]:
    return {"files": guard.files, "bytes": guard.bytes} if guard.files or guard.bytes else {}


def _counts_of_files(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """What became of files of one run, and their bytes as far as these are known."""
    return {
        "bytes": sum(row["file_size_in_bytes"] or 0 for row in rows),
        "deleted": sum(row["deleted"] for row in rows),
        "put_off": sum(row["put_off"] is not None for row in rows),
    }


def _require_proof(rows: Sequence[Mapping[str, Any]]) -> None:
    """Raise ProcedureError with the reason, if files were found and none of them may be deleted."""
    kept = [row["error"] for row in rows if row["error"]]
    if len(kept) == len(rows) and not any(row["deleted"] for row in rows):
        raise ProcedureError(f"{len(kept)} files were found and none was deleted: {kept[0]}")


def _unless_idle(row: Mapping[str, Any], counted: Sequence[str]) -> Mapping[str, Any]:
    """Returns ``row``; empty if all counts in ``counted`` say that nothing was done."""
    return row if any(row[name] for name in counted) else {}


def _part_of(row: Mapping[str, Any], size: int) -> dict[str, Any]:
    """Returns the part of a planned rewrite that fits ``size`` bytes: at least one file, all assumed equally large."""
    part = size / row["rewritten_bytes_count"]
    counts = ("rewritten_data_files_count", "added_data_files_count")
    fitting = {name: max(1, int(row[name] * part)) for name in counts}
    return {**row, **fitting, "rewritten_bytes_count": size}
