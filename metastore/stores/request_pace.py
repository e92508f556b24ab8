"""Limits the requests in flight to what a store accepts: half as many after each "slow down", then slowly more again.

S3 answers 503 ``SlowDown`` to more requests than a prefix serves, other stores 429. Such a request is sent again after
a random pause, so that requests refused together do not come back together.
"""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

Answer = TypeVar("Answer")

_LONGEST_PAUSES_S: Final = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4)
"""Upper limits of the pauses before each repetition, in seconds."""

_SLOW_DOWN: Final = re.compile(r"\b503 S|\b429 Too Many|SlowDown")


def asks_to_slow_down(error: OSError) -> bool:
    """Whether the store answered that it gets too many requests."""
    return _SLOW_DOWN.search(str(error)) is not None


class RequestPace:
    """At most ``most`` requests in flight, fewer after the store asked for it. Threads share it.

    ``pause`` waits for seconds, ``chance`` returns a random number from 0 to 1.
    """

    def __init__(
        self,
        most: int,
        pause: Callable[[float], None] = time.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._most = most
        self._pause = pause
        self._chance = chance
        self._allowed = float(most)
        self._in_flight = 0
        self._changed = threading.Condition()

    @property
    def allowed(self) -> int:
        """The number of requests that may be in flight now; at least 1."""
        return int(self._allowed)

    def ask(self, request: Callable[[], Answer]) -> Answer:
        """Return the answer to ``request``, sent when fewer than allowed are in flight.

        It is repeated while its OSError says that the store is too busy; after the last repetition that error leaves.
        """
        for longest in _LONGEST_PAUSES_S:
            try:
                return self._once(request)
            except OSError as error:
                if not asks_to_slow_down(error):
                    raise
            self._pause(longest * self._chance())
        return self._once(request)

    def _once(self, request: Callable[[], Answer]) -> Answer:
        with self._changed:
            self._changed.wait_for(lambda: self._in_flight < self.allowed)
            self._in_flight += 1
            asked_of = self._allowed
        was_refused = False
        try:
            return request()
        except OSError as error:
            was_refused = asks_to_slow_down(error)
            raise
        finally:
            with self._changed:
                self._in_flight -= 1
                if not was_refused:
                    self._allowed = min(self._most, self._allowed + 1 / self._allowed)
                elif self._allowed >= asked_of:  # others were refused together with it: halve once for all of them
                    self._allowed = max(1.0, self._allowed / 2)
                self._changed.notify_all()
