"""Other Iceberg tools on the same table: what we write they read, what they write we read and go on from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions.parser import parse
from pyiceberg.table import StaticTable, Table
from pyiceberg.typedef import Record

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.model.mapping.null_semantics import as_sql
from metastore.model.mapping.schema import iceberg_schema, partition_spec
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import GENERAL_INFO, MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
OpenMetastore = Callable[..., Metastore]
AsRows = Callable[[pa.Table], list[str]]
LoadTable = Callable[[Path], StaticTable]
ALL = MetadataType.ALL


def rich(unit: MakeUnit, table: str, key: str = GENERAL_INFO, **values: object) -> TableMetadataUnit:
    """A unit with lists and maps, which are where formats differ."""
    return unit(
        table,
        key,
        **{
            "interesting_columns": ["`a`", "`é`"],
            "columns_statistics": {"`a`": "{}"},
            "host_affinity": {"h": 0.5},
            "partition_keys": {},
            "last_modified_time": 7,
            **values,
        },
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The component's table."""
    return tmp_path / "metastore/tables"


@pytest.fixture
def catalog(tmp_path: Path) -> FileSystemCatalog:
    """Another process's view of the metastore's catalog: a PyIceberg catalog like any other."""
    return FileSystemCatalog("other", str(tmp_path / "metastore"))


def rows(metastore: Metastore) -> pa.Table:
    """All rows as we read them."""
    return metastore.tables.read().metadata_types(ALL).to_arrow()


