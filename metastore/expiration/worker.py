"""The thread that expires: called after each modification, it never fails or delays the write that called it.

One run at a time for a table, and one more when there was a commit meanwhile. The thread is a daemon named after the
table, and closing does not wait for it: an expiration cut short loses nothing. Failures are counted and logged, and the
next run picks up what they left.
"""

from __future__ import annotations

import logging
import threading

from metastore.expiration.handler import ExpirationHandler, Expired
from metastore.forks import renew_in_child

logger = logging.getLogger(__name__)


class ExpirationWorker:
    """Runs one table's expirations in a thread of their own."""

    def __init__(self, handler: ExpirationHandler) -> None:
        self._handler = handler
        self._begin()
        renew_in_child(self._begin)
        self._closed = False
        self.runs = 0
        self.failures = 0
        self.last: Expired | None = None

    def _begin(self) -> None:
        """No run is under way: one that was when this process was forked is its parent's."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._again = False

    def after_commit(self, version: int) -> None:
        """Start a run when one is due, or have the one under way look again; returns at once and never raises."""
        try:
            if not self._closed and self._handler.is_due():
                self._start()
        except Exception as error:  # noqa: BLE001 - the write has landed; nothing here may make it look failed
            self._failed(error)

    def join(self, timeout_seconds: float | None = None) -> None:
        """Wait for the run that is under way, if there is one."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout_seconds)

    def close(self) -> None:
        """Start no further run; one that is under way goes on by itself."""
        self._closed = True

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None:
                # The run asks for this under the same lock before it ends.
                self._again = True
                return
            self._thread = threading.Thread(
                target=self._run, name=f"metastore-expire-{self._handler.table.name}", daemon=True
            )
            self._thread.start()

    def _run(self) -> None:
        self._expire()
        while self._is_asked_again():
            self._expire(if_due=True)

    def _expire(self, *, if_due: bool = False) -> None:
        try:
            if not if_due or self._handler.is_due():
                self.last = self._handler.expire()
                self.runs += 1
        except Exception as error:  # noqa: BLE001 - a thread of its own has nobody to raise to
            self._failed(error)

    def _is_asked_again(self) -> bool:
        """Whether there was a commit since the last look; if not, the thread is over, and a later commit begins one."""
        with self._lock:
            is_asked, self._again = self._again and not self._closed, False
            if not is_asked:
                self._thread = None
            return is_asked

    def _failed(self, error: Exception) -> None:
        self.failures += 1
        logger.error("expiration of %s failed; the next run tries again", self._handler.table.name, exc_info=error)
