"""A pass costs each table the same, however many tables there are: counted in statements and requests."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy

from metastore.components.catalogs import Pointers
from metastore.daemon.guard import Looks
from metastore.daemon.loop import Daemon
from metastore.lake.iceberg.catalogs.pointers import Pointer

EXPIRE = {"catalogs": {"lake": {"expire_snapshots": {"enabled": True, "older_than": "0 s", "schedule": "1 h"}}}}


@contextmanager
def statements(catalog: Any) -> Iterator[Counter[str]]:
    """What is sent to the database of a SQL catalog, by the first word."""
    sent: Counter[str] = Counter()

    def count(_connection: Any, _cursor: Any, text: str, *_: Any) -> None:
        sent[text.split(maxsplit=1)[0]] += 1

    sqlalchemy.event.listen(catalog.engine, "before_cursor_execute", count)
    yield sent
    sqlalchemy.event.remove(catalog.engine, "before_cursor_execute", count)


@contextmanager
def opened_files() -> Iterator[Counter[str]]:
    """How often this process opens each file."""
    opened: Counter[str] = Counter()
    counts = True

    def count(event: str, arguments: tuple[Any, ...]) -> None:
        if counts and event == "open":
            opened[str(arguments[0])] += 1

    sys.addaudithook(count)  # no hook can be removed
    try:
        yield opened
    finally:
        counts = False


def test_statements_a_table_do_not_grow_with_the_tables(make_site: Callable[..., Any]) -> None:
    """Neither where each table has files to delete, nor in the pass after that, which asks for no table at all."""
    site = make_site(**EXPIRE)
    daemon: Daemon = site.daemon()
    counted: dict[int, tuple[float, int]] = {}
    count = 0
    for more in (6, 18):
        count += more
        for number in range(more):
            site.table(f"t{more}_{number}", commits=2)
        site.later(days=1)
        with statements(site.lake) as sent:
            statuses = [run.status for run in daemon.once()]
        site.later(hours=2)
        with statements(site.lake) as again:
            assert {run.status for run in daemon.once()} == {"nothing"}
        assert statuses.count("done") == more
        counted[count] = (sent.total() / more, again.total())
    (few, few_again), (many, many_again) = counted.values()
    assert many <= 1.1 * few
    assert few_again == many_again <= 8


def test_two_workers_read_what_tables_reach_once(make_site: Callable[..., Any]) -> None:
    """Both need to know all tables for their first deletion: the second one waits for what the first one reads.

    Manifests of tables without work are opened once, and nobody asks for the lease where nothing changes.
    """
    site = make_site({"workers": 2}, **EXPIRE)
    for number in range(40):
        site.table(f"t{number}", commits=2 if number < 6 else 1)
    site.later(days=1)
    with opened_files() as opened:
        assert Counter(run.status for run in site.daemon().once()) == {"done": 6, "nothing": 34}
    idle = {path: times for path, times in opened.items() if re.search(r"/t([6-9]|\d\d)/.*\.avro$", path)}
    assert len(idle) == 68
    assert set(idle.values()) == {1}


def test_a_table_that_takes_a_file_in_after_the_last_pass_keeps_it(make_site: Callable[..., Any]) -> None:
    """The daemon keeps the index from pass to pass, and reads a table again after its pointer has changed."""
    site = make_site(**EXPIRE)
    giving, taking = (site.table(name, commits=2) for name in ("giving", "taking"))
    site.later(days=1)
    daemon: Daemon = site.daemon()
    daemon.once()
    giving.refresh().append(pa.table({"id": [7]}))
    [task] = giving.scan("id = 7").plan_files()
    taking.refresh().add_files([task.file.file_path])
    giving.delete("id = 7")
    site.later(days=1)
    runs = {run.table: json.loads(run.result or "{}") for run in daemon.once()}
    assert runs["lake.shop.giving"]["expired_snapshots_count"] > 0
    assert Path(task.file.file_path.removeprefix("file://")).exists()
    assert 7 in taking.refresh().scan().to_arrow()["id"].to_pylist()


@pytest.mark.parametrize(("took", "looks"), [(0.9, 5), (4.0, 2)])
def test_a_long_listing_is_used_for_as_long_as_it_took(took: float, looks: int) -> None:
    """So deletions among many tables of a REST catalog do not cost a request a table each. A short one is made anew."""
    seconds, made = [0.0], [0]

    def look() -> Pointers:
        made[0] += 1
        seconds[0] += took
        return {("s", "t"): Pointer(f"v{made[0]}")}

    kept = Looks(lambda: seconds[0])
    found = []
    for _ in range(5):
        found.append(kept.of("rest", look))
        seconds[0] += 1.5
    assert made[0] == looks
    assert found[0] == {("s", "t"): Pointer("v1")}
    assert found[-1] == {("s", "t"): Pointer(f"v{looks}")}
