"""Questions to catalogs that may never answer: each in a thread of its own, waited for as long as the limit allows.

A catalog that accepts a connection and never answers must not keep the daemon from the other catalogs. The caller gets
the parts of an answer as they arrive, and an error when the next part takes too long. The waiting thread is then left
behind: it is a daemon thread, which ends with its request or with the process. While it hangs, the same question is
not asked again.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from time import monotonic
from typing import Final, Generic, TypeVar

from metastore.errors import StorageError

T = TypeVar("T")

_LOOK_S: Final = 0.2
"""Seconds between two looks at whether the process shall stop, while no answer arrives."""


class _Sign(Enum):
    END = "no more parts"


@dataclass
class _Answer(Generic[T]):
    """What a thread has received so far: parts, which may be None, then the end; or the error that ended it."""

    parts: queue.SimpleQueue[T | Exception | _Sign] = field(default_factory=queue.SimpleQueue)
    abandoned: bool = False


class Inquiries:
    """The questions of one process; threads may share it.

    ``waiting`` is called in the thread that waits: with what it waits for, and with None when it has come.
    ``limit_s`` is the longest wait for each part of an answer. ``stopping`` says whether to give up at once.
    """

    def __init__(
        self,
        limit_s: float,
        waiting: Callable[[str | None], object] = lambda _: None,
        stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self.limit_s = limit_s
        self._waiting = waiting
        self._stopping = stopping
        self._lock = threading.Lock()
        self._hanging: dict[str, tuple[threading.Thread, float]] = {}

    def ask(self, whom: str, question: Callable[[], Iterable[T]]) -> Iterator[T]:
        """The parts of the answer. ``whom`` names it for people, and is the key of the question.

        Raises what ``question`` raises; StorageError when the next part does not come within the limit, when the same
        question still hangs, and when the process is to stop.
        """
        self._require_free(whom)
        answer: _Answer[T] = _Answer()
        bring = partial(copy_context().run, _bring, question, answer)
        thread = threading.Thread(target=bring, name=f"inquiry {whom}", daemon=True)
        thread.start()
        try:
            with self._while_waiting(whom):
                while (part := self._next(whom, answer, thread)) is not _Sign.END:
                    yield part
        finally:
            answer.abandoned = True

    def hanging(self) -> dict[str, float]:
        """Returns the questions that still hang, each with its number of seconds."""
        with self._lock:
            self._hanging = {whom: kept for whom, kept in self._hanging.items() if kept[0].is_alive()}
            return {whom: monotonic() - since for whom, (_, since) in self._hanging.items()}

    def hanging_of(self, catalog: str) -> str | None:
        """What of that catalog hangs: itself, or one of its tables; None where nothing does."""
        own = (whom for whom in self.hanging() if whom == f"catalog {catalog}" or whom.startswith(f"table {catalog}."))
        return next(own, None)

    def _require_free(self, whom: str) -> None:
        seconds = self.hanging().get(whom)
        if seconds is not None:
            raise StorageError(
                f"{whom} has not answered for {seconds:.0f} s, and gets no new request before that one ends. "
                "Check whether its server works"
            )

    def _next(self, whom: str, answer: _Answer[T], thread: threading.Thread) -> T | _Sign:
        """The next part of an answer. StorageError after the limit or if the daemon stops; its thread stays behind."""
        asked = monotonic()
        until = asked + self.limit_s
        while True:
            try:
                part = answer.parts.get(timeout=max(0.0, min(_LOOK_S, until - monotonic())))
            except queue.Empty:
                if self._stopping():
                    raise StorageError(f"{whom} did not answer before the daemon had to stop") from None
                if monotonic() >= until:
                    with self._lock:
                        self._hanging[whom] = (thread, asked)
                    raise StorageError(
                        f"{whom} has not answered within {self.limit_s:g} s (drill.metastore.daemon.answer_timeout)"
                    ) from None
                continue
            if isinstance(part, Exception):
                raise part
            return part

    @contextmanager
    def _while_waiting(self, whom: str) -> Iterator[None]:
        self._waiting(whom)
        try:
            yield
        finally:
            self._waiting(None)


def _bring(question: Callable[[], Iterable[T]], answer: _Answer[T]) -> None:
    try:
        for part in question():
            if answer.abandoned:
                return
            answer.parts.put(part)
        answer.parts.put(_Sign.END)
    except Exception as error:  # noqa: BLE001 - it is raised where the answer is waited for
        answer.parts.put(error)
