"""The thread that expires versions after modifications. It never fails or delays the write that triggered it.

Each table has at most one run at a time, and one more if there was a commit meanwhile. The thread is a daemon named
after the table. Closing does not wait for it, because an interrupted expiration loses nothing. Failures are counted and
logged, and the next run continues the work.
"""

from __future__ import annotations

import logging
import threading

from metastore.components.expiration.handler import ExpirationHandler, ExpirationResult
from metastore.ground.forks import renew_in_child

logger = logging.getLogger(__name__)


class ExpirationWorker:
    """Runs one table's expirations in a separate thread."""

    def __init__(self, handler: ExpirationHandler) -> None:
        self._handler = handler
        self._begin()
        renew_in_child(self._begin)
        self._closed = False
        self.runs = 0
        self.failures = 0
        self.last: ExpirationResult | None = None

    def _begin(self) -> None:
        """Set the initial state, without a run. After a fork, a run of the parent does not exist here."""
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._again = False

    def after_commit(self, version: int) -> None:
        """Start a run if one is due, or make the current run check again. Returns at once and never raises."""
        try:
            if not self._closed and self._handler.is_due():
                self._start()
        except Exception as error:  # noqa: BLE001 - the write has landed; nothing here may make it look failed
            self._record_failure(error)

    def join(self, timeout_seconds: float | None = None) -> None:
        """Wait for the current run, if there is one."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout_seconds)

    def close(self) -> None:
        """Start no further runs; the current one continues."""
        self._closed = True

    def _start(self) -> None:
        with self._lock:
            if self._thread is not None:
                # The run checks this flag under the same lock before it ends.
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
            self._record_failure(error)

    def _is_asked_again(self) -> bool:
        """Returns whether there was a commit since the last check.

        If not, the thread ends; a later commit starts a new one.
        """
        with self._lock:
            is_asked, self._again = self._again and not self._closed, False
            if not is_asked:
                self._thread = None
            return is_asked

    def _record_failure(self, error: Exception) -> None:
        self.failures += 1
        logger.error("expiration of %s failed; the next run tries again", self._handler.table.name, exc_info=error)
