"""One leader: numbers that only grow, whatever the daemons do, on a clock that the tests set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog

from metastore.config import Settings, load_text
from metastore.daemon.lease import Election, LeaseStore, LeaseView, Sign
from metastore.daemon.lease_stores import LeaseFiles, PropertyLease, lease_store
from metastore.errors import ConfigError, ConflictError, FormatError, StorageError
from metastore.lake.stores.pointer_store import LOCAL_POINTERS

MINUTE = timedelta(minutes=1)


@pytest.fixture
def seconds() -> SimpleNamespace:
    """A clock: ``now``, in seconds."""
    return SimpleNamespace(now=1000.0)


@pytest.fixture(params=["store", "catalog"])
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], LeaseStore]]:
    """Opens the lease of one metastore, as each daemon does for itself."""
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"} if request.param == "catalog" else {}
    location = {"base_path": str(tmp_path), "relative_path": "m"}
    iceberg = {"location": location, "catalog": catalog}
    settings = Settings.from_mapping({"drill.metastore.iceberg": iceberg}, environ={})
    expected = LeaseFiles if request.param == "store" else PropertyLease
    with ExitStack() as opened:
        assert isinstance(opened.enter_context(lease_store(settings)), expected)
        yield lambda: opened.enter_context(lease_store(settings))


def test_a_lease_gives_its_connection_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When it ends, and not before."""
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
    location = {"base_path": str(tmp_path), "relative_path": "m"}
    settings = Settings.from_mapping(
        {"drill.metastore.iceberg": {"location": location, "catalog": catalog}}, environ={}
    )
    closed: list[SqlCatalog] = []
    close = SqlCatalog.close

    def closing(catalog: SqlCatalog) -> None:
        closed.append(catalog)
        close(catalog)

    monkeypatch.setattr(SqlCatalog, "close", closing)
    with lease_store(settings) as store:
        assert Election(store, "a", MINUTE, lambda: 0.0).campaign() == 1
        assert closed == []
    assert len(closed) == 1


@pytest.fixture
def daemons(make_store: Callable[[], LeaseStore], seconds: SimpleNamespace) -> list[Election]:
    """Three daemons, a, b and c, over one lease of a minute."""
    return [Election(make_store(), name, MINUTE, lambda: seconds.now) for name in "abc"]


def test_the_first_who_asks_has_it(daemons: list[Election]) -> None:
    """And the others do not, as often as they ask."""
    a, b, c = daemons
    assert a.campaign() == 1
    assert [b.campaign(), c.campaign(), b.campaign()] == [None, None, None]
    a.check()
    with pytest.raises(ConflictError):
        b.check()


def test_who_gives_signs_keeps_it(daemons: list[Election], seconds: SimpleNamespace) -> None:
    """However long: the watch of the others begins anew with each sign; the token stays."""
    a, b, _ = daemons
    assert a.campaign() == 1
    for _ in range(40):
        seconds.now += 50
        assert b.campaign() is None
        assert a.renew()
    a.check()
    assert a.token == 1


def test_after_silence_another_takes_over_with_a_greater_token(
    daemons: list[Election], seconds: SimpleNamespace
) -> None:
    """Not before it has watched the silence itself, and then only one of them."""
    a, b, c = daemons
    a.campaign()
    seconds.now += 600
    assert (b.campaign(), c.campaign()) == (None, None)
    seconds.now += 60
    assert b.campaign() == 2
    assert c.campaign() is None
    assert (a.token, b.token) == (None, 2)


def test_a_sleeper_can_do_nothing_any_more(daemons: list[Election], seconds: SimpleNamespace) -> None:
    """It is refused before anything is committed, gives no sign, and has to campaign like all others."""
    a, b, _ = daemons
    a.campaign()
    b.campaign()
    seconds.now += 60
    b.campaign()
    with pytest.raises(ConflictError, match="no longer holds the lease"):
        a.check()
    assert not a.renew()
    assert a.campaign() is None
    b.check()


def test_a_sleeper_whose_clock_stood_still_is_found_out_by_the_store(
    make_store: Callable[[], LeaseStore], seconds: SimpleNamespace
) -> None:
    """Its own clock says that all is well; the number that another made says it is not."""
    sleeper = Election(make_store(), "a", MINUTE, lambda: 0.0)
    other = Election(make_store(), "b", MINUTE, lambda: seconds.now)
    sleeper.campaign()
    other.campaign()
    seconds.now += 60
    assert other.campaign() == 2
    with pytest.raises(ConflictError):
        sleeper.check()


