"""A lost race is tried again until the time is over; everything else is not."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyiceberg.exceptions import CommitFailedException
from support.procedures_site import Site

from metastore.errors import ConflictError, StorageError
from metastore.ground.clock import Clock
from metastore.lake.iceberg.snapshots.contention import until_won


def attempts(losses: int, error: type[Exception] = CommitFailedException) -> tuple[list[Any], Any]:
    """An attempt that fails so many times before it wins; and the tables that it was made on."""
    seen: list[Any] = []

    def attempt(table: Any) -> str:
        seen.append(table)
        if len(seen) <= losses:
            raise error("others were faster")
        return "won"

    return seen, attempt


def test_each_attempt_is_made_on_the_fresh_table(site: Site, clock: Clock) -> None:
    """Another writer's version is there for the next one."""
    target = site.session.catalogs.table(site.catalog, "db", "t")
    seen: list[int] = []

    def attempt(table: Any) -> str:
        seen.append(len(table.metadata.snapshots))
        if len(seen) < 3:
            site.append(len(seen))
            raise CommitFailedException("others were faster")
        return "won"

    assert until_won(target, timedelta(seconds=5), attempt, clock) == "won"
    assert seen == [0, 1, 2]


def test_the_time_is_bounded(site: Site, clock: Clock) -> None:
    """Others that keep winning are a conflict, and it is said how long was waited."""
    target = site.session.catalogs.table(site.catalog, "db", "t")
    seen, attempt = attempts(10**6)
    said = r"db\.t kept winning for 0:00:05, at last: others were faster; nothing was changed"
    with pytest.raises(ConflictError, match=said) as lost:
        until_won(target, timedelta(seconds=5), attempt, clock)
    assert isinstance(lost.value.__cause__, CommitFailedException)
    assert 5 < len(seen) < 50


def test_other_errors_are_not_tried_again(site: Site, clock: Clock) -> None:
    """A refusal stays one."""
    target = site.session.catalogs.table(site.catalog, "db", "t")
    seen, attempt = attempts(1, StorageError)
    with pytest.raises(StorageError, match="others were faster"):
        until_won(target, timedelta(seconds=5), attempt, clock)
    assert len(seen) == 1
