"""snapshot_table and register_table over the same service: a second table, and an entry for one that stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from services.hive_tables import HiveMaker

from metastore.errors import ConflictError, InvalidRequestError, ProcedureError
from metastore.procedures.hive import snapshot
from metastore.procedures.hive.migration.staging import stage
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
    given: dict[str, Any] = {"source_schema": hive.database, "source_table": source, "schema_name": hive.database}
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


def test_two_at_once(session: Session, hive: HiveMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that comes second says so, and takes nothing away but what it wrote: the first one's table is whole."""
    source = hive.table({"id": "bigint"})
    hive.write(source, {"id": [1, 2]})
    given: dict[str, Any] = {"source_schema": hive.database, "source_table": source, "schema_name": hive.database}
    written: list[Path] = []

    def win_between(found: Any, *arguments: Any, **named: Any) -> Any:
        staged = stage(found, *arguments, **named)
        with monkeypatch.context() as patch:
            patch.setattr(snapshot, "stage", stage)
            session.call("lake.system.snapshot_table", **given, table_name="trial")
        written.extend(set((hive.folder / "trial" / "metadata").glob("*")) - {Path(each[5:]) for each in staged.files})
        return staged

    monkeypatch.setattr(snapshot, "stage", win_between)
    with pytest.raises(ConflictError, match="created by another program meanwhile"):
        session.call("lake.system.snapshot_table", **given, table_name="trial")
    assert ids(session.catalogs.table("lake", hive.database, "trial").load()) == {1, 2}
    assert sorted((hive.folder / "trial" / "metadata").glob("*")) == sorted(written)


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
