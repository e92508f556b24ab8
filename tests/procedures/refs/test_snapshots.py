"""Where a table is, and how it gets elsewhere: back, forward again, along branches; never over somebody else's move."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from pyiceberg.table.refs import MAIN_BRANCH
from support.procedures_site import Site
from support.snapshots import there

from metastore.errors import InvalidRequestError, NotFoundError, ProcedureError
from metastore.model.vocabulary import MetadataType
from metastore.procedures.framework.model import CallContext
from metastore.session import Session

KEPT = {"min_snapshots_to_keep": 7, "max_snapshot_age_ms": 11, "max_ref_age_ms": 13}


def retention(site: Site, name: str) -> dict[str, Any]:
    """What the ref ``name`` says of how long it stays."""
    ref = site.table.metadata.refs[name]
    return {key: getattr(ref, key) for key in KEPT}


def when(site: Site, snapshot_id: int) -> datetime:
    """The time of a snapshot."""
    snapshot = there(site.table.metadata.snapshot_by_id(snapshot_id))
    return datetime.fromtimestamp(snapshot.timestamp_ms / 1000, tz=timezone.utc)


def test_back_and_forward_again(site: Site) -> None:
    """A rollback shows the rows of then; set_current_snapshot goes to a snapshot that is no ancestor any more."""
    first, second = site.append(1), site.append(2)
    assert site.call("rollback_to_snapshot", snapshot_id=first) == [
        {"previous_snapshot_id": second, "current_snapshot_id": first}
    ]
    assert site.ids() == [1]
    assert site.call("set_current_snapshot", snapshot_id=second) == [
        {"previous_snapshot_id": first, "current_snapshot_id": second}
    ]
    assert site.ids() == [1, 2]


def test_writers_go_on_after_a_rollback(site: Site) -> None:
    """What is appended then stands on the earlier snapshot, and the one left behind is no ancestor."""
    first, second = site.append(1), site.append(2)
    site.call("rollback_to_snapshot", snapshot_id=first)
    third = site.append(3)
    assert site.ids() == [1, 3]
    assert [row["snapshot_id"] for row in site.call("ancestors_of")] == [third, first]
    assert [row["snapshot_id"] for row in site.call("ancestors_of", snapshot_id=second)] == [second, first]


def test_ancestors_come_with_their_times(site: Site) -> None:
    """Newest first; of a table that nobody wrote to there are none."""
    assert site.call("ancestors_of") == []
    first, second = site.append(1), site.append(2)
    assert site.call("ancestors_of") == [
        {"snapshot_id": each, "timestamp": when(site, each)} for each in (second, first)
    ]


def test_the_newest_snapshot_strictly_before_a_time(site: Site) -> None:
    """At a snapshot's own millisecond the one before it counts, a microsecond later itself."""
    first, second = site.append(1), site.append(2)
    third = site.append(3)
    site.call("rollback_to_timestamp", timestamp=when(site, third))
    assert site.ids() == [1, 2]
    site.call("rollback_to_timestamp", timestamp=when(site, second) + timedelta(microseconds=1))
    assert site.ids() == [1, 2]
    site.call("rollback_to_timestamp", timestamp=when(site, second))
    assert site.ids() == [1]
    with pytest.raises(ProcedureError, match="Cannot roll back, no valid snapshot older than: "):
        site.call("rollback_to_timestamp", timestamp=when(site, first))


def test_set_current_snapshot_takes_a_ref(site: Site) -> None:
    """The snapshot that a branch or tag stands at becomes the current one; the ref stays where it is."""
    first, second = site.append(1), site.append(2)
    site.call("create_tag", tag="v1", snapshot_id=first)
    site.call("set_current_snapshot", ref="v1")
    assert site.ids() == [1]
    assert site.table.metadata.refs["v1"].snapshot_id == first
    assert second in {each.snapshot_id for each in site.table.metadata.snapshots}


