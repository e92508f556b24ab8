"""Tables that others made and that cannot be changed here: each door says why, at once, and leaves no file."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from support.lake_table import TABLE, Lake

from metastore.errors import InvalidRequestError

CALL = "CALL lake.system.{}('db', 't'{})"
DOORS = (
    f"INSERT INTO {TABLE} VALUES (70, 'a', 0)",
    f"INSERT INTO {TABLE} SELECT * FROM {TABLE}",
    f"INSERT OVERWRITE {TABLE} VALUES (70, 'a', 0)",
    f"UPDATE {TABLE} SET n = 1 WHERE id = 3",
    f"DELETE FROM {TABLE} WHERE id = 3",
    f"DELETE FROM {TABLE} WHERE true",
    f"MERGE INTO {TABLE} t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = 1",
    "CALL lake.system.rewrite_data_files(schema => 'db', table_name => 't', options => MAP('rewrite-all', 'true'))",
    CALL.format("rewrite_manifests", ""),
    CALL.format("compute_table_stats", ""),
    CALL.format("compute_partition_stats", ""),
    CALL.format("create_tag", ", 'kept'"),
    CALL.format("set_table_property", ", 'a', 'b'"),
    CALL.format("upgrade_format_version", ", 3"),
    f"ALTER TABLE {TABLE} ADD COLUMN late BIGINT",
)
OF_OLD_ROWS = (*DOORS[2:8], DOORS[10])
"""Doors that write partition values of the table's files again, and so need the specs of these."""


def edited(lake: Lake, **changes: object) -> None:
    """Make the table's metadata as another program would: with ``changes`` at the top, or in its first spec."""
    place = Path(lake.load().metadata_location.removeprefix("file://"))
    document = json.loads(place.read_text())
    if transform := changes.pop("transform", None):
        document["partition-specs"][0]["fields"][0]["transform"] = transform
    document.update(changes)
    new = place.with_name("00099-of-another.metadata.json")
    new.write_text(json.dumps(document))
    lake.sql(f"DROP TABLE {TABLE}")
    lake.sql(f"CALL lake.system.register_table('db', 't', 'file://{new}')")


def refused(lake: Lake, door: str) -> str:
    """The error of the door, which changes neither rows nor files."""
    before = {path for path in lake.folder.rglob("*") if path.is_file()}, lake.load().metadata_location
    with pytest.raises(InvalidRequestError) as raised:
        lake.session.sql(door)
    assert ({path for path in lake.folder.rglob("*") if path.is_file()}, lake.load().metadata_location) == before
    return str(raised.value)


@pytest.mark.parametrize("door", DOORS)
def test_a_transform_that_is_not_known(lake: Lake, door: str) -> None:
    """Rows and metadata tables are read; each door that writes refuses before it writes, and names the field."""
    lake.create(2, "WITH (partitioning = ARRAY['bucket(2, id)'])")
    edited(lake, transform="zorder[3]")
    assert lake.session.sql(f"SELECT id FROM {TABLE} WHERE id > 2").num_rows == 7
    buckets = lake.session.sql('SELECT partition.id_bucket AS b FROM lake.db."t$partitions" ORDER BY b')
    assert buckets["b"].to_pylist() == ["0", "1"]
    said = refused(lake, door)
    assert "zorder[3]" in said or "Invalid source field id with type long for transform" in said


@pytest.mark.parametrize("door", DOORS)
def test_a_transform_of_old_rows_that_is_not_known(lake: Lake, door: str) -> None:
    """New rows are written by the table's newest spec; what would write old ones again is refused."""
    lake.create(2, "WITH (partitioning = ARRAY['bucket(2, id)'])")
    lake.sql(f"ALTER TABLE {TABLE} SET PROPERTIES partitioning = ARRAY['k']")
    edited(lake, transform="zorder[3]")
    if door in OF_OLD_ROWS:
        assert re.search(r"spec 0 has the transform zorder\[3\]|field id_bucket is not known", refused(lake, door))
        return
    before = lake.session.sql(f"SELECT id FROM {TABLE}").num_rows
    lake.session.sql(door)
    assert lake.session.sql(f"SELECT id FROM {TABLE}").num_rows >= before


@pytest.mark.parametrize("door", [door for door in DOORS if "rewrite_manifests" not in door])
@pytest.mark.parametrize("value", ["abc", "100.0"])
def test_a_property_that_is_no_number(lake: Lake, door: str, value: str) -> None:
    """It is named at once, not after the time for retries, and no other writer is blamed; UNSET removes it."""
    name = "write.metadata.previous-versions-max"
    lake.create(2, "WITH (partitioning = ARRAY['bucket(2, id)'])")
    edited(lake, properties={name: value})
    said = refused(lake, door)
    assert name in said
    assert "other writers" not in said
    lake.sql(f"ALTER TABLE {TABLE} UNSET PROPERTIES '{name}'")
    lake.session.sql(door)
