"""Metrics for Prometheus, made from the state when they are requested. They hold names and numbers, no error texts.

Made by prometheus_client (extra ``daemon``). docs/guide/daemon.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, Final

from metastore.daemon.state import State
from metastore.ground.optional import library

_PREFIX: Final = "metastore_daemon_"


class PrometheusMetrics:
    """Formats ``state`` for Prometheus. ``monotonic`` is the loop's clock; ``module`` is prometheus_client."""

    def __init__(self, module: Any, state: State, monotonic: Callable[[], float]) -> None:
        self._module = module
        self._core = library("prometheus_client.core", "daemon")
        self._state = state
        self._monotonic = monotonic
        self._registry = module.CollectorRegistry()
        self._registry.register(self)

    def text(self) -> tuple[HTTPStatus, str, bytes]:
        """Returns the body of the response."""
        return HTTPStatus.OK, self._module.CONTENT_TYPE_LATEST, self._module.generate_latest(self._registry)

    def collect(self) -> Iterator[Any]:
        """Yields all metrics; prometheus_client calls it."""
        yield from self._numbers()
        yield from self._labelled_gauges()
        yield from self._of_runs()

    def _numbers(self) -> Iterator[Any]:
        """Gauges and counters without labels; a time that is not known is 0."""
        state, core = self._state, self._core
        gauges = {
            "leader": ("1 while this daemon holds the lease", int(state.token is not None)),
            "lease_token": ("Fencing token of the lease, 0 without it", state.token or 0),
            "tables": ("Tables that policies cover", state.tables),
            "due": ("Actions that are due", state.due),
            "last_pass_timestamp_seconds": (
                "When the last pass over all tables ended",
                (state.last_pass_ms or 0) / 1000,
            ),
            "last_full_pass_timestamp_seconds": (
                "When the last pass ended that nothing cut short",
                (state.last_full_pass_ms or 0) / 1000,
            ),
            "listed_timestamp_seconds": ("When the tables were listed last", (state.listed_ms or 0) / 1000),
            "configuration_refused": ("1 while a new configuration is refused", int(state.refused is not None)),
            "history_unwritten": ("1 while runs cannot be written to the history", int(state.unwritten is not None)),
            "troubles": ("Problems that /healthz reports", len(state.troubles_at(self._monotonic()))),
        }
        for name, (text, value) in gauges.items():
            yield core.GaugeMetricFamily(f"{_PREFIX}{name}", text, value=value)
        counts = {
            "passes": ("Passes over all tables", state.passes),
            "files_removed": ("Data files that runs removed, net", state.files_removed),
            "bytes_removed": ("Bytes of data files that runs removed, net", state.bytes_removed),
            "lease_errors": ("Requests for the lease, and renewals of it, that failed", state.lease.errors),
            "configuration_refusals": ("New configurations that were refused", state.refusals),
        }
        for name, (text, value) in counts.items():
            yield core.CounterMetricFamily(f"{_PREFIX}{name}", text, value=value)

    def _labelled_gauges(self) -> Iterator[Any]:
        state = self._state
        now = self._monotonic()
        yield from self._of_pass()
        yield self._gauge("passed_over", "1 for what could not be listed", "place", dict.fromkeys(state.passed_over, 1))
        unmatched = dict.fromkeys((each.key for each in state.unmatched), 1)
        yield self._gauge("policy_unmatched", "1 for a policy that matches nothing", "policy", unmatched)
        holder = {} if state.lease.holder is None else {state.lease.holder: 1}
        yield self._gauge("lease_holder", "1 for the daemon that renewed the lease last", "holder", holder)
        at = {what: max(0.0, now - since) for what, since in state.at.items()}
        yield self._gauge("at_seconds", "How long the current work, or the wait for an answer, has lasted", "what", at)

    def _of_pass(self) -> Iterator[Any]:
        now, current = self._monotonic(), self._state.current
        names = ("done", "failed", "deferred", "left")
        counts = {} if current is None else {name: getattr(current, name) for name in names}
        yield self._gauge("pass_actions", "Actions of the pass under way", "state", counts)
        seconds = {} if current is None else {"so_far": now - current.began}
        if current is not None and (left := current.seconds_left(now)) is not None:
            seconds["left"] = left
        yield self._gauge("pass_seconds", "How long the pass has lasted, and an estimate of the rest", "part", seconds)

    def _gauge(self, name: str, text: str, label: str, values: Mapping[str, float]) -> Any:
        family = self._core.GaugeMetricFamily(f"{_PREFIX}{name}", text, labels=[label])
        for named, value in values.items():
            family.add_metric([named], value)
        return family

    def _of_runs(self) -> Iterator[Any]:
        """The families with labels. Copies are read: workers add to the state meanwhile."""
        state, core = self._state, self._core
        runs = core.CounterMetricFamily(f"{_PREFIX}runs", "Runs by outcome", labels=["action", "status"])
        for (action, status), value in dict(state.runs).items():
            runs.add_metric([action, status], value)
        seconds = core.CounterMetricFamily(f"{_PREFIX}run_seconds", "Time that runs took", labels=["action"])
        for action, value in dict(state.milliseconds).items():
            seconds.add_metric([action], value / 1000)
        labels = ["table", "action"]
        failures = core.GaugeMetricFamily(f"{_PREFIX}table_failures", "Failures in a row", labels=labels)
        success = core.GaugeMetricFamily(
            f"{_PREFIX}table_last_success_timestamp_seconds", "When it last began and did not fail", labels=labels
        )
        for (table, action), last in dict(state.last_runs).items():
            failures.add_metric([table, action], last.failures)
            if last.succeeded_ms is not None:
                success.add_metric([table, action], last.succeeded_ms / 1000)
        events = core.CounterMetricFamily(f"{_PREFIX}events", "Objects that events named", labels=["outcome"])
        for outcome, value in dict(state.events).items():
            events.add_metric([outcome], value)
        yield from (runs, seconds, failures, success, events)
