"""migrate, on the real service: rows stay, what cannot be is refused, what others do meanwhile is noticed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from hive_metastore.ttypes import ShowLocksRequest, UnlockRequest
from pyiceberg.catalog import Catalog
from pyiceberg.table import Table
from services.hive_tables import HiveMaker
from thrift.transport.TTransport import TTransportException

from metastore.errors import ConflictError, InvalidRequestError, NotFoundError, OutcomeUnknownError, ProcedureError
from metastore.session import Session
from metastore.sources.hive.client import HiveClient

pytestmark = pytest.mark.integration

Call = Callable[..., dict[str, Any]]


@pytest.fixture
def load(session: Session, hive: HiveMaker) -> Callable[[str], Table]:
    """The Iceberg table of a name."""
    return lambda name: session.catalogs.table("lake", hive.database, name).load()


def rows(table: Table, **scan: Any) -> list[dict[str, Any]]:
    """All rows, in an order."""
    return sorted(table.scan(**scan).to_arrow().to_pylist(), key=repr)


def test_an_unpartitioned_table(hive: HiveMaker, call: Call, load: Callable[[str], Table]) -> None:
    """Rows are the files' rows; the file is where it was, and the report counts it."""
    name = hive.table({"id": "bigint", "name": "string"})
    file = hive.write(name, {"id": [1, 2], "name": ["a", None]})
    done = call("migrate", name)
    assert (done["status"], done["files"], done["records"], done["formats"]) == ("migrated", 1, 2, [("PARQUET", 1)])
    assert done["bytes"] == file.stat().st_size
    table = load(name)
    assert rows(table) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
    assert [task.file.file_path for task in table.scan().plan_files()] == [f"file:{file}"]
    assert table.metadata.current_snapshot().summary.additional_properties["added-records"] == "2"  # type: ignore[union-attr]
    described = hive.client.table(hive.database, name)
    assert (described.tableType, described.parameters["table_type"]) == ("EXTERNAL_TABLE", "ICEBERG")


VALUES = ["__HIVE_DEFAULT_PARTITION__", "a b", "x/y", "100%", "%2F", "é漢", "k=v", "a:b", "\"q\\'"]


def test_partition_values_come_from_the_metastore(hive: HiveMaker, call: Call, load: Callable[[str], Table]) -> None:
    """Null, spaces, slashes, percent signs and unicode; dates; and a folder whose name says nothing."""
    name = hive.table({"id": "int"}, {"p": "string", "d": "date"})
    for number, value in enumerate(VALUES):
        hive.write(hive.partition(name, value, f"2024-01-0{number + 1}"), {"id": pa.array([number], pa.int32())})
    hive.write(hive.partition(name, "odd", "1969-12-31", folder="p=other"), {"id": pa.array([99], pa.int32())})
    assert call("migrate", name)["partitions"] == len(VALUES) + 1
    found = {row["id"]: (row["p"], row["d"]) for row in rows(load(name))}
    expected = {at: (None if at == 0 else value, date(2024, 1, at + 1)) for at, value in enumerate(VALUES)}
    assert found == {**expected, 99: ("odd", date(1969, 12, 31))}
    assert rows(load(name), row_filter="p = 'x/y'") == [{"id": 2, "p": "x/y", "d": date(2024, 1, 3)}]
    assert rows(load(name), row_filter="p is null") == [{"id": 0, "p": None, "d": date(2024, 1, 1)}]


