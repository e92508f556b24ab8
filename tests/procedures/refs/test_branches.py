"""Branches and tags: made, moved, removed; what a ref is stays, and so does ``main``."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest
from support.procedures_site import Site
from support.snapshots import current

from metastore.errors import InvalidRequestError, ProcedureError

KEPT = {"min_snapshots_to_keep": 7, "max_snapshot_age_ms": 11, "max_ref_age_ms": 13}


def refs(site: Site) -> dict[str, tuple[str, int]]:
    """Kind and snapshot of every ref."""
    return {name: (str(ref.snapshot_ref_type), ref.snapshot_id) for name, ref in site.table.metadata.refs.items()}


def test_made_moved_and_removed(site: Site) -> None:
    """By default at the current snapshot, else at the one that is named."""
    first, second = site.append(1), site.append(2)
    made = {"ref": "b", "type": "branch", "previous_snapshot_id": None, "snapshot_id": second}
    assert site.call("create_branch", branch="b") == [made]
    site.call("create_tag", tag="v1", snapshot_id=first)
    assert refs(site) == {"main": ("branch", second), "b": ("branch", second), "v1": ("tag", first)}
    moved = {"ref": "v1", "type": "tag", "previous_snapshot_id": first, "snapshot_id": second}
    assert site.call("replace_tag", tag="v1") == [moved]
    site.call("replace_branch", branch="b", snapshot_id=first)
    assert refs(site) == {"main": ("branch", second), "b": ("branch", first), "v1": ("tag", second)}
    gone = {"ref": "b", "type": "branch", "previous_snapshot_id": first, "snapshot_id": None}
    assert site.call("drop_branch", branch="b") == [gone]
    site.call("drop_tag", tag="v1")
    assert refs(site) == {"main": ("branch", second)}
    assert site.ids() == [1, 2]


@pytest.mark.parametrize(
    ("procedure", "arguments"),
    [
        ("drop_branch", {"branch": "b"}),
        ("drop_tag", {"tag": "v1"}),
        ("replace_branch", {"branch": "b"}),
        ("replace_tag", {"tag": "v1"}),
        ("fast_forward", {"branch": "b", "to": "main"}),
        ("set_current_snapshot", {"ref": "v1"}),
        ("rollback_to_snapshot", {}),
        ("rollback_to_timestamp", {}),
    ],
)
def test_a_dry_run_tells_what_a_run_does_and_moves_nothing(
    site: Site, procedure: str, arguments: dict[str, Any]
) -> None:
    """The row is the one that the call itself returns."""
    first = site.append(1)
    site.call("create_branch", branch="b")
    site.call("create_tag", tag="v1")
    site.append(2)
    if procedure == "rollback_to_snapshot":
        arguments = {"snapshot_id": first}
    if procedure == "rollback_to_timestamp":
        newest = current(site.table)
        arguments = {"timestamp": datetime.fromtimestamp(newest.timestamp_ms / 1000, tz=timezone.utc)}
    before = site.table.metadata_location
    told = site.call(procedure, **arguments, dry_run=True)
    assert site.table.metadata_location == before
    assert site.call(procedure, **arguments) == told
    assert site.table.metadata_location != before


def test_a_branch_has_a_history_of_its_own(site: Site) -> None:
    """Rows that are written to it are not in ``main``."""
    site.append(1)
    site.call("create_branch", branch="b")
    on_branch = site.append(2, branch="b")
    assert site.ids() == [1]
    assert site.ids(snapshot_id=on_branch) == [1, 2]


def test_retention_is_kept_but_for_what_is_given(site: Site) -> None:
    """Replacing a branch sets what the call names; the rest is as it was."""
    first = site.append(1)
    site.call("create_branch", branch="b", **KEPT)
    site.call("replace_branch", branch="b", snapshot_id=first, max_snapshot_age_ms=99)
    ref = site.table.metadata.refs["b"]
    assert (ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms) == (7, 99, 13)
    site.call("create_tag", tag="v1", max_ref_age_ms=5)
    site.call("replace_tag", tag="v1", snapshot_id=first)
    assert site.table.metadata.refs["v1"].max_ref_age_ms == 5


def test_dropping_what_is_not_there(site: Site) -> None:
    """An error, unless the call says that it may be so; then there is no row and no version."""
    site.append(1)
    with pytest.raises(ProcedureError, match="Ref does not exist: b"):
        site.call("drop_branch", branch="b")
    version = site.table.metadata_location
    assert site.call("drop_branch", branch="b", if_exists=True) == []
    assert site.call("drop_tag", tag="b", if_exists=True) == []
    assert site.table.metadata_location == version


REFUSALS: dict[str, tuple[str, dict[str, Any], type[Exception], str]] = {
    "main stays": ("drop_branch", {"branch": "main"}, ProcedureError, "Cannot remove main branch"),
    "main is no tag": ("drop_tag", {"tag": "main"}, ProcedureError, "Ref main is a branch not a tag"),
    "a tag is no branch": ("drop_branch", {"branch": "v1"}, ProcedureError, "Ref v1 is a tag not a branch"),
    "nor becomes one": ("replace_branch", {"branch": "v1"}, ProcedureError, "Ref v1 is a tag not a branch"),
    "nor the other way": ("replace_tag", {"tag": "b"}, ProcedureError, "Ref b is a branch not a tag"),
    "taken": ("create_branch", {"branch": "b"}, ProcedureError, "Ref b already exists"),
    "taken by a tag": ("create_branch", {"branch": "v1"}, ProcedureError, "Ref v1 already exists"),
    "taken, a tag": ("create_tag", {"tag": "b"}, ProcedureError, "Ref b already exists"),
    "nobody": ("replace_tag", {"tag": "nobody"}, ProcedureError, "Ref does not exist: nobody"),
    "no snapshot": (
        "create_tag",
        {"tag": "x", "snapshot_id": 1},
        ProcedureError,
        "Cannot set x to unknown snapshot: 1",
    ),
    "no name": ("create_branch", {"branch": ""}, InvalidRequestError, "branch is empty"),
    "no age": (
        "create_tag",
        {"tag": "x", "max_ref_age_ms": 0},
        InvalidRequestError,
        "max_ref_age_ms must be at least 1, not 0",
    ),
}


@pytest.mark.parametrize(("procedure", "arguments", "error", "said"), REFUSALS.values(), ids=REFUSALS)
def test_refusals(site: Site, procedure: str, arguments: dict[str, Any], error: type[Exception], said: str) -> None:
    """Each is said in words, and changes nothing."""
    site.append(1)
    site.call("create_branch", branch="b")
    site.call("create_tag", tag="v1")
    version = site.table.metadata_location
    with pytest.raises(error) as raised:
        site.call(procedure, **arguments)
    assert str(raised.value) == said
    assert site.table.metadata_location == version


def test_a_branch_of_an_empty_table_begins_empty(site: Site) -> None:
    """It gets a snapshot without files; ``main`` has none until it is written, or moved to the branch."""
    [made] = site.call("create_branch", branch="b", **KEPT)
    ref = site.table.metadata.refs["b"]
    assert refs(site) == {"b": ("branch", made["snapshot_id"])}
    assert (ref.min_snapshots_to_keep, ref.max_snapshot_age_ms, ref.max_ref_age_ms) == (7, 11, 13)
    assert site.call("create_branch", branch="b", if_not_exists=True)[0]["snapshot_id"] == made["snapshot_id"]
    site.session.sql(f'INSERT INTO {site.catalog}.db."t@b" VALUES (1, NULL)')
    assert site.ids() == []
    site.call("fast_forward", branch="main", to="b")
    assert site.ids() == [1]


def test_a_second_branch_of_a_table_without_main_begins_empty_too(site: Site) -> None:
    """The first one's rows are not in it."""
    site.call("create_branch", branch="b")
    first = site.append(1, branch="b")
    [second] = site.call("create_branch", branch="c", or_replace=True)
    assert [each.parent_snapshot_id for each in site.table.metadata.snapshots if each.snapshot_id != first].count(
        None
    ) == 2
    assert (site.ids(snapshot_id=first), site.ids(snapshot_id=second["snapshot_id"])) == ([1], [])
    site.append(2)
    assert site.ids() == [2]


@pytest.mark.parametrize(
    ("procedure", "arguments"),
    [
        ("create_tag", {"tag": "b"}),
        ("replace_branch", {"branch": "c"}),
        ("create_branch", {"branch": "c", "or_replace": True}),
    ],
)
def test_other_refs_need_a_snapshot(site: Site, procedure: str, arguments: dict[str, Any]) -> None:
    """The error says what to do first."""
    site.call("create_branch", branch="c")
    with pytest.raises(ProcedureError, match="Cannot set .: the table has no snapshot yet; write to the table first"):
        site.call(procedure, **arguments)
