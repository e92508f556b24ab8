"""A load of a published table looks at its folder first. If the look fails, the answer is stale and says why."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.served_lake import Lake, MakeLake

from metastore.errors import ConfigError, NotFoundError
from metastore.serve.freshness import FolderLooks, StalePublication

PATH = "/v1/lake/namespaces/shop/tables/t"
AGE, WHY = "metastore.published.age-seconds", "metastore.published.stale"


def write(lake: Lake, name: str, ids: list[Any]) -> Path:
    """One file of the folder ``dfs.w.t``."""
    path = lake.folder / "data" / "t" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": ids}), path)
    return path


@pytest.fixture
def publish(make_lake: MakeLake) -> Callable[..., Lake]:
    """Makes a lake that serves one published table with the rows 1 and 2, with settings of ``serve``."""

    def make(**settings: Any) -> Lake:
        lake = make_lake(**settings)
        write(lake, "a.parquet", [1, 2])
        lake.sql("ANALYZE TABLE dfs.w.t REFRESH METADATA PUBLISH AS lake.shop.t")
        return lake

    return make


def rows(lake: Lake) -> list[Any]:
    """As PyIceberg reads them by name."""
    read = lake.client("lake").load_table(("shop", "t")).scan().to_arrow()
    return sorted(read["id"].to_pylist())


def properties(lake: Lake) -> dict[str, str]:
    """Of the served table."""
    found: dict[str, str] = lake.ask(PATH).document["metadata"]["properties"]
    return found


def test_a_load_has_the_rows_of_the_folder(publish: Callable[..., Lake]) -> None:
    """Files that came, changed and went since the last ANALYZE; a load of what did not change gets 304."""
    lake = publish(freshness="0 seconds")
    first = lake.ask(PATH)
    assert lake.ask(PATH, If_None_Match=first.headers["etag"]).status == 304
    write(lake, "b.parquet", [3])
    assert lake.ask(PATH, If_None_Match=first.headers["etag"]).status == 200
    assert rows(lake) == [1, 2, 3]
    write(lake, "b.parquet", [4, 5])
    assert rows(lake) == [1, 2, 4, 5]
    (lake.folder / "data" / "t" / "a.parquet").unlink()
    assert rows(lake) == [4, 5]
    assert AGE not in properties(lake)


def test_without_the_setting_a_load_does_not_look(publish: Callable[..., Lake]) -> None:
    """And nothing is written."""
    lake = publish()
    write(lake, "b.parquet", [3])
    before = lake.files()
    assert rows(lake) == [1, 2]
    assert lake.files() == before


def test_a_young_look_is_not_repeated(publish: Callable[..., Lake]) -> None:
    """Within the time of the setting; tables that publish nothing are not looked at either."""
    lake = publish(freshness="1 hour")
    assert rows(lake) == [1, 2]
    write(lake, "b.parquet", [3])
    assert rows(lake) == [1, 2]
    lake.sql("CREATE TABLE lake.shop.plain (id BIGINT)")
    assert WHY not in lake.ask("/v1/lake/namespaces/shop/tables/plain").document["metadata"]["properties"]


def test_what_cannot_be_published_is_served_with_its_age(publish: Callable[..., Lake]) -> None:
    """Here text beside numbers. Such an answer has no tag, so it is never taken for the newest."""
    lake = publish(freshness="0 seconds")
    first = lake.ask(PATH)
    write(lake, "b.parquet", ["text"])
    reply = lake.ask(PATH, If_None_Match=first.headers["etag"])
    assert (reply.status, "etag" in reply.headers) == (200, False)
    told = reply.document["metadata"]["properties"]
    assert 0 <= int(told[AGE]) < 60
    assert "is not published" in told[WHY]
    assert rows(lake) == [1, 2]
    (lake.folder / "data" / "t" / "b.parquet").unlink()
    assert AGE not in properties(lake)


def test_milliseconds_that_were_accepted_once_are_accepted_by_later_looks(make_lake: MakeLake) -> None:
    """The table says so itself, since a look has no options."""
    lake = make_lake(freshness="0 seconds")
    times = pa.array([0], pa.timestamp("ms"))
    path = write(lake, "a.parquet", [1])
    pq.write_table(pa.table({"id": times}), path)
    lake.session.analyze("dfs.w.t")
    lake.session.publish("dfs.w.t", "lake.shop.t", milliseconds=True)
    pq.write_table(pa.table({"id": times}), path.with_name("b.parquet"))
    assert AGE not in properties(lake)
    assert len(rows(lake)) == 2


@pytest.mark.parametrize("source", ["dfs.w.t", "/etc", "dfs.w.`../m`", "dfs.w.other"])
def test_a_property_leads_to_no_folder_that_was_not_analyzed(publish: Callable[..., Lake], source: str) -> None:
    """Whoever can write to the catalog cannot make the server read a folder, or read a table again that was dropped."""
    lake = publish(freshness="0 seconds")
    write(lake, "../other/a.parquet", [9])
    lake.session.drop_metadata("dfs.w.t")
    table = lake.session.catalogs.target("lake", "shop", "t").load()
    with table.transaction() as change:
        change.set_properties({"metastore.published.table": source})
    assert properties(lake)[WHY]
    assert lake.session.tables_matching("dfs.w.*") == lake.session.tables_matching()
    for name in ("dfs.w.t", "dfs.w.other"):
        with pytest.raises(NotFoundError):
            lake.session.prune(name, "id = 1")
    assert rows(lake) == [1, 2]


def test_the_wait_is_shorter_than_a_request(make_lake: MakeLake) -> None:
    """Or the load would be refused before it could be answered with the last publication."""
    with pytest.raises(ConfigError, match="renewal"):
        make_lake(freshness="1 s", limits={"request": "5 s", "renewal": "5 s"})


class Folder:
    """A folder whose looks wait for the test, on a clock of the test."""

    def __init__(self) -> None:
        self.now = 0.0
        self.looks = 0
        self.error: Exception | None = None
        self.ready = threading.Event()
        self.ready.set()

    def renew(self, source: str, name: str | None) -> None:
        """One look."""
        assert (source, name) == ("dfs.w.t", "lake.shop.t")
        self.looks += 1
        self.ready.wait(20)
        if self.error is not None:
            raise self.error

    def fresh(self, wait_s: float = 20) -> FolderLooks:
        """Looks after 30 s."""
        age, wait = timedelta(seconds=30), timedelta(seconds=wait_s)
        return FolderLooks(self.renew, age, wait, lambda: round(self.now * 1000), lambda: self.now)


def look(fresh: FolderLooks) -> StalePublication | None:
    """Of the one table."""
    return fresh.look("dfs.w.t", "lake.shop.t")


def test_a_look_that_is_late_is_waited_for_once() -> None:
    """Later loads get the last publication at once, until it has ended; what it found then counts."""
    folder = Folder()
    fresh = folder.fresh(wait_s=0.2)
    assert look(fresh) is None
    folder.now = 40
    folder.ready.clear()
    assert look(fresh) == StalePublication("the look at the folder has not ended yet", known_ms=0)
    folder.now = 100
    started = time.monotonic()
    assert look(fresh) == StalePublication("the look at the folder has not ended yet", known_ms=0)
    assert time.monotonic() - started < 0.15
    assert folder.looks == 2
    folder.ready.set()
    fresh.close()


def test_a_failed_look_is_tried_again_after_a_while() -> None:
    """Later loads do not repeat it, and all of them have its error. The text of a defect is in the log alone."""
    folder = Folder()
    fresh = folder.fresh()
    folder.error = NotFoundError("gone")
    assert look(fresh) == look(fresh) == StalePublication("gone", known_ms=None)
    assert folder.looks == 1
    folder.now, folder.error = 31, ValueError("secret")
    assert look(fresh) == StalePublication("the look at the folder failed; the server's log says why", known_ms=None)
    folder.now, folder.error = 62, None
    assert look(fresh) is None
    assert folder.looks == 3
    fresh.close()


def test_many_loads_share_one_look() -> None:
    """Those that come while it runs wait for it."""
    folder = Folder()
    fresh = folder.fresh()
    folder.ready.clear()
    found: list[StalePublication | None] = []
    threads = [threading.Thread(target=lambda: found.append(look(fresh))) for _ in range(8)]
    for each in threads:
        each.start()
    folder.ready.set()
    for each in threads:
        each.join()
    assert (found, folder.looks) == ([None] * 8, 1)
    fresh.close()