@pytest.mark.parametrize("format_", ["PARQUET", "ORC"])
def test_a_column_of_files_is_no_partitions(
    hive: HiveMaker, call: Call, load: Callable[[str], Table], format_: str
) -> None:
    """What files have under the name of a partition column is passed over, as Hive passes it over; later, too."""
    name = hive.table({"id": "bigint"}, {"p": "string"}, format_=format_)
    hive.write(hive.partition(name, "a"), {"id": [1, 2], "p": ["x", "a"]}, format_=format_)
    hive.write(hive.partition(name, "b"), {"id": [3]}, format_=format_)
    call("migrate", name)
    assert [(row["id"], row["p"]) for row in rows(load(name))] == [(1, "a"), (2, "a"), (3, "b")]
    assert [row["id"] for row in rows(load(name), row_filter="p = 'a'")] == [1, 2]
    load(name).append(pa.table({"id": [4], "p": ["x"]}))
    with load(name).update_schema() as update:
        update.rename_column("p", "q")
    assert [(row["id"], row["q"]) for row in rows(load(name))] == [(1, "a"), (2, "a"), (3, "b"), (4, "x")]


def test_pyiceberg_goes_on_with_the_table(hive: HiveMaker, call: Call, load: Callable[[str], Table]) -> None:
    """It appends, deletes, adds and renames columns, over files that have other cases and columns too many."""
    name = hive.table({"id": "bigint", "username": "string"}, {"p": "int"})
    hive.write(hive.partition(name, "1"), {"id": [1, 2], "userName": ["a", "b"], "extra": [{"x": 1}, {"x": 2}]})
    hive.write(hive.partition(name, "2"), {"ID": [3], "USERNAME": ["c"]})
    call("migrate", name)
    table = load(name)
    assert [row["username"] for row in rows(table)] == ["a", "b", "c"]
    table.append(pa.table({"id": [4], "username": ["d"], "p": pa.array([3], pa.int32())}))
    table.delete("id = 1")
    with table.update_schema() as update:
        update.rename_column("username", "user")
        update.add_column("age", table.schema().find_type("p"))
    assert [(row["id"], row["user"], row["p"], row["age"]) for row in rows(load(name))] == [
        (2, "b", 1, None),
        (3, "c", 2, None),
        (4, "d", 3, None),
    ]


def test_formats_may_differ_from_partition_to_partition(
    hive: HiveMaker, call: Call, load: Callable[[str], Table]
) -> None:
    """Each partition says what its files are; the table's own format does not matter where there are partitions."""
    name = hive.table({"id": "bigint"}, {"p": "string"}, format_="TEXT")
    hive.write(hive.partition(name, "a", format_="PARQUET"), {"id": [1]})
    hive.write(hive.partition(name, "b", format_="ORC"), {"id": [2]}, format_="ORC")
    assert sorted(call("migrate", name)["formats"]) == [("ORC", 1), ("PARQUET", 1)]
    assert rows(load(name)) == [{"id": 1, "p": "a"}, {"id": 2, "p": "b"}]


def test_empty_things(hive: HiveMaker, call: Call, load: Callable[[str], Table]) -> None:
    """Files of no bytes or no rows, partitions without files, a folder that is not there, hidden files: no rows."""
    name = hive.table({"id": "bigint"}, {"p": "string"})
    place = hive.partition(name, "a")
    (place / "empty").touch()
    (place / "_SUCCESS").write_text("x")
    (place / ".part.crc").write_text("x")
    hive.write(place, {"id": pa.array([], pa.int64())}, "no_rows")
    hive.write(place, {"id": [1]})
    hive.partition(name, "b")
    hive.partition(name, "c").rmdir()
    done = call("migrate", name)
    assert (done["files"], done["records"]) == (2, 1)
    assert any("1 locations are not there" in warning for warning in done["warnings"])
    assert rows(load(name)) == [{"id": 1, "p": "a"}]


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_table_without_any_file(hive: HiveMaker, call: Call, load: Callable[[str], Table], is_gone: bool) -> None:
    """It has no snapshot, and can be written to; a folder that is not there is told of."""
    name = hive.table({"id": "bigint"})
    if is_gone:
        (hive.folder / name).rmdir()
    done = call("migrate", name)
    assert done["files"] == 0
    assert any("locations are not there" in warning for warning in done["warnings"]) == is_gone
    load(name).append(pa.table({"id": [1]}))
    assert rows(load(name)) == [{"id": 1}]


