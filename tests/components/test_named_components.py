"""Views and materialized views by name: each change one transaction, whoever else is at it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest

from metastore.components.metastore import Metastore
from metastore.components.operations.modify import Modify
from metastore.components.views import Views
from metastore.errors import ConflictError, InvalidRequestError, NotFoundError
from metastore.model.identity import TableInfo
from metastore.model.view_unit import ViewMetadataUnit


def view(name: str = "v", sql: str = "SELECT 1 AS a") -> ViewMetadataUnit:
    """View ``dfs.tmp.<name>``."""
    return ViewMetadataUnit("dfs", "tmp", name, dialect="spark", representations={"spark": sql})


def test_create_get_list_and_drop(metastore: Metastore) -> None:
    """What is created is found by its name, in a list by plugin and workspace, until it is dropped."""
    views = metastore.views
    assert views.list() == []
    views.create(view("b"))
    views.create(view("a"))
    views.create(dataclasses.replace(view("c"), workspace="other"))
    assert views.get("dfs.tmp.a") == view("a")
    assert [unit.name for unit in views.list()] == ["c", "a", "b"]
    assert [unit.name for unit in views.list("dfs", "tmp")] == ["a", "b"]
    assert views.list("s3") == []
    assert views.drop("dfs.tmp.a") is True
    assert views.find("dfs.tmp.a") is None
    assert views.get("dfs.tmp.b") == view("b")


def test_a_taken_name_is_refused_unless_replaced(metastore: Metastore) -> None:
    """``if_not_exists`` leaves what is there, and makes no version."""
    first = metastore.views.create(view())
    with pytest.raises(InvalidRequestError, match=r"view dfs.tmp.v exists already"):
        metastore.views.create(view(sql="SELECT 2 AS b"))
    assert metastore.views.create(view(sql="SELECT 3 AS c"), if_not_exists=True) == first
    assert metastore.views.get("dfs.tmp.v") == view()
    metastore.views.create(view(sql="SELECT 2 AS b"), replace=True)
    assert metastore.views.get("dfs.tmp.v").sql == "SELECT 2 AS b"


def test_an_unknown_name_says_what_is_near(metastore: Metastore) -> None:
    """For every way of asking; ``if_exists`` asks for no error, and makes no version."""
    version = metastore.views.create(view("orders"))
    for ask in (
        lambda: metastore.views.get("dfs.tmp.order"),
        lambda: metastore.views.drop("dfs.tmp.order"),
        lambda: metastore.views.rename("dfs.tmp.order", "dfs.tmp.x"),
        lambda: metastore.views.replace(view("order")),
    ):
        with pytest.raises(NotFoundError, match=r"no view dfs.tmp.order; did you mean dfs.tmp.orders"):
            ask()
    assert metastore.views.drop("dfs.tmp.order", if_exists=True) is False
    assert metastore.views.metadata.version == version


def test_rename_is_one_version(metastore: Metastore) -> None:
    """Both names change in it; the unit keeps everything else; a taken name is refused, and nothing changed."""
    metastore.views.create(view("a", "SELECT 1 AS one"))
    metastore.views.create(view("b"))
    with pytest.raises(InvalidRequestError, match=r"dfs.tmp.b exists already"):
        metastore.views.rename("dfs.tmp.a", "dfs.tmp.b")
    with pytest.raises(InvalidRequestError, match="that name already"):
        metastore.views.rename("dfs.tmp.a", "dfs.tmp.a")
    before = metastore.views.metadata.version
    after = metastore.views.rename("dfs.tmp.a", "dfs.other.c", now_ms=7)
    assert metastore.views.metadata.history()[0].parent == before
    expected = dataclasses.replace(view("c", "SELECT 1 AS one"), workspace="other", last_modified_time=7)
    assert [metastore.views.find(n) for n in ("dfs.tmp.a", "dfs.other.c")] == [None, expected]
    assert [u.name for u in metastore.views.list(at=before)] == ["a", "b"]
    assert metastore.views.metadata.version == after


def test_replace_of_what_was_seen(metastore: Metastore) -> None:
    """One who replaces what it has seen loses to one who came first."""
    metastore.views.create(view())
    seen = metastore.views.get("dfs.tmp.v")
    metastore.views.replace(view(sql="SELECT 2 AS b"), seen=seen)
    with pytest.raises(ConflictError, match="another writer changed"):
        metastore.views.replace(view(sql="SELECT 3 AS c"), seen=seen)
    assert metastore.views.get("dfs.tmp.v").sql == "SELECT 2 AS b"


def test_versions_of_one_view_and_back(metastore: Metastore, now: SimpleNamespace) -> None:
    """Only versions that changed it are listed; a restored one is as it was, and others stay as they are."""
    views = metastore.views
    first = views.create(view())
    views.create(view("other"))
    now.ms += 1000
    views.create(view(sql="SELECT 2 AS b"), replace=True)
    views.drop("dfs.tmp.v")
    seen = [unit and unit.sql for _, unit in views.versions("dfs.tmp.v")]
    assert seen == [None, "SELECT 2 AS b", "SELECT 1 AS a"]
    assert views.get("dfs.tmp.v", at=first) == view()
    assert views.get("dfs.tmp.v", as_of=views.metadata.history()[-1].timestamp) == view()
    views.restore("dfs.tmp.v", first)
    assert views.list() == [view("other"), view()]
    with pytest.raises(NotFoundError, match="holds no view"):
        views.restore("dfs.tmp.other", first)
    with pytest.raises(InvalidRequestError, match="not both"):
        views.get("dfs.tmp.v", at=first, as_of=views.metadata.history()[0].timestamp)


def test_of_many_who_create_one_name_one_does(open_metastore: Callable[..., Metastore]) -> None:
    """The others are told that it exists; other names are in nobody's way."""
    metastores = [open_metastore(clock=None) for _ in range(4)]

    def create(number: int) -> str:
        metastores[number].views.create(view(f"own{number}"))
        try:
            metastores[number].views.create(view(sql=f"SELECT {number} AS a"))
        except InvalidRequestError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(4) as threads:
        said = list(threads.map(create, range(4)))
    assert said.count("") == 1
    assert metastores[0].views.get("dfs.tmp.v").sql == f"SELECT {said.index('')} AS a"
    assert len(metastores[0].views.list()) == 5


