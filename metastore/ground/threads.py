"""Threads that continue the context of their caller: a :class:`~contextvars.ContextVar` holds what it holds there.

So limits of a statement and counts of a run reach the steps that run in other threads.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Threads(ThreadPoolExecutor):
    """A pool whose tasks run in the context in which they were submitted."""

    def submit(self, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Like :meth:`ThreadPoolExecutor.submit`."""
        return super().submit(copy_context().run, partial(fn, *args, **kwargs))