@pytest.mark.parametrize(("mode", "expected"), [("true", [1, 2]), ("false", [1])])
def test_nested_directories(
    hive: HiveMaker, call: Call, load: Callable[[str], Table], mode: str, expected: list[int]
) -> None:
    """What they are is said by the caller; a hidden one is never data."""
    name = hive.table({"id": "bigint"})
    hive.write(name, {"id": [1]})
    for folder, number in (("HIVE_UNION_SUBDIR_1", 2), ("_temporary", 3), (".staging", 4)):
        (hive.folder / name / folder).mkdir()
        hive.write(hive.folder / name / folder, {"id": [number]})
    with pytest.raises(ProcedureError, match="nested directories .*HIVE_UNION_SUBDIR_1"):
        call("migrate", name)
    call("migrate", name, recursive_directory=mode)
    assert [row["id"] for row in rows(load(name))] == expected


REFUSALS: dict[str, tuple[dict[str, Any], str]] = {
    "a view": ({"kind": "VIRTUAL_VIEW"}, "is a virtual view"),
    "text": ({"format_": "TEXT"}, "files are in TEXT; Iceberg knows PARQUET, ORC, AVRO"),
    "Delta": ({"parameters": {"spark.sql.sources.provider": "delta"}}, "Delta table"),
    "Hudi": ({"format_": "org.apache.hudi.hadoop.HoodieParquetInputFormat"}, "Hudi table|unknown format|files are in"),
    "another system's": ({"parameters": {"storage_handler": "HBaseHandler"}}, "by hbasehandler"),
}


@pytest.mark.parametrize(("made", "reason"), REFUSALS.values(), ids=REFUSALS.keys())
def test_what_is_no_plain_table_is_refused(hive: HiveMaker, call: Call, made: dict[str, Any], reason: str) -> None:
    """With the reason, in a dry run as an obstacle; nothing is written."""
    name = hive.table({"id": "bigint"}, **made)
    before = hive.client.table(hive.database, name)
    with pytest.raises(ProcedureError, match=reason):
        call("migrate", name)
    done = call("migrate", name, dry_run=True)
    assert done["status"] == "cannot be migrated"
    assert len(done["obstacles"]) == 1
    assert hive.client.table(hive.database, name) == before
    assert list((hive.folder / name).iterdir()) == []


def test_files_that_do_not_fit_are_all_named(hive: HiveMaker, call: Call) -> None:
    """A corrupt file, one of another format, one with another type: the dry run tells all, the run is refused."""
    name = hive.table({"id": "bigint", "s": "string"})
    hive.write(name, {"id": ["text"], "s": ["a"]}, "wrong_type")
    (hive.folder / name / "corrupt").write_bytes(b"PAR1 this is not a footer PAR1")
    hive.write(name, {"id": [1]}, "an_orc", format_="ORC")
    hive.write(name, {"id": [1], "s": ["a"]}, "good")
    done = call("migrate", name, dry_run=True)
    assert done["status"] == "cannot be migrated"
    told = "; ".join(done["obstacles"])
    assert "/corrupt: " in told
    assert "/an_orc: " in told
    assert "column id: the table says bigint, and the file has string" in told
    with pytest.raises(ProcedureError, match="corrupt"):
        call("migrate", name)
    assert not (hive.folder / name / "_iceberg").exists() or list((hive.folder / name / "_iceberg").iterdir()) == []


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        (
            pa.array([datetime(2024, 5, 6)], pa.timestamp("ns")),
            r"column at: the file has timestamp\[ns\]: Iceberg in Spark takes nanoseconds",
        ),
        (pa.array([datetime(2024, 5, 6)], pa.timestamp("us", "Europe/Berlin")), "PyIceberg reads no zone but UTC"),
        (pa.array([None], pa.null()), "column at: the file has a column of no type"),
    ],
)
def test_what_icebergs_readers_misread_is_refused(hive: HiveMaker, call: Call, values: Any, reason: str) -> None:
    """As pandas writes it: Iceberg in Spark finds other times in nanoseconds, PyIceberg fails at the others."""
    name = hive.table({"at": "timestamp"})
    hive.write(name, pa.table({"at": values}))
    with pytest.raises(ProcedureError, match=reason):
        call("migrate", name)