@pytest.mark.parametrize("taken", [TableInfo("dfs", "tmp", "a"), TableInfo("dfs", "tmp", "b")], ids=str)
def test_a_rename_that_is_overtaken_looks_again(
    metastore: Metastore, open_metastore: Callable[..., Metastore], monkeypatch: pytest.MonkeyPatch, taken: TableInfo
) -> None:
    """Another process touches the old name, or takes the new one, between the look and the commit."""
    other = open_metastore()
    metastore.views.create(view("a"))
    execute = Modify.execute
    overtaken: list[bool] = []

    def late(self: Modify[ViewMetadataUnit], *arguments: object, **named: object) -> int:
        if not overtaken:
            overtaken.append(True)
            other.views.create(view(taken.name, "SELECT 9 AS nine"), replace=True)
        return execute(self, *arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Modify, "execute", late)
    if taken.name == "b":
        with pytest.raises(InvalidRequestError, match=r"dfs.tmp.b exists already"):
            metastore.views.rename("dfs.tmp.a", "dfs.tmp.b")
        assert [unit.sql for unit in metastore.views.list()] == ["SELECT 1 AS a", "SELECT 9 AS nine"]
    else:
        metastore.views.rename("dfs.tmp.a", "dfs.tmp.b")
        assert [(unit.name, unit.sql) for unit in metastore.views.list()] == [("b", "SELECT 9 AS nine")]


def test_a_version_that_expires_under_a_look_is_no_error(
    metastore: Metastore, open_metastore: Callable[..., Metastore], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The newest is looked at instead, whatever is being done; an oldest version that expired is passed over."""
    other = open_metastore()
    views, find = metastore.views, type(metastore.views).find

    def expiring(self: Views, *arguments: Any, **named: Any) -> ViewMetadataUnit | None:
        if self is views and next(disturbed, False):
            other.views.create(view("other", f"SELECT {len(other.views.metadata.history())} AS n"), replace=True)
            other.views.expiration.expire()
        return find(self, *arguments, **named)

    monkeypatch.setattr(Views, "find", expiring)
    disturbed: Iterator[bool] = iter(())
    views.create(view("v"))
    changes: list[Callable[[], object]] = [
        lambda: views.create(view("v", "SELECT 2 AS b"), replace=True),
        lambda: views.rename("dfs.tmp.v", "dfs.tmp.w"),
        lambda: views.drop("dfs.tmp.w"),
    ]
    for change in changes:
        disturbed = iter([True])
        change()
    assert [unit.name for unit in views.list()] == ["other"]
    views.create(view("v"))
    disturbed = iter([True])
    assert [unit for _, unit in views.versions("dfs.tmp.v")] == [view("v")]
