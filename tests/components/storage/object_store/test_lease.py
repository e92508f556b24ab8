"""The daemon's lease on an object store: numbers by conditional put, over HTTP."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from metastore.config import Settings
from metastore.daemon.lease import Election
from metastore.daemon.lease_stores import LeaseFiles, lease_store
from metastore.errors import ConflictError

MINUTE = timedelta(minutes=1)


def test_one_leads_and_a_sleeper_is_refused(settings: Callable[..., Settings]) -> None:
    """As on the local disk: after the silence of a whole duration another has a greater token."""
    opened, now = settings(), 0.0
    with lease_store(opened) as store, lease_store(opened) as other:
        assert isinstance(store, LeaseFiles)
        a, b = (Election(each, name, MINUTE, lambda: now) for name, each in (("a", store), ("b", other)))
        assert a.campaign() == 1
        assert b.campaign() is None
        for _ in range(20):
            now += 30.0
            assert a.renew()
            assert b.campaign() is None
        a.check()
        now += 60.0
        token = b.campaign()
        assert token == 22
        with pytest.raises(ConflictError):
            a.check()
        b.check()
        b.release()
        assert a.campaign() == 24
