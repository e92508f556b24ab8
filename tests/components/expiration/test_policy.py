"""Which versions are outdated and when it is time to look, as tables of cases."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata, TableMetadataV2
from pyiceberg.table.refs import SnapshotRef, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.types import NestedField, StringType

from metastore.components.expiration.policy import LAST_RUN, ExpirationPolicy, is_due, versions_to_expire

SECOND = 1_000
NOW = 100 * SECOND


def version(number: int, at: int, parent: int | None = None) -> Snapshot:
    """A version with an id, the second it was committed in, and what it followed."""
    return Snapshot(
        snapshot_id=number,
        parent_snapshot_id=parent,
        sequence_number=number,
        timestamp_ms=at * SECOND,
        manifest_list=f"l{number}",
        summary=Summary(operation=Operation.APPEND),
        schema_id=0,
    )


def table(snapshots: list[Snapshot], properties: dict[str, str] | None = None, **refs: SnapshotRef) -> TableMetadata:
    """Metadata whose main branch is at the last of ``snapshots``, unless ``refs`` says otherwise."""
    if snapshots and "main" not in refs:
        refs["main"] = SnapshotRef(snapshot_id=snapshots[-1].snapshot_id, snapshot_ref_type=SnapshotRefType.BRANCH)
    return TableMetadataV2(
        location="/t",
        last_column_id=1,
        schemas=[Schema(NestedField(1, "a", StringType(), required=False))],
        partition_specs=[{"spec-id": 0, "fields": []}],
        properties=properties or {},
        current_snapshot_id=refs["main"].snapshot_id if refs else None,
        snapshots=snapshots,
        refs=refs,
        last_updated_ms=NOW,
    )


LINE = [version(1, 10), version(2, 50, 1), version(3, 80, 2), version(4, 99, 3)]


@pytest.mark.parametrize(
    ("retain_last", "min_age", "expected"),
    [
        (None, None, [1, 2, 3]),
        (1, None, [1, 2, 3]),
        (2, None, [1, 2]),
        (4, None, []),
        (99, None, []),
        (None, 1, [1, 2, 3]),
        (None, 20, [1, 2]),
        (None, 21, [1, 2]),
        (None, 19, [1, 2, 3]),
        (None, 90, []),
        (None, 89, [1]),
        (2, 19, [1, 2]),
        (3, 50, [1]),
        (3, 49, [1]),
        (2, 90, []),
    ],
)
def test_a_version_goes_when_nothing_keeps_it(
    retain_last: int | None, min_age: int | None, expected: list[int]
) -> None:
    """Beyond the last ones and older than the minimum age, which a version of exactly that age is not."""
    policy = ExpirationPolicy(None, retain_last, None if min_age is None else timedelta(seconds=min_age))
    assert versions_to_expire(policy, table(LINE), NOW) == expected


def test_nothing_is_outdated_in_an_empty_table() -> None:
    """There is no version at all."""
    assert versions_to_expire(ExpirationPolicy(None), table([]), NOW) == []


def test_heads_of_branches_and_tags_are_kept() -> None:
    """Whoever named a version wants to find it again."""
    branch, tag = (
        SnapshotRef(snapshot_id=1, snapshot_ref_type=SnapshotRefType.BRANCH),
        SnapshotRef(snapshot_id=2, snapshot_ref_type=SnapshotRefType.TAG),
    )
    assert versions_to_expire(ExpirationPolicy(None), table(LINE, audit=branch, release=tag), NOW) == [3]


def test_retain_last_counts_along_each_branch() -> None:
    """Ancestors of a branch's head, not neighbours in time; a tag keeps its own version alone."""
    fork = [*LINE, version(5, 60, 2), version(6, 70, 5)]
    main = SnapshotRef(snapshot_id=4, snapshot_ref_type=SnapshotRefType.BRANCH)
    branch = SnapshotRef(snapshot_id=6, snapshot_ref_type=SnapshotRefType.BRANCH)
    tag = SnapshotRef(snapshot_id=6, snapshot_ref_type=SnapshotRefType.TAG)
    policy = ExpirationPolicy(None, retain_last=2)
    assert versions_to_expire(policy, table(fork, main=main, other=branch), NOW) == [1, 2]
    assert versions_to_expire(policy, table(fork, main=main, other=tag), NOW) == [1, 2, 5]


def test_a_branch_may_keep_more_for_itself() -> None:
    """Iceberg's own setting on the branch is obeyed beside ours; the larger one holds."""
    main = SnapshotRef(snapshot_id=4, snapshot_ref_type=SnapshotRefType.BRANCH, min_snapshots_to_keep=3)
    assert versions_to_expire(ExpirationPolicy(None), table(LINE, main=main), NOW) == [1]
    assert versions_to_expire(ExpirationPolicy(None, retain_last=4), table(LINE, main=main), NOW) == []


def test_versions_off_every_branch_go() -> None:
    """A rollback left them; nothing leads to them."""
    rolled_back = SnapshotRef(snapshot_id=2, snapshot_ref_type=SnapshotRefType.BRANCH)
    assert versions_to_expire(ExpirationPolicy(None, retain_last=9), table(LINE, main=rolled_back), NOW) == [3, 4]


@pytest.mark.parametrize(
    ("period", "last_run", "due"),
    [
        (None, None, False),
        (0, None, False),
        (-1, None, False),
        (90, None, True),
        (91, None, False),
        (10, 90, True),
        (11, 90, False),
        (10, 100, False),
    ],
)
def test_it_is_due_when_the_period_has_passed(period: int | None, last_run: int | None, due: bool) -> None:
    """Since the last run, by whichever process, else since the first version; no, zero or negative period: never."""
    policy = ExpirationPolicy(None if period is None else timedelta(seconds=period))
    properties = {} if last_run is None else {LAST_RUN: str(last_run * SECOND)}
    assert is_due(policy, table(LINE, properties), NOW) is due


@pytest.mark.parametrize(("ahead", "due"), [(0, False), (3600, False), (3601, True), (10**9, True)])
def test_a_time_that_a_wrong_clock_wrote_down_puts_nothing_off(ahead: int, due: bool) -> None:
    """Hosts' clocks may differ by an hour; what lies further ahead would stop every expiration until then."""
    policy = ExpirationPolicy(timedelta(days=1))
    last_run = {LAST_RUN: str(NOW + ahead * SECOND)}
    assert is_due(policy, table(LINE, last_run), NOW) is due


def test_an_empty_table_is_never_due() -> None:
    """Nothing to expire."""
    assert not is_due(ExpirationPolicy(timedelta(milliseconds=1)), table([]), NOW)
