"""sync_partition_metadata and create_empty_partition: folders and the metastore follow each other, files stay."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import Any

import pytest
from services.hive_tables import HiveMaker

from metastore.errors import InvalidRequestError, ProcedureError

pytestmark = pytest.mark.integration

Call = Callable[..., dict[str, Any]]


def values(hive: HiveMaker, name: str) -> list[list[str]]:
    """Values of the partitions that the service knows."""
    return [each.values for each in hive.client.partitions(hive.database, name)]


@pytest.fixture
def messy(hive: HiveMaker) -> str:
    """One partition without a folder, one with; folders that are unknown, and folders of no partition."""
    name: str = hive.table({"id": "bigint"}, {"p": "string", "q": "int"})
    shutil.rmtree(hive.partition(name, "gone", "1"))
    hive.partition(name, "here", "1")
    for folder in ("p=x%2Fy/q=2", "p=__HIVE_DEFAULT_PARTITION__/q=3", "P=upper/Q=4", "other/q=5", "p=half", "_tmp/q=1"):
        (hive.folder / name / folder).mkdir(parents=True)
    return name


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("ADD", [["__HIVE_DEFAULT_PARTITION__", "3"], ["gone", "1"], ["here", "1"], ["x/y", "2"]]),
        ("drop", [["here", "1"]]),
        ("FULL", [["__HIVE_DEFAULT_PARTITION__", "3"], ["here", "1"], ["x/y", "2"]]),
    ],
)
def test_modes(hive: HiveMaker, call: Call, messy: str, mode: str, expected: list[list[str]]) -> None:
    """Each way, and both; a dry run tells the same and does nothing; a second run finds nothing to do."""
    before = values(hive, messy)
    told = call("sync_partition_metadata", messy, mode=mode, dry_run=True)
    assert values(hive, messy) == before
    assert call("sync_partition_metadata", messy, mode=mode) == told
    assert values(hive, messy) == expected
    assert call("sync_partition_metadata", messy, mode=mode) == {"added": [], "dropped": []}
    assert (hive.folder / messy / "p=half").exists()


def test_names_in_another_case(hive: HiveMaker, call: Call, messy: str) -> None:
    """They count when the caller says so, with the folder as it is called."""
    done = call("sync_partition_metadata", messy, mode="ADD", case_sensitive=False)
    assert "p=upper/q=4" in done["added"]
    places = {tuple(each.values): each.sd.location for each in hive.client.partitions(hive.database, messy)}
    assert places["upper", "4"].endswith("/P=upper/Q=4")


def test_an_empty_partition(hive: HiveMaker, call: Call) -> None:
    """It has the folder that its values name, and is there once only."""
    name = hive.table({"id": "bigint"}, {"p": "string", "q": "int"})
    given: dict[str, Any] = {"partition_columns": ["P", "q"], "partition_values": ["x/y", "7"]}
    done = call("create_empty_partition", name, **given)
    assert done["location"] == f"file:{hive.folder}/{name}/p=x%2Fy/q=7"
    assert (hive.folder / name / "p=x%2Fy" / "q=7").is_dir()
    assert values(hive, name) == [["x/y", "7"]]
    with pytest.raises(ProcedureError, match="Partition already exists: p=x%2Fy/q=7"):
        call("create_empty_partition", name, **given)


def test_what_does_not_fit(hive: HiveMaker, call: Call) -> None:
    """Unknown modes and columns, values of another type, tables without partitions and of Iceberg."""
    name = hive.table({"id": "bigint"}, {"p": "int"})
    plain = hive.table({"id": "bigint"})
    with pytest.raises(InvalidRequestError, match="Invalid partition metadata sync mode: MEND"):
        call("sync_partition_metadata", name, mode="MEND")
    with pytest.raises(ProcedureError, match="Table is not partitioned"):
        call("sync_partition_metadata", plain, mode="FULL")
    with pytest.raises(InvalidRequestError, match="doesn't match actual"):
        call("create_empty_partition", name, partition_columns=["q"], partition_values=["1"])
    with pytest.raises(InvalidRequestError, match="'x' is no int"):
        call("create_empty_partition", name, partition_columns=["p"], partition_values=["x"])
    call("migrate", name)
    with pytest.raises(ProcedureError, match="keeps its partitions itself"):
        call("sync_partition_metadata", name, mode="FULL")