def test_a_sleeper_finds_no_gap_to_return_by(make_store: Callable[[], LeaseStore]) -> None:
    """Others went on so far that the number it would make is removed already: it is refused all the same."""
    sleeper, busy = (Election(make_store(), name, MINUTE, lambda: 0.0) for name in "ab")
    sleeper.campaign()
    store = make_store()
    newest = store.newest()
    assert newest is not None
    for number in range(newest.number + 1, newest.number + 60):
        assert store.add(Sign(number, "b", 2))
    assert not store.add(Sign(2, "a", 1))
    with pytest.raises(ConflictError):
        sleeper.check()
    assert not sleeper.renew()
    last = make_store().newest()
    assert last is not None
    assert (last.number, last.holder) == (60, "b")
    assert busy.campaign() is None


def test_who_lets_go_keeps_nobody_waiting(daemons: list[Election]) -> None:
    """The next one has it at once, with a greater token."""
    a, b, _ = daemons
    a.campaign()
    a.release()
    assert b.campaign() == 3
    with pytest.raises(ConflictError):
        a.check()


def test_a_lease_that_cannot_be_read_is_not_taken(tmp_path: Path) -> None:
    """What stands there may be a newer release's: nobody works beside it."""
    (tmp_path / "lease-7.json").write_bytes(b"\x80\x04not a lease")
    election = Election(LeaseFiles(LOCAL_POINTERS, str(tmp_path)), "a", MINUTE, lambda: 0.0)
    with pytest.raises(FormatError, match=r"lease-7\.json"):
        election.campaign()


def test_a_catalog_that_cannot_compare_and_set_is_refused(tmp_path: Path) -> None:
    """A REST server checks requirements itself, and knows none of a property."""
    text = f"""drill.metastore {{
        iceberg {{ location.base_path = "{tmp_path}", catalog {{ type = rest, uri = "http://localhost:1" }} }}
        daemon.lease.kind = catalog }}"""
    with pytest.raises(ConfigError, match=r"lease\.kind = catalog"), lease_store(load_text(text)):
        pass
    with lease_store(load_text(text.replace("kind = catalog", "kind = auto"))) as store:
        assert isinstance(store, LeaseFiles)


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["campaign", "renew", "check", "release"])), max_size=60))
def test_never_two_at_once(steps: list[tuple[int, str]]) -> None:
    """Whatever they do in whatever order, while time goes on: one at most passes the check, and tokens only grow."""
    import tempfile  # noqa: PLC0415 - a folder for each example, which a fixture would not give

    with tempfile.TemporaryDirectory() as folder:
        now = 0.0
        daemons = [Election(LeaseFiles(LOCAL_POINTERS, folder), name, MINUTE, lambda: now) for name in "abc"]
        greatest = 0
        for which, what in steps:
            now += 20.0
            try:
                getattr(daemons[which], what)()
            except ConflictError:
                assert what == "check"
            holding = [each for each in daemons if _holds(each)]
            assert len(holding) <= 1
            for each in holding:
                assert each.token is not None
                assert each.token >= greatest
                greatest = each.token


def _holds(election: Election) -> bool:
    try:
        election.check()
    except ConflictError:
        return False
    return True


def test_of_two_who_saw_the_same_number_one_makes_the_next(tmp_path: Path) -> None:
    """In a catalog, too, where the commit of the slower one would else be put on top of the faster one's."""
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"}
    iceberg = {"location": {"base_path": str(tmp_path), "relative_path": "m"}, "catalog": catalog}
    settings = Settings.from_mapping({"drill.metastore.iceberg": iceberg}, environ={})
    with lease_store(settings) as slow, lease_store(settings) as fast:
        assert isinstance(slow, PropertyLease)
        seen = slow._table()
        slow._table = lambda: seen  # type: ignore[method-assign] # what it saw before it fell asleep
        assert fast.add(Sign(1, "fast", 1))
        assert not slow.add(Sign(1, "slow", 1))
        assert fast.newest() == Sign(1, "fast", 1)


def test_what_is_known_of_the_lease_can_be_asked(make_site: Callable[..., Any]) -> None:
    """Who holds it, also by who waits for it; how many questions failed, and why the last one did."""
    site = make_site()
    mine, other = site.election("mine"), site.election("other")
    assert mine.view == LeaseView()
    mine.campaign()
    assert other.campaign() is None
    assert (mine.view.holder, other.view.holder) == ("mine", "mine")
    mine.view.record_failure("the lease could not be renewed", StorageError("no space left"))
    assert (mine.view.errors, mine.view.trouble) == (1, "the lease could not be renewed: no space left")
    assert mine.renew()
    assert (mine.view.errors, mine.view.trouble) == (1, None)
    mine.release()
    assert other.campaign() is not None
    assert other.view.holder == "other"
