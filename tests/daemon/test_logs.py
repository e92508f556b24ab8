"""What the daemon's log says of errors: one line for those of ours, and where a defect arose for all others."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyiceberg.table import Table

from metastore.components.catalogs import Catalogs
from metastore.daemon.gain import Facts
from metastore.daemon.health import health_of
from metastore.daemon.logs import JsonLines
from metastore.daemon.report import draw
from metastore.errors import StorageError
from metastore.lake.iceberg.catalogs.target import TargetTable

EXPIRE = {"catalogs": {"lake": {"expire_snapshots": {"enabled": True, "quiet": "10 minutes"}}}}
TEXT = logging.Formatter("%(levelname)s: %(message)s")


@contextmanager
def log_of(formatter: logging.Formatter) -> Iterator[Callable[[], str]]:
    """What the package logs, as ``formatter`` writes it."""
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(formatter)
    own = logging.getLogger("metastore")
    before = own.level
    own.addHandler(handler)
    own.setLevel(logging.INFO)
    try:
        yield written.getvalue
    finally:
        own.removeHandler(handler)
        own.setLevel(before)


def fail_with(error: Exception) -> Callable[..., Any]:
    """A function that does, from a frame whose name is to be found in the log."""

    def where_it_arose(*_: object) -> Any:
        raise error

    return where_it_arose


def one_pass(site: Any) -> None:
    """The loop, from asking for the lease to its first wait after a pass."""
    daemon = site.daemon()
    site.on_wait = lambda: setattr(site, "stopped", True)
    daemon.run(lambda: None)


def in_its_look(site: Any, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """A table cannot be loaded: before the run, in it, and after it."""
    monkeypatch.setattr(TargetTable, "load", fail_with(error))
    one_pass(site)


def after_its_run(site: Any, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """How the table stands is what cannot be told, once the work is done."""
    found = Facts.of
    told: list[Table] = []

    def of(table: Table) -> Facts:
        told.append(table)
        return fail_with(error)() if len(told) > 2 else found(table)

    monkeypatch.setattr(Facts, "of", of)
    site.later(days=9)  # Only a run that changes the table asks how it stands afterwards.
    one_pass(site)
    assert len(told) == 3


def in_its_catalog(site: Any, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """A catalog does not answer."""
    monkeypatch.setattr(Catalogs, "walk_schemas", fail_with(error))
    one_pass(site)


def in_its_history(site: Any, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """The pass comes to no table."""
    monkeypatch.setattr(site.session.metastore.runs, "since", fail_with(error))
    one_pass(site)


def in_its_lease(site: Any, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """It cannot be asked for."""
    monkeypatch.setattr("metastore.daemon.lease.Election.campaign", fail_with(error))
    one_pass(site)


def in_scores(site: Any, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Its row has an error."""
    monkeypatch.setattr(TargetTable, "load", fail_with(error))
    [row] = health_of(site.session, None, count_orphans=False)
    assert row["error"]


def in_catalogs_of_scores(site: Any, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """There are no rows."""
    monkeypatch.setattr(Catalogs, "walk_schemas", fail_with(error))
    assert list(health_of(site.session, None, count_orphans=False)) == []


def in_the_chart(site: Any, monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """One of two tables is left out."""
    site.table("good", commits=1)
    load = TargetTable.load
    monkeypatch.setattr(TargetTable, "load", lambda self: load(self) if self.name == "good" else fail_with(error)())
    assert draw(site.session, site.folder / "chart.html") == 1


PLACES = (
    in_its_look,
    after_its_run,
    in_its_catalog,
    in_its_history,
    in_its_lease,
    in_scores,
    in_catalogs_of_scores,
    in_the_chart,
)
Place = Callable[[Any, pytest.MonkeyPatch, Exception], None]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: str(place.__name__))
def test_an_error_that_nobody_foresaw_is_logged_with_where_it_arose(
    make_site: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    """Wherever it is skipped: in a field of the JSON lines, and below the line of the text."""
    site = make_site(**EXPIRE)
    site.table("orders", commits=2)
    site.later(days=2)
    with log_of(JsonLines()) as lines, log_of(TEXT) as text:
        place(site, monkeypatch, LookupError("unheard of"))
    records = [json.loads(line) for line in lines().splitlines()]
    told = [record for record in records if "LookupError: unheard of" in record["message"]]
    assert told
    for record in told:
        assert "where_it_arose" in record["error"]
        assert record["error"].startswith("Traceback")
        assert record["error"].endswith("LookupError: unheard of")
    assert text().count("Traceback (most recent call last)") == len(told)


def test_a_line_is_json_in_every_encoding() -> None:
    """Whatever the name of a table, and whatever standard error has codes for."""
    record = logging.LogRecord("metastore", logging.INFO, "", 0, "%s", ("lake.shop.bücher – \udcff",), None)
    written = JsonLines().format(record).encode("ascii", errors="backslashreplace")
    assert json.loads(written)["message"] == "lake.shop.bücher – \udcff"


@pytest.mark.parametrize("place", PLACES, ids=lambda place: str(place.__name__))
def test_an_error_of_ours_is_one_line(
    make_site: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, place: Place
) -> None:
    """It says what is wrong and where; no traceback stands beside it."""
    site = make_site(**EXPIRE)
    site.table("orders", commits=2)
    site.later(days=2)
    with log_of(JsonLines()) as lines, log_of(TEXT) as text:
        place(site, monkeypatch, StorageError("the disk is gone"))
    records = [json.loads(line) for line in lines().splitlines()]
    assert all("error" not in record for record in records)
    assert len(text().splitlines()) == len(records)
