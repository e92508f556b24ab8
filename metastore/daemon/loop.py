"""The loop: get the lease, find the actions that are due, hand them to workers, record them, and wait.

:mod:`metastore.daemon.decide` decides what is due; this module combines tables, policies and history, and acts. A table
that fails and a catalog that does not answer are reported and skipped, whatever the error. So one defect does not stop
the care for all other tables. Work that outlasts an interval goes on beside the next pass, which leaves its table
alone. The clock and the waiting are injected.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from threading import get_ident
from typing import Any, Final

from metastore.config.policies import PolicySettings
from metastore.config.policy_effects import applies
from metastore.daemon.actions import ActionOutcome, Actions
from metastore.daemon.decide import Decision, Situation, decide, due
from metastore.daemon.events import EventHints, EventQueue
from metastore.daemon.gain import Facts
from metastore.daemon.history import History, day_of
from metastore.daemon.inquiry import Inquiries
from metastore.daemon.lease import RENEWALS, Election, Heartbeat
from metastore.daemon.listing import look_at
from metastore.daemon.logs import message_of, unforeseen
from metastore.daemon.policy import WORKSPACE_ACTIONS, Action, TableName, policies
from metastore.daemon.schedule import Schedule
from metastore.daemon.state import Pass, State
from metastore.daemon.unmatched_policies import UnmatchedLayer, find_unmatched
from metastore.daemon.workers import Workers, turns
from metastore.daemon.workspaces import changed_ms, looked_after, materialized_views, table_name, tables_of
from metastore.errors import ConflictError
from metastore.model.run_unit import RunUnit
from metastore.session import Session

_log: Final = logging.getLogger(__name__)

_LOOKS_OF_ONE_PASS: Final = 5
"""How many times a single pass asks for the lease, within the time after which an abandoned lease is free."""


def check_schedules(settings: PolicySettings) -> None:
    """Raise ConfigError for a wrong cron expression in any layer of policy; it names the key and the file."""
    named = (settings.catalogs, settings.namespaces, settings.tables)
    layers = (settings.default, *(layer for group in named for layer in group.values()))
    for layer in layers:
        for name, given in layer.items():
            if name.endswith(".schedule"):
                Schedule(given.value).check(given.key, given.origin)


@dataclass(frozen=True)
class Surroundings:
    """Functions that the process gives to the loop: whether to stop, how to wait (seconds), and a clock in seconds."""

    stopping: Callable[[], bool]
    wait: Callable[[float], object]
    monotonic: Callable[[], float]


class Daemon:
    """One daemon over the tables of ``session``. After a reload, :meth:`renew` gives it a new session.

    ``since_ms`` is the start of the daemon; None for a single pass.
    """

    def __init__(
        self,
        session: Session,
        election: Election,
        around: Surroundings,
        state: State,
        *,
        since_ms: int | None = None,
    ) -> None:
        self._election = election
        self._around = around
        self._since_ms = since_ms
        self.state = state
        state.lease = election.view
        self._inquiries = Inquiries(0, self._wait_for, around.stopping)
        self.renew(session)

    def renew(self, session: Session) -> None:
        """Continue with ``session`` and its settings."""
        self._session = session
        self._settings = session.settings.daemon
        self.state.interval = self._settings.interval
        self._inquiries.limit_s = self._settings.answer_timeout.total_seconds()
        self._now_ms = session.metastore.clock.now_ms
        self._workers = Workers(self._settings.workers, self._carry_out)
        self._history = History(session.metastore.runs, self._now_ms, self._settings.keep_runs)
        self._history_known = False
        queue = self._settings.events_queue
        self._hints = EventHints(None if queue is None else EventQueue(queue), self.state.events)

    def run(self, between: Callable[[], object]) -> None:
        """Run until the process stops. ``between`` is called before every pass and may renew the session."""
        while not self._around.stopping():
            between()
            if not self._lead(between):
                self._around.wait(self._election.duration_s / RENEWALS)

    def once(self) -> Sequence[RunUnit]:
        """Make one pass. Raises ConflictError if another daemon holds the lease, and errors that end the pass early."""
        for look in range(_LOOKS_OF_ONE_PASS + 1):
            if look:
                self._around.wait(self._election.duration_s / (_LOOKS_OF_ONE_PASS - 1))
            if self._election.campaign() is not None:
                break
            if self._around.stopping():
                return []
        else:
            raise ConflictError("another daemon holds the lease and is active; nothing was done")
        with ExitStack() as term:
            term.callback(self._election.release)
            term.enter_context(Heartbeat(self._election))
            return self._pass()

    def dry(self) -> Sequence[RunUnit]:
        """Returns what a pass would do now. It changes nothing and needs no lease."""
        self._history.load()
        actions = self._new_actions(dry_run=True)
        return [self._run(actions, decision) for decision in self._due()]

    def _new_actions(self, *, dry_run: bool = False) -> Actions:
        lease = (lambda: None) if dry_run else self._election.check
        return Actions(self._session, lease, self._around.stopping, dry_run=dry_run, inquiries=self._inquiries)

    def _carry_out(self, decision: Decision) -> RunUnit | None:
        """Carry out one action in a worker; None if it is left for another pass."""
        if not self._goes_on() or self._is_silent(decision.situation.table.catalog):
            return None
        return self._run(self._actions, decision)

    def _goes_on(self) -> bool:
        """Whether actions may begin: the process does not end, and this daemon holds the lease."""
        return not self._around.stopping() and self._election.token is not None

    def _lead(self, between: Callable[[], object]) -> bool:
        """Work while the lease is held. Returns False if another daemon holds it."""
        try:
            token = self._election.campaign()
        except Exception as error:  # noqa: BLE001 - it is asked for again
            self._election.view.record_failure("the lease cannot be requested", error)
            self._trouble("the lease cannot be requested: %s", error)
            return False
        if token is None:
            return False
        _log.info("this daemon is active now, with token %d", token)
        self._history_known = False
        with ExitStack() as term:
            term.callback(self._election.release)
            term.enter_context(Heartbeat(self._election))
            while self._election.token is not None and not self._around.stopping():
                self._show_life()
                self.state.token = self._election.token
                try:
                    self._pass(to_the_end=False)
                except Exception as error:  # noqa: BLE001 - the next pass may fare better
                    self._trouble("this pass ended early: %s", error)
                self._around.wait(self._settings.interval.total_seconds())
                if not self._workers.busy:  # they have the session
                    between()
            while self._workers.busy:
                self._record_ended()
            self._history.write()  # what ended after the last pass
        self.state.token = None
        return True

    def _pass(self, *, to_the_end: bool = True) -> list[RunUnit]:
        """Run the actions that are due. Without ``to_the_end``, work that outlasts an interval does not delay the end.

        Raises errors that keep it from every table, such as an unreadable history.
        """
        done: dict[tuple[TableName, Action], RunUnit] = {}
        began = Pass(self._around.monotonic(), self._now_ms())
        try:
            self.state.trouble = None
            if not self._history_known:
                self._history.load()
                self._history_known = True
            self._history.forget()
            self._receive_hints()
            decisions = [each for each in self._due() if each.situation.table not in self._workers.busy]
            self.state.due = len(decisions) + self._workers.left
            self.state.current = replace(began, actions=self.state.due)
            self._actions = self._new_actions()
            waiting = turns(decisions)
            while (waiting and self._goes_on()) or self._workers.busy:
                if self._goes_on():
                    self._workers.begin(waiting)
                done |= self._record_ended()
                if not (to_the_end or waiting) and self._has_lasted(began):
                    break
            if self._goes_on():
                self.state.last_full_pass_ms = self._now_ms()
                self.state.last_full_pass_seconds = self._around.monotonic() - began.began
        finally:
            self.state.current = None
            self._history.write()
            self.state.unwritten = self._history.trouble
            self.state.passes += 1
            self.state.last_pass_ms = self._now_ms()
            self._show_life()
        keys = ((each.situation.table, each.situation.policy.action) for each in decisions)
        return [done[key] for key in keys if key in done]

    def _receive_hints(self) -> None:
        """Take the messages of the queue, if there is one; without them, tables are looked at by their schedules."""
        if (queue := self._hints.queue) is not None:
            try:
                for messages in self._inquiries.ask("the queue of events", queue.batches):
                    self._hints.take(messages)
            except Exception as error:  # noqa: BLE001 - a queue that does not answer delays its hints alone
                self._trouble("no events are received: %s", error)

    def _has_lasted(self, began: Pass) -> bool:
        return self._around.monotonic() - began.began > self._settings.interval.total_seconds()

    def _record_ended(self) -> dict[tuple[TableName, Action], RunUnit]:
        """Record the actions that have ended; returns their runs."""
        found: dict[tuple[TableName, Action], RunUnit] = {}
        for decision, run in self._workers.collect_ended():
            if run is None:
                if self.state.current is not None and self._goes_on():
                    self.state.current = replace(self.state.current, deferred=self.state.current.deferred + 1)
                continue
            self._history.remember(run)
            self._hints.settle(decision.situation, run.status)
            self.state.unwritten = self._history.trouble
            self.state.last_runs = self._history.runs_known
            self.state.count(run)
            self.state.due -= 1
            self._show_life()
            found[decision.situation.table, decision.situation.policy.action] = run
        return found

    def _is_silent(self, catalog: str) -> bool:
        """Returns whether a question to that catalog, or to one of its tables, is still unanswered."""
        return self._inquiries.hanging_of(catalog) is not None

    def _show_life(self) -> None:
        self.state.seen = self._around.monotonic()

    def _wait_for(self, whom: str | None) -> None:
        """Record in the state which answer this thread is waiting for; None for none."""
        if whom is None:
            self.state.waiting.pop(get_ident(), None)
        else:
            self.state.waiting[get_ident()] = whom, self._around.monotonic()
        self._show_life()

    def _run(self, actions: Actions, decision: Decision) -> RunUnit:
        """Carry out the action and log its outcome; returns the row of the history, which is not written yet."""
        table, policy = decision.situation.table, decision.situation.policy
        started, began = self._now_ms(), self._around.monotonic()
        what = f"{policy.action} on {table}"
        self.state.working[what] = began
        outcome = actions.carry_out(table, policy)
        self._show_life()
        del self.state.working[what]
        seconds = self._around.monotonic() - began
        run = _unit(decision, outcome, started, round(seconds * 1000), self._election)
        level = logging.WARNING if outcome.status == "failed" else logging.INFO
        reason, more = f" ({outcome.error})" if outcome.error else "", {"run": run.to_columns()}
        _log.log(level, "%s: %s%s", what, outcome.status, reason, exc_info=outcome.defect, extra=more)
        return run

    def _due(self) -> Sequence[Decision]:
        now_ms = self._now_ms()
        known: dict[TableName, Facts] = {}
        found, storage = list(self._situations()), self._session.settings.storage
        marked = self._hints.mark(found, storage, all_listed=not self.state.passed_over)
        situations = [self._with_facts(each, known, now_ms) for each in marked]
        return due((each for each in situations if each is not None), self._settings, now_ms, self._since_ms)

    def _situations(self) -> Iterator[Situation]:
        """Each table with each enabled action that applies: REFRESH to materialized views, ANALYZE to other tables."""
        tables = self._tables()
        self.state.tables = 0
        self.state.last_runs = self._history.runs_known
        settings = self._session.settings.policies
        of_plugins = any(table.catalog in settings.plugins for table in tables)
        views = set(map(table_name, materialized_views(self._session))) if of_plugins else set()
        for table in tables:
            self.state.tables += 1
            self._show_life()
            for policy in policies(settings, table):
                if not policy.enabled or not applies(policy.action, table.catalog, settings.plugins):
                    continue
                if policy.action not in WORKSPACE_ACTIONS or (policy.action is Action.REFRESH) is (table in views):
                    last = self._history.last(table, policy.action)
                    facts = Facts() if last is None or last.run is None else Facts.after(last.run)
                    yield Situation(table, policy, last, facts)

    def _with_facts(self, situation: Situation, facts: dict[TableName, Facts], now_ms: int) -> Situation | None:
        """Add size and newest commit of the table, if they can change the decision or the size is not known.

        ``facts`` has those of this pass. Returns None for a table that does not answer in time.
        """
        table, policy = situation.table, situation.policy
        is_sized = situation.facts.snapshots is not None or policy.action in WORKSPACE_ACTIONS
        if (is_sized and not policy.quiet) or not decide(situation, self._settings, now_ms, self._since_ms).due:
            return situation
        if self._is_silent(table.catalog):  # the action is left for another pass
            return situation
        try:
            if table not in facts:
                [facts[table]] = self._inquiries.ask(f"table {table}", lambda: [self._facts(situation)])
            return replace(situation, facts=facts[table])
        except Exception as error:  # noqa: BLE001 - one bad table never stops the rest
            if f"table {table}" in self._inquiries.hanging():
                self._pass_over(f"table {table}", error)
                return None
            text = "%s cannot be inspected; its action runs nevertheless and reports the reason: %s"
            _log.warning(text, table, message_of(error), exc_info=unforeseen(error))
            return situation

    def _facts(self, situation: Situation) -> Facts:
        """Returns the size of a table and when it was last committed to, or when one of its files last changed."""
        table = situation.table
        if situation.policy.action in WORKSPACE_ACTIONS:
            return Facts(committed_ms=changed_ms(self._session, table))
        target = self._session.catalogs.target(table.catalog, table.schema, table.name)
        return Facts.of(replace(target, pointer=table.pointer).load())

    def _tables(self) -> list[TableName]:
        """Yields every table of every catalog and plugin that answers and for which a policy enables an action.

        Reports skipped parts, and policies that match no table.
        """
        settings = self._session.settings.policies
        question = partial(tables_of, self._session)
        seen, passed_over = look_at(question, looked_after(self._session), self._inquiries, self._show_life)
        self.state.listed_ms = self._now_ms()
        self.state.passed_over = {}
        for place, error in passed_over.items():
            self._pass_over(place, error)
        self._tell_unmatched(find_unmatched(settings, seen))
        return sorted(seen.tables, key=str)

    def _pass_over(self, place: str, error: Exception) -> None:
        self.state.passed_over = {**self.state.passed_over, place: message_of(error)}
        self._trouble(f"{place.replace('%', '%%')} is skipped: %s", error)

    def _tell_unmatched(self, layers: Sequence[UnmatchedLayer]) -> None:
        """Log each policy that matches no table, once until that changes."""
        for each in layers:
            if each not in self.state.unmatched:
                _log.warning("%s", each)
        self.state.unmatched = layers

    def _trouble(self, text: str, error: Exception) -> None:
        self.state.trouble = text % message_of(error)
        _log.warning(text, message_of(error), exc_info=unforeseen(error))


def _unit(decision: Decision, outcome: ActionOutcome, started: int, milliseconds: int, election: Election) -> RunUnit:
    """The row of one run in the history; ``started`` is in milliseconds since 1970."""
    return RunUnit(
        day=day_of(started),
        run_id=str(uuid.uuid4()),
        table=str(decision.situation.table),
        action=decision.situation.policy.action.value,
        procedure=outcome.procedure,
        reason=decision.reason,
        status=outcome.status,
        host=election.holder,
        token=election.token,
        started=started,
        milliseconds=milliseconds,
        files_before=outcome.before.files,
        files_after=outcome.after.files,
        bytes_before=outcome.before.bytes,
        bytes_after=outcome.after.bytes,
        snapshots_before=outcome.before.snapshots,
        snapshots_after=outcome.after.snapshots,
        result=_result_text(outcome.result),
        error=outcome.error,
        requests=outcome.traffic.requests,
        bytes_received=outcome.traffic.received,
        bytes_sent=outcome.traffic.sent,
    )


def _result_text(result: Mapping[str, Any]) -> str | None:
    """Returns a result as one line of JSON; None for no result."""
    return json.dumps(result, default=str, ensure_ascii=False) if result else None