def test_moments_of_any_year(hive: HiveMaker, call: Call, session: Session) -> None:
    """INT96 holds more than Arrow's nanoseconds do: what Hive has, verification and SELECT find, and no other."""
    name = hive.table({"at": "timestamp"})
    far = [datetime(1, 1, 2), datetime(2024, 5, 6, 7, 8, 9, 123456), None, datetime(9999, 12, 31)]
    times = pa.table({"at": pa.array(far, pa.timestamp("us"))})
    hive.write(name, times, use_deprecated_int96_timestamps=True)
    call("migrate", name)
    assert call("verify_migration", name)["ok"]
    wanted = [None if each is None else each.replace(tzinfo=timezone.utc) for each in far]
    table = f"lake.{hive.database}.{name}"
    assert session.sql(f'SELECT "at" FROM {table}')["at"].to_pylist() == wanted
    late = session.sql(f'SELECT "at" FROM {table} WHERE "at" > TIMESTAMPTZ \'2500-01-01 00:00:00+00\'')
    assert late["at"].to_pylist() == wanted[3:]


def test_files_with_column_ids_of_iceberg_are_refused(hive: HiveMaker, call: Call) -> None:
    """A reader would believe the ids, which are of another table."""
    name = hive.table({"id": "bigint"})
    schema = pa.schema([pa.field("id", pa.int64(), metadata={b"PARQUET:field_id": b"7"})])
    hive.write(name, pa.table({"id": [1]}, schema=schema))
    with pytest.raises(ProcedureError, match="column ids of an Iceberg table"):
        call("migrate", name)


def test_partitions_that_the_metastore_does_not_know(hive: HiveMaker, call: Call) -> None:
    """Files without any partition would be lost; a value that is none would be too."""
    name = hive.table({"id": "bigint"}, {"p": "int"})
    (hive.folder / name / "p=1").mkdir()
    hive.write(hive.folder / name / "p=1", {"id": [1]})
    with pytest.raises(ProcedureError, match="lists no partition of it, and there are 1 files"):
        call("migrate", name)
    hive.partition(name, "one", folder="p=one")
    with pytest.raises(ProcedureError, match="p: 'one' is no int"):
        call("migrate", name)


@pytest.mark.parametrize("char", "#?")
def test_locations_that_pyiceberg_would_cut(hive: HiveMaker, call: Call, char: str) -> None:
    """A partition would silently lose its files."""
    name = hive.table({"id": "bigint"}, {"p": "string"})
    hive.write(hive.partition(name, "x", folder=f"a{char}b"), {"id": [1]})
    with pytest.raises(ProcedureError, match="where PyIceberg ends a path"):
        call("migrate", name)


def test_no_such_table(call: Call) -> None:
    """It is named."""
    with pytest.raises(NotFoundError, match="nowhere"):
        call("migrate", "nowhere")


def test_calling_again_changes_nothing(hive: HiveMaker, call: Call, load: Callable[[str], Table]) -> None:
    """The second call finds the table migrated; another's Iceberg table is refused."""
    name = hive.table({"id": "bigint"})
    hive.write(name, {"id": [1]})
    first = call("migrate", name)
    again = call("migrate", name)
    assert again["status"] == "already migrated"
    assert again["metadata_location"] == first["metadata_location"]
    catalog: Catalog = load(name).catalog
    catalog.create_table((hive.database, "other"), load(name).schema(), location=f"file:{hive.folder}/other")
    with pytest.raises(ProcedureError, match="not by a migration of this package"):
        call("migrate", "other")


