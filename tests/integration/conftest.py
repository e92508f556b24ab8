"""Processes that may be killed, quickly made."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import ForkServerContext

import pytest


@pytest.fixture(scope="module")
def forks(request: pytest.FixtureRequest) -> ForkServerContext:
    """Processes forked from one that has imported the test's module and started no thread."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([request.module.__name__])
    return context
