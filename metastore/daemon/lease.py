"""The lease: of all daemons over one metastore, only the holder of the lease works. It is a number that only grows.

Every sign of life is the next number, written by an atomic create-if-absent: if two daemons write it, one succeeds.
Clocks of different hosts are never compared. A daemon takes the lease over after it has itself seen one number
unchanged for the whole duration. The holder gives the lease up by its own clock, counted from before its last sign of
life. The number with which a daemon began to hold the lease is its fencing token. Right before each commit and each
deletion, :meth:`Election.check` proves that no later number was written.
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
"""Number of signs of life in the time after which another daemon takes over."""


@dataclass(frozen=True)
class Sign:
    """One number of the lease: who wrote it, since which number it has held the lease, and whether it released it."""

    number: int
    holder: str
    token: int
    released: bool = False

    def to_json(self) -> bytes:
        """Returns the content of its file on the store."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, content: bytes, place: str) -> Sign:
        """Parse the content of a file. Raises FormatError."""
        try:
            values = json.loads(content)
            number, token = int(values["number"]), int(values["token"])
            return cls(number, str(values["holder"]), token, bool(values["released"]))
        except (ValueError, KeyError, TypeError) as error:
            raise FormatError(f"{place} is no lease of a daemon: {error!r}. Remove it when no daemon runs") from error


class LeaseStore(Protocol):
    """Stores the numbers of the lease."""

    def newest(self) -> Sign | None:
        """Returns the highest number. Raises StorageError, FormatError."""

    def add(self, sign: Sign) -> bool:
        """Write ``sign``, whose number follows the newest. Returns False if another daemon wrote that number.

        Raises StorageError if the outcome is unknown; the next read tells it.
        """

    def is_newest(self, number: int) -> bool:
        """Returns whether ``number`` exists and no later one does. Raises StorageError."""


@dataclass
class LeaseView:
    """What a daemon knows about the lease, for the endpoint and the log. Its threads write each field in one step.

    ``holder`` wrote the newest sign that was seen. ``errors`` counts failed requests; ``trouble`` is the error of the
    last request, or None.
    """

    holder: str | None = None
    errors: int = 0
    trouble: str | None = None

    def record_failure(self, activity: str, error: Exception) -> None:
        """Count a failed request and keep its error."""
        self.errors += 1
        self.trouble = f"{activity}: {error}"


class Election:
    """One daemon's part in the election. ``monotonic`` counts seconds, also while the process is suspended.

    Two threads share it: one gives signs of life, the other works and checks.
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
        """Take the lease if it is free; returns the token, or None if another has it. Raises StorageError, FormatError.

        It is free if nobody held it, if the last holder released it, or if this daemon saw its number unchanged for the
        whole duration. Call it repeatedly: the observation continues from one call to the next.
        """
        with self._lock:
            now = self._monotonic()
            newest = self._store.newest()
            self.view.trouble = None
            self.view.holder = None if newest is None or newest.released else newest.holder
            if newest is not None and not newest.released and not self._has_expired(newest, now):
                return None
            number = newest.number + 1 if newest else 1
            sign = Sign(number, self.holder, number)
            if not self._store.add(sign):
                return None
            self._hold(sign, now)
            return sign.token

    def renew(self) -> bool:
        """Give a sign of life; False if the lease is lost. Raises StorageError if that is unknown: try again then."""
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
        """Release the lease, so that others need not wait. If this fails, they take over after the duration."""
        with self._lock:
            held, self._held = self._held, None
            if held is not None:
                try:
                    self._store.add(Sign(held.number + 1, self.holder, held.token, released=True))
                except MetastoreError as error:
                    self.view.record_failure("the lease could not be released", error)
                    _log.warning("the lease could not be released: %s", error)

    def check(self) -> None:
        """Prove that this daemon still holds the lease. Raises ConflictError if not, StorageError if unknown."""
        with self._lock:
            held = self._held
            if held is not None and self._monotonic() >= self._good_until:
                held = None
            if held is None or not self._store.is_newest(held.number):
                self._held = None
                raise ConflictError(
                    f"{self.holder} no longer holds the lease of the daemon: another daemon may be active. "
                    "Nothing further is committed or deleted"
                )

    def _hold(self, sign: Sign, asked: float) -> None:
        self._held, self._good_until, self._watched = sign, asked + self.duration_s, None
        self.view.holder, self.view.trouble = self.holder, None

    def _has_expired(self, newest: Sign, now: float) -> bool:
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
            if not self._renew():
                _log.warning("the lease of the daemon was lost to another")
                return

    def _renew(self) -> bool:
        try:
            return self._election.renew()
        except (StorageError, FormatError) as error:
            self._election.view.record_failure("the lease could not be renewed", error)
            _log.warning("the lease could not be renewed, the daemon tries again: %s", error)
            return True

    def __enter__(self) -> Heartbeat:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
