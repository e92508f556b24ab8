"""snapshot_table and register_table over the same service: a second table, and an entry for one that stands."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from services.hive_tables import HiveMaker

from metastore.errors import InvalidRequestError, ProcedureError
from metastore.session import Session

pytestmark = pytest.mark.integration


def ids(table: Table) -> set[int]:
    """The rows."""
    return {row["id"] for row in table.scan().to_arrow().to_pylist()}


def test_the_source_stays(session: Session, hive: HiveMaker) -> None:
    """The new table has its rows and writes beside it; the source's description and folder are as they were."""
    source = hive.table({"id": "bigint"}, {"p": "string"})
    file = hive.write(hive.partition(source, "x/y"), {"id": [1, 2]})
    before = hive.client.table(hive.database, source)
    given = {"source_schema": hive.database, "source_table": source, "schema_name": hive.database}
    [done] = session.call("lake.system.snapshot_table", **given, table_name="trial").to_pylist()
    assert (done["imported_files_count"], done["imported_records_count"]) == (1, 2)
    trial = session.catalogs.table("lake", hive.database, "trial").load()
    assert trial.properties["gc.enabled"] == "false"
    trial.append(pa.table({"id": [3], "p": ["z"]}))
    trial.delete("id = 1")
    assert ids(session.catalogs.table("lake", hive.database, "trial").load()) == {2, 3}
    assert file.exists()
    assert hive.client.table(hive.database, source) == before
    assert [path.name for path in (hive.folder / source).rglob("*")] == ["p=x%2Fy", "000000_0"]
    with pytest.raises(InvalidRequestError, match="exists already"):
        session.call("lake.system.snapshot_table", **given, table_name="trial")
    for place in (f"file:{hive.folder}/{source}/inside", f"file:{hive.folder}", f"{hive.folder}/{source}"):
        with pytest.raises(InvalidRequestError, match="overlaps"):
            session.call("lake.system.snapshot_table", **given, table_name="other", location=place)


def test_a_source_that_iceberg_cannot_have(session: Session, hive: HiveMaker) -> None:
    """It is refused as migrate refuses it."""
    source = hive.table({"id": "bigint"}, format_="TEXT")
    with pytest.raises(ProcedureError, match="files are in TEXT"):
        session.call(
            "lake.system.snapshot_table",
            source_schema=hive.database,
            source_table=source,
            schema_name=hive.database,
            table_name="trial",
        )


def test_register_on_a_hive_metastore(session: Session, hive: HiveMaker) -> None:
    """A table that was taken out comes back by its metadata, with its rows."""
    name = hive.table({"id": "bigint"})
    hive.write(name, {"id": [1]})
    session.call("lake.system.migrate", schema_name=hive.database, table_name=name)
    place = session.catalogs.table("lake", hive.database, name).load().metadata_location
    session.call("lake.system.unregister_table", schema=hive.database, table_name=name)
    session.call(
        "lake.system.register_table", schema=hive.database, table_name="back", metadata_location=place, force=True
    )
    assert ids(session.catalogs.table("lake", hive.database, "back").load()) == {1}
