"""The process around the loop: its signals, its endpoint, and settings that are reloaded while it runs.

SIGTERM and SIGINT end it. Running work stops where that is safe. If that takes longer than :data:`GRACE_S`, the process
ends immediately, which every step survives. SIGHUP reloads the configuration; an error in it is logged and changes
nothing.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import FrameType
from typing import Any, Final

from metastore.config.settings import Settings
from metastore.daemon.endpoint import Endpoint, Pages, health_of_state, require_protection
from metastore.daemon.lease import Election, LeaseStore
from metastore.daemon.lease_stores import lease_store
from metastore.daemon.logs import message_of, unforeseen
from metastore.daemon.loop import Daemon, Surroundings, check_schedules
from metastore.daemon.state import State
from metastore.errors import ConfigError
from metastore.ground.optional import library
from metastore.model.run_unit import RunUnit
from metastore.session import Session

_log: Final = logging.getLogger(__name__)

GRACE_S: Final = 8.0
"""Seconds from the signal to the end. Service managers kill a process after ten seconds or more."""

_ABANDONED: Final = 75
"""Exit code of a process that ended in the middle of its work: EX_TEMPFAIL of sysexits.h."""


def check(settings: Settings) -> None:
    """Raise ConfigError for settings with which no daemon can run, InvalidRequestError for a missing library."""
    check_schedules(settings.policies)
    require_protection(settings.daemon.endpoint)
    if settings.daemon.events_queue is not None:
        library("boto3", "aws")


def run_once(session: Session, *, dry_run: bool, state: State | None = None) -> Sequence[RunUnit]:
    """Make one pass, or with ``dry_run`` report what it would do. The outcome is written to ``state``.

    Failed runs are among the returned runs; ``state.passed_over`` has the parts that could not be listed. Raises
    ConfigError, ConflictError if another daemon is at work, and errors that keep a pass from reaching any table.
    """
    check(session.settings)
    signals = _Signals()
    with lease_store(session.settings) as store:
        daemon = _daemon(session, store, signals, state or State(), None)
        if dry_run:
            return daemon.dry()
        with signals:
            return daemon.once()


PagesOf = Callable[[Callable[[], Session], Callable[[], Mapping[str, Any]]], Pages]
"""Makes further pages of the endpoint, from what returns the open session and what returns the state of health."""


def serve(
    load: Callable[[], Settings], open_session: Callable[[Settings], Session], pages_of: PagesOf | None = None
) -> None:
    """Run the daemon until a signal ends it. ``load`` reads the configuration, at first and after each SIGHUP.

    Raises ConfigError if the first configuration is wrong, InvalidRequestError if a library is missing.
    """
    settings = load()
    check(settings)
    state, signals = State(), _Signals()
    with ExitStack() as opened:
        session = open_session(settings)
        current = [session]
        opened.callback(_close_all, current)
        store = opened.enter_context(lease_store(settings))
        daemon = _daemon(session, store, signals, state, int(time.time() * 1000))
        if settings.daemon.endpoint.port is not None:
            pages = pages_of and pages_of(lambda: current[0], lambda: health_of_state(state, time.monotonic()))
            endpoint = Endpoint(settings.daemon.endpoint, state, time.monotonic, pages)
            opened.enter_context(endpoint)
            _log.info("metrics at %s/metrics, health at %s/healthz", endpoint.url, endpoint.url)

        def between() -> None:
            """Take over a reloaded configuration between two passes; a refused one leaves the old in force."""
            nonlocal settings
            if not signals.reload_wanted():
                return
            try:
                fresh = load()
                check(fresh)
                require_same_place(settings, fresh)
                renewed = open_session(fresh)
            except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the daemon goes on
                text = "the new configuration was refused, the old one stays in force: %s"
                _log.error(text, message_of(error), exc_info=unforeseen(error))
                state.refused = message_of(error)
                state.refusals += 1
                return
            current[0].close()
            current[0], settings = renewed, fresh
            daemon.renew(renewed)
            state.refused = None
            _log.info("the configuration was reloaded and is in force")

        opened.enter_context(signals)
        _log.info("the daemon of %s starts", settings.iceberg.base_location)
        daemon.run(between)
        _log.info("the daemon ends")


def _close_all(sessions: Sequence[Session]) -> None:
    for session in sessions:
        session.close()


def _daemon(session: Session, store: LeaseStore, signals: _Signals, state: State, since_ms: int | None) -> Daemon:
    settings = session.settings
    holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    election = Election(store, holder, settings.daemon.lease, time.monotonic)
    around = Surroundings(signals.stopping, signals.wait, time.monotonic)
    return Daemon(session, election, around, state, since_ms=since_ms)


def require_same_place(old: Settings, new: Settings) -> None:
    """Raise ConfigError if a reload changes settings of the lease or the endpoint; it names the keys."""
    fixed = {
        "drill.metastore.iceberg.location": (old.iceberg.base_location, new.iceberg.base_location),
        "drill.metastore.iceberg.config": (old.iceberg.config_properties, new.iceberg.config_properties),
        "drill.metastore.iceberg.catalog": (old.iceberg.catalog, new.iceberg.catalog),
        "drill.metastore.iceberg.components": (_folders(old), _folders(new)),
        "drill.metastore.daemon.lease": (
            (old.daemon.lease, old.daemon.lease_kind),
            (new.daemon.lease, new.daemon.lease_kind),
        ),
        "drill.metastore.daemon.http": (old.daemon.endpoint, new.daemon.endpoint),
    }
    changed = [key for key, (before, after) in fixed.items() if before != after]
    if changed:
        raise ConfigError(f"{', '.join(changed)} cannot change while the daemon runs: restart it")


def _folders(settings: Settings) -> dict[str, str]:
    return {name: component.location for name, component in settings.iceberg.components.items()}


class _Signals:
    """A context manager that handles signals and can wait for one."""

    def __init__(self) -> None:
        self._stop = False
        self._reload = False
        self._woken = threading.Event()
        self._before: dict[int, object] = {}
        self._pipe = (-1, -1)

    def stopping(self) -> bool:
        return self._stop

    def reload_wanted(self) -> bool:
        """Returns whether SIGHUP has arrived since the last call."""
        wanted, self._reload = self._reload, False
        return wanted

    def wait(self, seconds: float) -> None:
        """Wait for the given seconds, or until a signal arrives."""
        if not self._stop and not self._reload:
            self._woken.wait(seconds)
        self._woken.clear()

    def __enter__(self) -> _Signals:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        self._pipe = (reading, writing)
        threading.Thread(target=self._watch, args=(reading,), name="daemon-signals", daemon=True).start()
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            self._before[number] = signal.signal(number, _ignore_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type] # what signal.signal gave
        signal.set_wakeup_fd(-1)
        os.close(self._pipe[1])

    def _watch(self, reading: int) -> None:
        """Read signals until the pipe is closed. Runs in a thread, because the main thread may be inside a library."""
        with open(reading, "rb", buffering=0) as pipe:
            while number := pipe.read(1):
                if number[0] == signal.SIGHUP:
                    self._reload = True
                elif number[0] in (signal.SIGTERM, signal.SIGINT):
                    self._end()
                self._woken.set()

    def _end(self) -> None:
        if not self._stop:
            self._stop = True
            last = threading.Timer(GRACE_S, _abandon)
            last.daemon = True
            last.start()


def _ignore_signal(number: int, frame: FrameType | None) -> None:
    """Do nothing: the watching thread reads the signal from the pipe."""


def _abandon() -> None:
    """End the process immediately. Each step survives this like a crash, and the next run completes it."""
    _log.warning("the current action did not end within %s s: it is abandoned, and the next run completes it", GRACE_S)
    logging.shutdown()
    os._exit(_ABANDONED)
