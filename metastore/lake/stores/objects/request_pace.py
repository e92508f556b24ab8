"""Limits concurrent requests to the rate of a store: halves the limit after "slow down", then raises it slowly.

S3 answers 503 ``SlowDown`` if a prefix gets too many requests, other stores answer 429. Such a request is sent again
after a random pause, so that requests that were refused together do not return together.
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
"""Upper limits of the pauses before each retry, in seconds."""

_SLOW_DOWN: Final = re.compile(r"\b503 S|\b429 Too Many|SlowDown")


def asks_to_slow_down(error: OSError) -> bool:
    """Return whether the store answered that it gets too many requests."""
    return _SLOW_DOWN.search(str(error)) is not None


class RequestPace:
    """Allows at most ``most`` concurrent requests, and fewer after the store refused some. Threads share it.

    ``pause`` waits for seconds; ``chance`` returns a random number from 0 to 1.
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
    def most_at_once(self) -> int:
        """The current maximum of concurrent requests, at least 1."""
        return int(self._allowed)

    def ask(self, request: Callable[[], Answer]) -> Answer:
        """Return the answer to ``request``, which waits until the limit allows it.

        If the store is too busy, the request is retried; after the last retry the OSError is raised.
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
        """Send the request when the rate allows. A "slow down" halves the limit once for all that were under way."""
        with self._changed:
            self._changed.wait_for(lambda: self._in_flight < self.most_at_once)
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
                elif self._allowed >= asked_of:  # halve once for all requests that were refused together
                    self._allowed = max(1.0, self._allowed / 2)
                self._changed.notify_all()