def keys_by_manifest(table: Table) -> list[list[Record]]:
    """Partition values of the live entries of each manifest that has any."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = [[e.data_file.partition for e in m.fetch_manifest_entry(table.io)] for m in snapshot.manifests(table.io)]
    return [keys for keys in found if keys]


class TestPyIcebergReadsUs:
    def test_after_every_kind_of_commit(
        self, metastore: Metastore, unit: MakeUnit, folder: Path, iceberg_table: LoadTable, as_rows: AsRows
    ) -> None:
        """Its rows are ours, in every column, and its own counts agree with the summary."""
        tables = metastore.tables
        steps: list[Callable[[], object]] = [
            lambda: tables.modify().overwrite([rich(unit, "a"), rich(unit, "a", "1"), unit("b")]).execute(),
            lambda: tables.modify().overwrite([rich(unit, "a", "1", owner="new")]).execute(),
            lambda: tables.modify().delete("tableName = 'a'").overwrite([rich(unit, "c")]).execute(),
            lambda: tables.modify().purge(),
            lambda: tables.modify().overwrite([rich(unit, f"t{n}") for n in range(400)]).execute(),
            lambda: tables.modify().overwrite([rich(unit, "t7", owner="again")]).execute(),
            tables.expiration.expire,
        ]
        for step in steps:
            step()
            theirs = iceberg_table(folder)
            found = theirs.scan().to_arrow()
            assert as_rows(found) == as_rows(rows(metastore))
            snapshot = theirs.current_snapshot()
            assert snapshot is not None
            assert snapshot.summary is not None
            assert snapshot.summary.additional_properties["total-records"] == str(found.num_rows)

    def test_every_version(
        self, metastore: Metastore, unit: MakeUnit, folder: Path, iceberg_table: LoadTable, as_rows: AsRows
    ) -> None:
        """Travelling in time leads both to the same rows."""
        for n in range(6):
            modify = metastore.tables.modify().overwrite([rich(unit, f"t{n % 4}", owner=str(n))])
            modify.delete(f"tableName = 't{(n + 1) % 4}'").execute()
        theirs = iceberg_table(folder)
        for version in metastore.tables.metadata.history():
            ours = metastore.tables.read().metadata_types(ALL).at(version.version).to_arrow()
            assert as_rows(theirs.scan(snapshot_id=version.version).to_arrow()) == as_rows(ours)

    def test_entries_carry_the_sequence_number_of_the_commit_that_added_them(
        self, metastore: Metastore, unit: MakeUnit, folder: Path, iceberg_table: LoadTable
    ) -> None:
        """Also after their manifest was rewritten: readers order data and deletes by it."""
        for n in range(4):
            metastore.tables.modify().overwrite([unit(f"t{n}")]).execute()
        table = iceberg_table(folder)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        entries = [e for m in snapshot.manifests(table.io) for e in m.fetch_manifest_entry(table.io)]
        assert sorted((e.data_file.partition[2], e.sequence_number) for e in entries) == [
            ("t0", 1),
            ("t1", 2),
            ("t2", 3),
            ("t3", 4),
        ]

    def test_filters_choose_the_same_rows(self, tmp_path_factory: pytest.TempPathFactory, unit: MakeUnit) -> None:
        """Pruning by manifests and bounds loses no row of a plain scan; PyIceberg is told what NULL means in SQL."""
        metastore, theirs = self._assorted(tmp_path_factory.mktemp("filters"), unit)

        @given(_expressions())
        def same(filter_: str) -> None:
            ours = metastore.tables.read().metadata_types(ALL).filter(filter_).columns("tableName", "metadataKey")
            found = sorted(tuple(row.values()) for row in ours.to_arrow().to_pylist())
            scanned = theirs.scan(
                row_filter=as_sql(parse(filter_)), selected_fields=("tableName", "metadataKey")
            ).to_arrow()
            assert found == sorted((row["tableName"], row["metadataKey"]) for row in scanned.to_pylist())

        same()

    def _assorted(self, folder: Path, unit: MakeUnit) -> tuple[Metastore, StaticTable]:
        location = {"base_path": str(folder), "relative_path": "m"}
        metastore = Metastore.open(Settings.from_mapping({"drill.metastore.iceberg.location": location}, environ={}))
        units = [
            unit(f"t{n}", key, last_modified_time=n if n % 3 else None, owner=["x", None, "y"][n % 3])
            for n in range(8)
            for key in (GENERAL_INFO, "1")
        ]
        metastore.tables.modify().overwrite(units).execute()
        return metastore, metastore.tables._backing.table.load()  # type: ignore[return-value]


def _expressions() -> st.SearchStrategy[str]:
    text = st.sampled_from(["tableName", "metadataKey", "owner", "path", "metadataType"])
    values = st.sampled_from(["t1", "t5", "x", "y", "1", GENERAL_INFO, "TABLE", ""])
    comparison = st.sampled_from(["=", "!=", "<", "<=", ">", ">="])
    leaf = st.one_of(
        st.builds("{} {} '{}'".format, text, comparison, values),
        st.builds("lastModifiedTime {} {}".format, comparison, st.integers(-1, 9)),
        st.builds(
            "{} {}".format, st.one_of(text, st.just("lastModifiedTime")), st.sampled_from(["is null", "is not null"])
        ),
        st.builds("{} {} ('{}', '{}')".format, text, st.sampled_from(["in", "not in"]), values, values),
        st.builds("{} like '{}%'".format, text, st.sampled_from(["t", "x", "G"])),
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.builds("({} and {})".format, inner, inner),
            st.builds("({} or {})".format, inner, inner),
            st.builds("not ({})".format, inner),
        ),
        max_leaves=4,
    )


class TestWeReadPyIceberg:
    def test_an_append_of_theirs_is_read_and_gone_on_from(
        self,
        metastore: Metastore,
        unit: MakeUnit,
        folder: Path,
        catalog: FileSystemCatalog,
        iceberg_table: LoadTable,
        as_rows: AsRows,
    ) -> None:
        """Its rows are read at once; overwriting and deleting them works as with our own."""
        metastore.tables.modify().overwrite([rich(unit, "ours"), rich(unit, "ours", "1")]).execute()
        theirs = [rich(unit, "theirs"), rich(unit, "theirs", "1"), rich(unit, "theirs", "2"), rich(unit, "ours", "2")]
        catalog.load_table("tables").append(_arrow(open_rows=rows(metastore), units=theirs))
        found = metastore.tables.read().metadata_types(ALL).execute()
        assert sorted(found, key=repr) == sorted([rich(unit, "ours"), rich(unit, "ours", "1"), *theirs], key=repr)
        modify = metastore.tables.modify().delete("tableName = 'theirs' and metadataKey = '1'")
        modify.overwrite([rich(unit, "theirs", "2", owner="ours now")]).execute()
        left = [(u.table_name, u.metadata_key, u.owner) for u in metastore.tables.read().metadata_types(ALL).execute()]
        assert sorted(left, key=repr) == [
            ("ours", "1", None),
            ("ours", "2", None),
            ("ours", GENERAL_INFO, None),
            ("theirs", "2", "ours now"),
            ("theirs", GENERAL_INFO, None),
        ]
        assert as_rows(iceberg_table(folder).scan().to_arrow()) == as_rows(rows(metastore))

    def test_several_files_of_theirs_in_one_partition_go_together(
        self, metastore: Metastore, unit: MakeUnit, catalog: FileSystemCatalog
    ) -> None:
        """Two appends to one partition are two files there: both are read, both are replaced."""
        metastore.tables.initialize()
        arrow = _arrow(open_rows=rows(metastore), units=[unit()])
        for _ in range(2):
            catalog.load_table("tables").append(arrow)
        assert rows(metastore).num_rows == 2
        metastore.tables.modify().overwrite([unit(owner="one")]).execute()
        assert metastore.tables.read().metadata_types(ALL).execute() == [unit(owner="one")]

    def test_small_manifests_of_theirs_are_joined_as_commits_come(
        self, metastore: Metastore, unit: MakeUnit, folder: Path, catalog: FileSystemCatalog, iceberg_table: LoadTable
    ) -> None:
        """Forty appends leave forty manifests with clusters mixed; a few commits of ours leave a few, unmixed."""
        metastore.tables.initialize()
        empty = rows(metastore)
        for n in range(40):
            units = [unit(f"t{n}"), unit(f"t{n}", "1994")]
            catalog.load_table("tables").append(_arrow(open_rows=empty, units=units))
        assert len(keys_by_manifest(iceberg_table(folder))) == 40
        for n in range(4):
            metastore.tables.modify().overwrite([unit(f"t{n}", owner="new")]).execute()
        manifests = keys_by_manifest(iceberg_table(folder))
        assert len(manifests) <= 17
        assert sum(map(len, manifests)) == rows(metastore).num_rows == 80
        metastore.tables.modify().overwrite([unit(f"t{n}") for n in range(40)]).execute()
        manifests = keys_by_manifest(iceberg_table(folder))
        assert len(manifests) <= 3
        assert all(len({key[3] == GENERAL_INFO for key in keys}) == 1 for keys in manifests)


class TestFormatVersionOne:
    @pytest.fixture
    def made_by_drill(self, catalog: FileSystemCatalog) -> Table:
        """A table as Drill 1.22 makes it: the same schema and partitioning in format version 1."""
        properties = {"format-version": "1"}
        schema, spec = iceberg_schema(TableMetadataUnit), partition_spec(TableMetadataUnit)
        table = catalog.create_table("tables", schema, partition_spec=spec, properties=properties)
        assert table.metadata.format_version == 1
        return table

    def test_it_is_read_and_written(
        self,
        made_by_drill: Table,
        metastore: Metastore,
        unit: MakeUnit,
        folder: Path,
        iceberg_table: LoadTable,
        as_rows: AsRows,
    ) -> None:
        """It stays in version 1, since Drill goes on writing it."""
        made_by_drill.append(_arrow(open_rows=rows(metastore), units=[rich(unit, "a"), rich(unit, "b")]))
        metastore.tables.modify().overwrite([rich(unit, "b", owner="new"), rich(unit, "c", "1")]).execute()
        metastore.tables.modify().delete("tableName = 'a'").execute()
        written = [rich(unit, "b", owner="new"), rich(unit, "c", "1")]
        assert sorted(metastore.tables.read().metadata_types(ALL).execute(), key=repr) == sorted(written, key=repr)
        theirs = iceberg_table(folder)
        assert theirs.metadata.format_version == 1
        assert as_rows(theirs.scan().to_arrow()) == as_rows(rows(metastore))
        metastore.tables.expiration.expire()
        theirs = iceberg_table(folder)
        assert as_rows(theirs.scan().to_arrow()) == as_rows(rows(metastore))
        theirs_again = catalog_of(folder).load_table("tables")
        theirs_again.append(_arrow(open_rows=rows(metastore), units=[rich(unit, "d")]))
        assert rows(metastore).num_rows == 3


def catalog_of(folder: Path) -> FileSystemCatalog:
    """A fresh catalog over the component's folder."""
    return FileSystemCatalog("fresh", str(folder.parent))


def _arrow(open_rows: pa.Table, units: list[TableMetadataUnit]) -> pa.Table:
    """``units`` as Arrow rows in the schema of ``open_rows``."""
    as_columns = [unit.to_columns() for unit in units]
    arrays = []
    for field in open_rows.schema:
        values = [row[field.name] for row in as_columns]
        if pa.types.is_map(field.type):
            values = [None if value is None else list(value.items()) for value in values]
        arrays.append(pa.array(values, field.type))
    return pa.Table.from_arrays(arrays, schema=open_rows.schema)
