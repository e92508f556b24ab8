"""The lease: of all daemons over one metastore one works, told by a number that only ever grows.

Every sign of life is the next number, made by an atomic create-if-absent, so that of two who reach for it one gets it.
Nobody's clock is compared with another's: a daemon that does not hold the lease takes it over after it has itself
watched one number stand for the whole duration; the holder counts itself out by its own clock, from before its last
sign. The number under which somebody began to hold it is the fencing token, and :meth:`Election.check` proves, right
before anything is committed or deleted, that no later number was made.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Final, Protocol

from metastore.errors import ConflictError, FormatError, MetastoreError, StorageError

_log: Final = logging.getLogger(__name__)

RENEWALS: Final = 3
"""Number of signs of life in the time after which others take over."""


@dataclass(frozen=True)
class Sign:
    """One number of the lease: who made it, since which number it has held the lease, whether it let go by it."""

    number: int
    holder: str
    token: int
    released: bool = False

    def to_json(self) -> bytes:
        """As it stands on the store."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, content: bytes, place: str) -> Sign:
        """Raises FormatError for what is none."""
        try:
            values = json.loads(content)
            number, token = int(values["number"]), int(values["token"])
            return cls(number, str(values["holder"]), token, bool(values["released"]))
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(f"{place} is no lease of a daemon: {error!r}. Remove it when no daemon runs") from error


class LeaseStore(Protocol):
    """Where the numbers are."""

    def newest(self) -> Sign | None:
        """The highest number there is. Raises StorageError, FormatError."""

    def add(self, sign: Sign) -> bool:
        """Make ``sign``, whose number follows the newest; False, when another made that number.

        Raises StorageError where that is not certain: then it is known by looking again.
        """

    def is_newest(self, number: int) -> bool:
        """Whether ``number`` stands, and none after it. Raises StorageError."""


@dataclass
class LeaseView:
    """What a daemon knows of the lease, for whoever asks: written by its threads, each field in one step.

    ``holder`` is who gave the newest sign that was seen. ``errors`` counts questions and signs that failed, ``trouble``
    says why the last one did; None when it went well.
    """

    holder: str | None = None
    errors: int = 0
    trouble: str | None = None

    def failed(self, what: str, error: Exception) -> None:
        """Count one, and keep why."""
        self.errors += 1
        self.trouble = f"{what}: {error}"


class Election:
    """One daemon's part in who works. ``monotonic`` counts seconds, also while the process is stopped.

    Shared by threads: one gives signs of life, another works and checks.
    """

    def __init__(self, store: LeaseStore, holder: str, duration: timedelta, monotonic: Callable[[], float]) -> None:
        self._store = store
        self.holder = holder
        self.duration_s: Final = duration.total_seconds()
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._held: Sign | None = None
        self._good_until = 0.0
        self._watched: tuple[Sign, float] | None = None
        self.view: Final = LeaseView()

    @property
    def token(self) -> int | None:
        """The fencing token while this daemon holds the lease, as far as it knows."""
        held = self._held
        return held.token if held is not None and self._monotonic() < self._good_until else None

    def campaign(self) -> int | None:
        """Take the lease if it is free; the token, or None while another has it. Raises StorageError, FormatError.

        It is free when nobody had it, when the last holder let it go, or when its number stood all the duration that
        this daemon watched. Ask again and again; the watch goes on from one call to the next.
        """
        with self._lock:
            now = self._monotonic()
            newest = self._store.newest()
            self.view.trouble = None
            self.view.holder = None if newest is None or newest.released else newest.holder
            if newest is not None and not newest.released and not self._outlived(newest, now):
                return None
            number = newest.number + 1 if newest else 1
            sign = Sign(number, self.holder, number)
            if not self._store.add(sign):
                return None
            self._hold(sign, now)
            return sign.token

    def renew(self) -> bool:
        """Give a sign of life; False when the lease is lost. Raises StorageError: not known, and to be tried again."""
        with self._lock:
            held, now = self._held, self._monotonic()
            if held is None:
                return False
            sign = Sign(held.number + 1, self.holder, held.token)
            if not self._store.add(sign) and self._store.newest() != sign:
                self._held = None
                return False
            self._hold(sign, now)
            return True

    def release(self) -> None:
        """Let the lease go, so that others need not wait; whatever fails is left to their patience."""
        with self._lock:
            held, self._held = self._held, None
            if held is not None:
                try:
                    self._store.add(Sign(held.number + 1, self.holder, held.token, released=True))
                except MetastoreError as error:
                    self.view.failed("the lease could not be let go", error)
                    _log.warning("the lease could not be let go: %s", error)

    def check(self) -> None:
        """Prove that this daemon still holds the lease. Raises ConflictError; StorageError when that is unknown."""
        with self._lock:
            held = self._held
            if held is not None and self._monotonic() >= self._good_until:
                held = None
            if held is None or not self._store.is_newest(held.number):
                self._held = None
                raise ConflictError(
                    f"{self.holder} does not hold the lease of the daemon any more: another may be at work. "
                    "Nothing further is committed or deleted"
                )

    def _hold(self, sign: Sign, asked: float) -> None:
        self._held, self._good_until, self._watched = sign, asked + self.duration_s, None
        self.view.holder, self.view.trouble = self.holder, None

    def _outlived(self, newest: Sign, now: float) -> bool:
        if self._watched is None or self._watched[0] != newest:
            self._watched = (newest, now)
        return now - self._watched[1] >= self.duration_s


class Heartbeat:
    """Gives signs of life from a thread of its own while the daemon works; a context manager."""

    def __init__(self, election: Election) -> None:
        self._election = election
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat, name="daemon-lease", daemon=True)

    def _beat(self) -> None:
        while not self._stop.wait(self._election.duration_s / RENEWALS):
            if not self._renewed():
                _log.warning("the lease of the daemon was lost to another")
                return

    def _renewed(self) -> bool:
        try:
            return self._election.renew()
        except (StorageError, FormatError) as error:
            self._election.view.failed("no sign of life could be given", error)
            _log.warning("no sign of life could be given, it is tried again: %s", error)
            return True

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