class Meddler:
    """Somebody who does something just before the lock is taken."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
        locked = HiveClient.lock_table

        def meddled(client: Any, *place: str) -> Any:
            act()
            return locked(client, *place)

        monkeypatch.setattr(HiveClient, "lock_table", meddled)


def test_concurrent_changes_are_noticed(hive: HiveMaker, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """An insert into an old or a new partition, and an alteration: the table stays Hive's, and nothing is left."""
    name = hive.table({"id": "bigint"}, {"p": "string"})
    place = hive.partition(name, "a")
    hive.write(place, {"id": [1]})

    def alter() -> None:
        new = hive.client.table(hive.database, name)
        new.parameters["comment"] = "mine"
        hive.client.alter_table(new)

    for act in (
        lambda: hive.write(place, {"id": [2]}, "000001_0"),
        lambda: hive.partition(name, "b"),
        alter,
    ):
        with monkeypatch.context() as patch:
            Meddler(patch, act)
            with pytest.raises(ConflictError, match="nothing was changed"):
                call("migrate", name)
        assert "metadata_location" not in hive.client.table(hive.database, name).parameters
        assert list((hive.folder / name / "_iceberg").iterdir()) == []
    assert call("migrate", name)["records"] == 2


def test_an_alteration_in_the_last_moment(hive: HiveMaker, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service itself compares: what comes between the last look and the switch makes the switch fail."""
    from metastore.procedures.hive.migration import switch  # noqa: PLC0415 - the module that is meddled with

    name = hive.table({"id": "bigint"})
    hive.write(name, {"id": [1]})
    alter_if = switch.alter_if

    def meddled(*arguments: Any) -> None:
        other = hive.client.table(hive.database, name)
        other.parameters["transient_lastDdlTime"] = "4000000000"
        hive.client.alter_table(other)
        alter_if(*arguments)

    monkeypatch.setattr(switch, "alter_if", meddled)
    with pytest.raises(ConflictError, match="another program was first"):
        call("migrate", name)
    assert "metadata_location" not in hive.client.table(hive.database, name).parameters


def test_a_lock_of_somebody_else(hive: HiveMaker, call: Call, hive_metastore: str) -> None:
    """It is respected, and no lock is left by either."""
    name = hive.table({"id": "bigint"})
    with HiveClient(hive_metastore) as other:
        with other.lock_table(hive.database, name), pytest.raises(ConflictError, match="holds a lock"):
            call("migrate", name)
        assert call("migrate", name)["status"] == "migrated"


def test_other_engines_are_kept_off(hive: HiveMaker, call: Call) -> None:
    """By formats that nothing can read, on the table and on its partitions; on request everything stays."""
    for block in (True, False):
        name = hive.table({"id": "bigint"}, {"p": "string"})
        hive.write(hive.partition(name, "a"), {"id": [1]})
        call("migrate", name, block_other_engines=block)
        formats = {
            hive.client.table(hive.database, name).sd.inputFormat,
            *(each.sd.inputFormat for each in hive.client.partitions(hive.database, name)),
        }
        [format_] = formats
        assert format_.endswith(".FileInputFormat" if block else ".MapredParquetInputFormat")


@pytest.mark.parametrize("asking_works", [True, False])
def test_a_lost_answer(
    hive: HiveMaker, call: Call, load: Callable[[str], Table], monkeypatch: pytest.MonkeyPatch, asking_works: bool
) -> None:
    """The switch was carried out, and its answer never came: found out by asking, or said; nothing is removed."""
    name = hive.table({"id": "bigint"})
    hive.write(name, {"id": [1]})
    answer = HiveClient._result
    lost: list[str] = []

    def losing(client: HiveClient, what: str, asked: str, arguments: Any) -> Any:
        if lost and not asking_works:
            raise TTransportException(message="gone")
        found = answer(client, what, asked, arguments)
        if asked == "alter_table_with_environment_context":
            lost.append(asked)
            raise TTransportException(message="gone")
        return found

    with monkeypatch.context() as patch:
        patch.setattr(HiveClient, "_result", losing)
        if asking_works:
            assert call("migrate", name)["status"] == "migrated"
        else:
            with pytest.raises(OutcomeUnknownError, match="no file was removed"):
                call("migrate", name)
    for lock in hive.client._change("show locks", "show_locks", ShowLocksRequest()).locks:
        hive.client._change("unlock", "unlock", UnlockRequest(lockid=lock.lockid))
    assert rows(load(name)) == [{"id": 1}]
    assert call("migrate", name)["status"] == "already migrated"


def test_an_interruption_right_after_the_switch(
    hive: HiveMaker, call: Call, load: Callable[[str], Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C must not remove metadata that is in use by now."""
    from metastore.procedures.hive.migration import switch  # noqa: PLC0415 - the module that is interrupted

    name = hive.table({"id": "bigint"})
    hive.write(name, {"id": [1]})
    alter_if = switch.alter_if

    def interrupted(*arguments: Any) -> None:
        alter_if(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(switch, "alter_if", interrupted)
        with pytest.raises(KeyboardInterrupt):
            call("migrate", name)
    assert rows(load(name)) == [{"id": 1}]
    assert call("migrate", name)["status"] == "already migrated"


def test_the_hive_table_is_kept_under_another_name(hive: HiveMaker, call: Call, load: Callable[[str], Table]) -> None:
    """As Spark keeps it: with its partitions, over the same files; dropping it deletes none."""
    name = hive.table({"id": "int"}, {"p": "string"})
    hive.write(hive.partition(name, "a"), {"id": pa.array([1], pa.int32())})
    call("migrate", name, backup_table_name=f"{name}_kept")
    kept = hive.client.table(hive.database, f"{name}_kept")
    assert (kept.tableType, kept.parameters["external.table.purge"]) == ("EXTERNAL_TABLE", "false")
    [partition] = hive.client.partitions(hive.database, f"{name}_kept")
    assert partition.sd.inputFormat.endswith("MapredParquetInputFormat")
    hive.client.drop_table(hive.database, f"{name}_kept")
    assert rows(load(name)) == [{"id": 1, "p": "a"}]


def test_a_kept_table_is_dropped_or_never_made(hive: HiveMaker, call: Call) -> None:
    """``drop_backup`` leaves no such table; a name that is taken changes nothing."""
    name, other = hive.table({"id": "int"}), hive.table({"id": "int"})
    hive.write(name, {"id": pa.array([1], pa.int32())})
    with pytest.raises(ConflictError, match="choose another backup_table_name"):
        call("migrate", name, backup_table_name=other)
    assert "table_type" not in hive.client.table(hive.database, name).parameters
    call("migrate", name, backup_table_name=f"{name}_kept", drop_backup=True)
    assert f"{name}_kept" not in hive.client.tables(hive.database)


def test_missing_folders_are_passed_over_or_an_obstacle(hive: HiveMaker, call: Call) -> None:
    """A warning by default; with ``ignore_missing_files => false`` the table stays Hive's."""
    name = hive.table({"id": "int"}, {"p": "string"})
    hive.write(hive.partition(name, "a"), {"id": pa.array([1], pa.int32())})
    hive.partition(name, "b").rmdir()
    with pytest.raises(ProcedureError, match="1 locations do not exist"):
        call("migrate", name, ignore_missing_files=False)
    done = call("migrate", name, parallelism=1)
    assert (done["status"], done["records"]) == ("migrated", 1)
    assert any("are not there" in warning for warning in done["warnings"])


def test_parallelism_is_a_number_from_one(call: Call) -> None:
    """Zero tasks would never end."""
    with pytest.raises(InvalidRequestError, match="parallelism must be at least 1, not 0"):
        call("migrate", "any", parallelism=0)