def test_fast_forward(site: Site) -> None:
    """A branch goes to where a later one stands, a missing one is made, an equal one stays and makes no version."""
    first = site.append(1)
    site.call("create_branch", branch="audit")
    second = site.append(2, branch="audit")
    assert site.ids() == [1]
    moved = {"branch_updated": "main", "previous_ref": first, "updated_ref": second}
    assert site.call("fast_forward", branch="main", to="audit") == [moved]
    assert site.ids() == [1, 2]
    version = site.table.metadata_location
    assert site.call("fast_forward", branch="main", to="audit") == [moved | {"previous_ref": second}]
    assert site.table.metadata_location == version
    made = {"branch_updated": "new", "previous_ref": None, "updated_ref": second}
    assert site.call("fast_forward", branch="new", to="audit") == [made]
    assert site.table.metadata.refs["new"].snapshot_id == second


def test_what_changes_nothing_makes_no_version(site: Site) -> None:
    """To go where the table is already is no commit."""
    first = site.append(1)
    version = site.table.metadata_location
    same = [{"previous_snapshot_id": first, "current_snapshot_id": first}]
    assert site.call("rollback_to_snapshot", snapshot_id=first) == same
    assert site.call("set_current_snapshot", snapshot_id=first) == same
    assert site.table.metadata_location == version


MOVES: dict[str, Callable[[Any, int], dict[str, Any]]] = {
    "rollback_to_snapshot": lambda _, first: {"snapshot_id": first},
    "rollback_to_timestamp": lambda site, first: {"timestamp": when(site, first) + timedelta(microseconds=1)},
    "set_current_snapshot": lambda _, first: {"snapshot_id": first},
    "replace_branch": lambda _, first: {"branch": MAIN_BRANCH, "snapshot_id": first},
}


@pytest.mark.parametrize(("procedure", "arguments"), MOVES.items(), ids=MOVES)
def test_a_ref_that_moves_keeps_its_retention(
    site: Site, procedure: str, arguments: Callable[[Any, int], dict[str, Any]]
) -> None:
    """Whatever moves ``main``; PyIceberg's own would drop it."""
    first = site.append(1)
    site.append(2)
    site.call("replace_branch", branch=MAIN_BRANCH, **KEPT)
    site.call(procedure, **arguments(site, first))
    assert site.ids() == [1]
    assert retention(site, MAIN_BRANCH) == KEPT


def test_fast_forward_keeps_retention(site: Site) -> None:
    """That of the branch that moves, not that of the one it follows."""
    site.append(1)
    site.call("create_branch", branch="slow", **KEPT)
    site.append(2)
    site.call("fast_forward", branch="slow", to=MAIN_BRANCH)
    assert site.ids(snapshot_id=site.table.metadata.refs["slow"].snapshot_id) == [1, 2]
    assert retention(site, "slow") == KEPT


REFUSALS: dict[str, tuple[str, dict[str, Any], type[Exception], str]] = {
    "unknown": (
        "rollback_to_snapshot",
        {"snapshot_id": 1},
        ProcedureError,
        "Cannot roll back to unknown snapshot id: 1",
    ),
    "no ancestor": (
        "rollback_to_snapshot",
        {"snapshot_id": "beside"},
        ProcedureError,
        "Cannot roll back to snapshot, not an ancestor of the current state: ",
    ),
    "neither": (
        "set_current_snapshot",
        {},
        InvalidRequestError,
        "Either snapshot_id or ref must be provided, not both",
    ),
    "both": (
        "set_current_snapshot",
        {"snapshot_id": 1, "ref": "main"},
        InvalidRequestError,
        "Either snapshot_id or ref must be provided, not both",
    ),
    "no ref": (
        "set_current_snapshot",
        {"ref": "nobody"},
        ProcedureError,
        "Cannot find matching snapshot ID for ref nobody",
    ),
    "unknown current": (
        "set_current_snapshot",
        {"snapshot_id": 1},
        ProcedureError,
        "Cannot set current snapshot to unknown snapshot id: 1",
    ),
    "no ancestors": ("ancestors_of", {"snapshot_id": 1}, ProcedureError, "Cannot find snapshot: 1"),
    "no target": ("fast_forward", {"branch": "main", "to": "nobody"}, ProcedureError, "Ref does not exist: nobody"),
    "a tag": ("fast_forward", {"branch": "tag", "to": "main"}, ProcedureError, "Ref tag is a tag not a branch"),
    "apart": (
        "fast_forward",
        {"branch": "main", "to": "apart"},
        ProcedureError,
        "Cannot fast-forward: main is not an ancestor of apart",
    ),
}


