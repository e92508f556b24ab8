"""Ready requests: each asks one question of planners, and gets its answer alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from metastore.components.metastore import Metastore
from metastore.components.requests import MetastoreTableInfo, Request
from metastore.errors import FormatError, InvalidRequestError
from metastore.model.identity import MetadataInfo, TableInfo
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import GENERAL_INFO, MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
TABLE = TableInfo("dfs", "tmp", "sales")
UNKNOWN = TableInfo("dfs", "tmp", "nothing")
ROOT = "/data/sales"


def names(units: Sequence[TableMetadataUnit]) -> list[str]:
    """What was found, by type and identifier, sorted."""
    return sorted(f"{u.metadata_type} {u.metadata_identifier}" for u in units)


def info(kind: MetadataType, identifier: str) -> MetadataInfo:
    """A piece of metadata of the year that its identifier starts with."""
    return MetadataInfo(kind, identifier.split("/", 1)[0], identifier)


SEGMENT, FILE, ROW_GROUP, PARTITION = (
    MetadataType.SEGMENT,
    MetadataType.FILE,
    MetadataType.ROW_GROUP,
    MetadataType.PARTITION,
)


class ReadyRequests:
    """Holds for the tables component on any catalog; a subclass brings ``metastore``, never written to."""

    @pytest.fixture(autouse=True)
    def sales(self, metastore: Metastore, unit: MakeUnit) -> None:
        """Two tables with the same segments: 1994 and 1995, each with a quarter, a file, row groups, a partition."""
        units = []
        for table in ("sales", "other"):
            units.append(
                unit(
                    table,
                    owner=table,
                    last_modified_time=9,
                    interesting_columns=["`a`"],
                    partition_keys={"dir0": "year"},
                    location=f"/data/{table}",
                )
            )
            for year, time in (("1994", 4), ("1995", 5)):

                def piece(
                    kind: MetadataType, identifier: str, table: str = table, year: str = year, **values: object
                ) -> TableMetadataUnit:
                    return unit(table, year, metadata_type=kind.value, metadata_identifier=identifier, **values)

                root = f"/data/{table}/{year}"
                file = f"{year}/Q1/a.parquet"
                path = f"{root}/Q1/a.parquet"
                units += [
                    piece(SEGMENT, year, location=root, path=root, column="`dir0`", last_modified_time=time),
                    piece(SEGMENT, f"{year}/Q1", location=f"{root}/Q1", path=f"{root}/Q1", column="`dir1`"),
                    piece(FILE, file, location=path, path=path, last_modified_time=10 * time),
                    piece(ROW_GROUP, f"{file}/0", location=path, path=path, row_group_index=0),
                    piece(ROW_GROUP, f"{file}/1", location=path, path=path, row_group_index=1),
                    piece(PARTITION, f"{year}/red", column="`colour`", partition_values=["red"]),
                ]
        metastore.tables.modify().overwrite(units).execute()

    def test_metastore_table_info(self, metastore: Metastore) -> None:
        """Whether a table is known, since when, and at which version of the metastore that holds."""
        ask = metastore.tables.requests.metastore_table_info
        version = metastore.tables.metadata.version
        assert ask(TABLE) == MetastoreTableInfo(TABLE, exists=True, last_modified_time=9, version=version)
        assert ask(UNKNOWN) == MetastoreTableInfo(UNKNOWN, exists=False, last_modified_time=None, version=version)

    def test_has_metastore_table_info_changed(self, metastore: Metastore, unit: MakeUnit) -> None:
        """Another table's change is none; a new time, and being dropped, are."""
        requests = metastore.tables.requests
        known, missing = requests.metastore_table_info(TABLE), requests.metastore_table_info(UNKNOWN)
        assert not requests.has_metastore_table_info_changed(known)
        metastore.tables.modify().overwrite([unit("other", last_modified_time=99)]).execute()
        assert not requests.has_metastore_table_info_changed(known)
        metastore.tables.modify().overwrite([unit("sales", last_modified_time=10)]).execute()
        assert requests.has_metastore_table_info_changed(known)
        assert not requests.has_metastore_table_info_changed(missing)
        metastore.tables.modify().overwrite([unit("nothing", last_modified_time=1)]).execute()
        assert requests.has_metastore_table_info_changed(missing)
        known = requests.metastore_table_info(TABLE)
        metastore.tables.modify().delete("tableName = 'sales'").execute()
        assert requests.has_metastore_table_info_changed(known)

    def test_tables_metadata(self, metastore: Metastore) -> None:
        """General information of all tables, or of those a filter matches."""
        requests = metastore.tables.requests
        assert sorted(u.table_name or "" for u in requests.tables_metadata()) == ["other", "sales"]
        assert [u.table_name for u in requests.tables_metadata("owner = 'sales'")] == ["sales"]

    def test_table_metadata(self, metastore: Metastore) -> None:
        """General information of one table, by its name with or without a leading slash; None when unknown."""
        requests = metastore.tables.requests
        found = requests.table_metadata(TableInfo("dfs", "tmp", "/sales"))
        assert found is not None
        assert (found.owner, found.location, found.interesting_columns) == ("sales", ROOT, ["`a`"])
        assert requests.table_metadata(UNKNOWN) is None

    def test_table_metadata_refuses_to_choose(self, metastore: Metastore, unit: MakeUnit) -> None:
        """Two units of general information are an error of whoever wrote them, and said so."""
        metastore.tables.modify().overwrite([unit("sales"), unit("sales")]).execute()
        with pytest.raises(FormatError, match="2 units of dfs.tmp.sales"):
            metastore.tables.requests.table_metadata(TABLE)

    def test_segments_by_key(self, metastore: Metastore) -> None:
        """At the given locations, of the given top-level segment."""
        ask = metastore.tables.requests.segments_metadata_by_metadata_key
        assert names(ask(TABLE, [f"{ROOT}/1994", f"{ROOT}/1994/Q1"], "1994")) == ["SEGMENT 1994", "SEGMENT 1994/Q1"]
        assert names(ask(TABLE, [f"{ROOT}/1994", f"{ROOT}/1995"], "1995")) == ["SEGMENT 1995"]
        assert ask(TABLE, [], "1994") == []

    def test_segments_by_column(self, metastore: Metastore) -> None:
        """Of the directory column asked for, at the given locations."""
        ask = metastore.tables.requests.segments_metadata_by_column
        places = [f"{ROOT}/1994", f"{ROOT}/1994/Q1", f"{ROOT}/1995"]
        assert names(ask(TABLE, places, "`dir0`")) == ["SEGMENT 1994", "SEGMENT 1995"]
        assert names(ask(TABLE, places, "`dir1`")) == ["SEGMENT 1994/Q1"]

    def test_segments_by_infos(self, metastore: Metastore) -> None:
        """Those named, and no other type of the same name."""
        infos = [info(SEGMENT, "1994/Q1"), info(SEGMENT, "1995"), info(SEGMENT, "1996")]
        found = metastore.tables.requests.segments_metadata(TABLE, infos)
        assert names(found) == ["SEGMENT 1994/Q1", "SEGMENT 1995"]

    def test_metadata_by_infos(self, metastore: Metastore) -> None:
        """Of any type; exactly the pieces named, not the crosswise ones."""
        infos = [
            MetadataInfo.general(),
            info(SEGMENT, "1994"),
            info(FILE, "1995/Q1/a.parquet"),
            MetadataInfo(SEGMENT, "1994", "1995"),
            info(PARTITION, "1995/Q1/a.parquet"),
        ]
        found = metastore.tables.requests.metadata(TABLE, infos)
        assert names(found) == ["FILE 1995/Q1/a.parquet", "SEGMENT 1994", f"TABLE {GENERAL_INFO}"]
        assert {u.table_name for u in found} == {"sales"}
        assert metastore.tables.requests.metadata(TABLE, []) == []

    def test_partitions(self, metastore: Metastore) -> None:
        """By column, within the given segments."""
        ask = metastore.tables.requests.partitions_metadata
        assert names(ask(TABLE, ["1994", "1995"], "`colour`")) == ["PARTITION 1994/red", "PARTITION 1995/red"]
        assert names(ask(TABLE, ["1995"], "`colour`")) == ["PARTITION 1995/red"]
        assert ask(TABLE, ["1995"], "`dir0`") == []

    def test_files(self, metastore: Metastore) -> None:
        """By key and paths, by infos, or one."""
        requests = metastore.tables.requests
        paths = [f"{ROOT}/{year}/Q1/a.parquet" for year in (1994, 1995)]
        assert names(requests.files_metadata(TABLE, "1994", paths)) == ["FILE 1994/Q1/a.parquet"]
        infos = [info(FILE, "1995/Q1/a.parquet")]
        assert names(requests.files_metadata_by_infos(TABLE, infos)) == ["FILE 1995/Q1/a.parquet"]
        one = requests.file_metadata(TABLE, "1994", paths[0])
        assert one is not None
        assert (one.table_name, one.path) == ("sales", paths[0])
        assert requests.file_metadata(TABLE, "1994", paths[1]) is None

    def test_row_groups(self, metastore: Metastore) -> None:
        """Of one file, of several files in several segments, or by infos."""
        requests = metastore.tables.requests
        first, second = (f"{ROOT}/{year}/Q1/a.parquet" for year in (1994, 1995))
        of_1994 = ["ROW_GROUP 1994/Q1/a.parquet/0", "ROW_GROUP 1994/Q1/a.parquet/1"]
        of_1995 = ["ROW_GROUP 1995/Q1/a.parquet/0", "ROW_GROUP 1995/Q1/a.parquet/1"]
        assert names(requests.row_groups_metadata(TABLE, "1994", first)) == of_1994
        both = requests.row_groups_metadata_by_paths(TABLE, ["1994", "1995"], [first, second])
        assert names(both) == of_1994 + of_1995
        assert names(requests.row_groups_metadata_by_paths(TABLE, ["1995"], [first, second])) == of_1995
        infos = [info(ROW_GROUP, "1995/Q1/a.parquet/1")]
        assert names(requests.row_groups_metadata_by_infos(TABLE, infos)) == of_1995[1:]

    def test_full_segments_without_partitions(self, metastore: Metastore) -> None:
        """Everything else of the top-level segments that are named."""
        found = metastore.tables.requests.full_segments_metadata_without_partitions(TABLE, [info(SEGMENT, "1994")])
        assert names(found) == [
            "FILE 1994/Q1/a.parquet",
            "ROW_GROUP 1994/Q1/a.parquet/0",
            "ROW_GROUP 1994/Q1/a.parquet/1",
            "SEGMENT 1994",
            "SEGMENT 1994/Q1",
        ]
        assert metastore.tables.requests.full_segments_metadata_without_partitions(TABLE, []) == []

    def test_full_segments_as_in_drill(self, metastore: Metastore) -> None:
        """By metadata keys, of the locations that are named; of all where none is."""
        ask = metastore.tables.requests.full_segments_metadata_without_partitions
        assert names(ask(TABLE, ["1994"], [f"{ROOT}/1994/Q1"])) == ["SEGMENT 1994/Q1"]
        assert names(ask(TABLE, ["1994", "1995"], [f"{ROOT}/1995"])) == ["SEGMENT 1995"]
        assert len(ask(TABLE, ["1994"])) == 5
        assert ask(TABLE, ["1994"], []) == []

    def test_last_modified_times(self, metastore: Metastore) -> None:
        """Of files by path, of segments by key."""
        requests = metastore.tables.requests
        path = f"{ROOT}/1994/Q1/a.parquet"
        assert requests.files_last_modified_time(TABLE, "1994", [path, "/nowhere"]) == {path: 40}
        assert requests.files_last_modified_time(TABLE, "1994", paths=[path]) == {path: 40}
        assert requests.files_last_modified_time(TABLE, "1994", []) == {}
        places = [f"{ROOT}/1994", f"{ROOT}/1995", "/nowhere"]
        assert requests.segments_last_modified_time(TABLE, places) == {"1994": 4, "1995": 5}

    def test_interesting_columns_and_partition_keys(self, metastore: Metastore) -> None:
        """These two and nothing else; None when the table is not known."""
        requests = metastore.tables.requests
        expected = TableMetadataUnit(interesting_columns=["`a`"], partition_keys={"dir0": "year"})
        assert requests.interesting_columns_and_partition_keys(TABLE) == expected
        assert requests.interesting_columns_and_partition_keys(UNKNOWN) is None

    def test_a_custom_request_is_all_its_parts_together(self, metastore: Metastore) -> None:
        """Parts that are None do not narrow; an empty one asks for nothing."""
        ask = metastore.tables.requests.request
        assert len(ask(Request())) == 26
        assert len(ask(Request(TABLE))) == 13
        narrow = Request(
            TABLE,
            (ROW_GROUP, FILE),
            metadata_keys=("1994", "1995"),
            identifiers=("1994/Q1/a.parquet", "1994/Q1/a.parquet/1", "1995/Q1/a.parquet/0"),
            paths=(f"{ROOT}/1994/Q1/a.parquet",),
            filter="rowGroupIndex is null or rowGroupIndex = 1",
            columns=("metadataType", "metadataIdentifier"),
        )
        assert names(ask(narrow)) == ["FILE 1994/Q1/a.parquet", "ROW_GROUP 1994/Q1/a.parquet/1"]
        assert {u.table_name for u in ask(narrow)} == {None}
        for nothing in (Request(metadata_keys=()), Request(identifiers=()), Request(locations=()), Request(paths=())):
            assert ask(nothing) == []
        with pytest.raises(InvalidRequestError):
            ask(Request(filter="noSuchColumn = 1"))


class TestOnFileSystem(ReadyRequests):
    """The default catalog."""