@pytest.mark.parametrize(("procedure", "arguments", "error", "said"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(site: Site, procedure: str, arguments: dict[str, Any], error: type[Exception], said: str) -> None:
    """Each in the words that other engines have for it; nothing is changed."""
    first = site.append(1)
    site.call("create_branch", branch="apart")
    beside = site.append(9, branch="apart")
    site.call("create_tag", tag="tag", snapshot_id=first)
    site.append(2)
    version = site.table.metadata_location
    given = {key: beside if value == "beside" else value for key, value in arguments.items()}
    with pytest.raises(error) as raised:
        site.call(procedure, **given)
    assert str(raised.value).startswith(said)
    assert site.table.metadata_location == version


@pytest.mark.parametrize("procedure", ["rollback_to_timestamp", "rollback_to_snapshot"])
def test_a_table_without_snapshots_has_nothing_to_go_back_to(site: Site, procedure: str) -> None:
    """It is said, and not by a broken pointer."""
    argument = {"timestamp": "2026-01-01 UTC"} if procedure.endswith("timestamp") else {"snapshot_id": 1}
    with pytest.raises(ProcedureError, match="no current snapshot|unknown snapshot id"):
        site.call(procedure, **argument)


def test_a_move_that_others_overtake_is_decided_anew(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the decision and the commit somebody appends: then the answer has their snapshot as the previous one."""
    first = site.append(1)
    site.append(2)
    overtaken = []
    target = site.session.catalogs.table(site.catalog, "db", "t")
    overtaking = _Overtaking(target, lambda: overtaken.append(site.append(3)))
    monkeypatch.setattr(CallContext, "table", lambda *_: overtaking)
    done = site.call("rollback_to_snapshot", snapshot_id=first)
    assert overtaking.commits == 2
    assert done == [{"previous_snapshot_id": overtaken[0], "current_snapshot_id": first}]
    assert site.ids() == [1]


class _Overtaking:
    """A table whose first commit comes too late: just before it, ``others`` commit."""

    def __init__(self, target: Any, others: Callable[[], object]) -> None:
        self._target = target
        self._others = others
        self.commits = 0

    def load(self) -> Any:
        return self._target.load()

    def commit(self, *arguments: Any) -> Any:
        self.commits += 1
        if self.commits == 1:
            self._others()
        return self._target.commit(*arguments)


def test_a_branch_that_moved_meanwhile_is_not_set_back(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The follower was decided upon ``audit`` as it stood; it ends where ``audit`` stands now."""
    site.append(1)
    site.call("create_branch", branch="audit")
    site.append(2, branch="audit")
    target = site.session.catalogs.table(site.catalog, "db", "t")
    overtaking = _Overtaking(target, lambda: site.append(3, branch="audit"))
    monkeypatch.setattr(CallContext, "table", lambda *_: overtaking)
    site.call("fast_forward", branch="main", to="audit")
    assert overtaking.commits == 2
    assert site.ids() == [1, 2, 3]


def test_components_are_tables_too(session: Session, unit: Callable[..., Any]) -> None:
    """What the metastore knew before a modification is known again, and then once more what it knew after it."""
    session.tables.modify().overwrite([unit("nation")]).execute()
    first = session.tables.metadata.version
    session.tables.modify().overwrite([unit("region")]).execute()
    second = session.tables.metadata.version
    name = "metastore.system.rollback_to_snapshot"
    session.call(name, schema="components", table_name="tables", snapshot_id=first)
    assert [each.table_name for each in session.tables.read().metadata_types(MetadataType.ALL).execute()] == ["nation"]
    session.sql(f"CALL metastore.system.set_current_snapshot('components', 'tables', {second})")
    assert sorted(
        str(each.table_name) for each in session.tables.read().metadata_types(MetadataType.ALL).execute()
    ) == [
        "nation",
        "region",
    ]


def test_a_table_that_is_not_there(session: Session) -> None:
    """What is near is named; of components it is said that nothing was written yet."""
    session.catalogs.open("lake").create_namespace("db")
    with pytest.raises(NotFoundError, match=r"lake\.db\.t does not exist"):
        session.call("lake.system.ancestors_of", "db", "t")
    with pytest.raises(NotFoundError, match="nothing was written"):
        session.call("metastore.system.ancestors_of", "components", "tables")
