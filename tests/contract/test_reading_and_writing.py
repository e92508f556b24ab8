"""What is written is what is read: every field, every kind of value, any form of input, any choice of columns."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pyarrow as pa
import pytest
from pyiceberg.expressions import And, EqualTo, In

from metastore.components.metastore import Metastore
from metastore.errors import InvalidRequestError
from metastore.model.fields import column_names, columns_of
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.predicates.given_filter import Filter

MakeUnit = Callable[..., TableMetadataUnit]
ALL, TABLE, SEGMENT, FILE = MetadataType.ALL, MetadataType.TABLE, MetadataType.SEGMENT, MetadataType.FILE

FULL = TableMetadataUnit(
    storage_plugin="dfs",
    workspace="tmp",
    table_name="nation",
    owner="Žofie",
    table_type="PARQUET",
    metadata_type="ROW_GROUP",
    metadata_key="1994",
    location="/data/nation/1994/naïve façade – 東京 🗼.parquet",
    interesting_columns=["`a`", "`b.c`", ""],
    schema='{"type":"tuple_schema"}',
    columns_statistics={"`a`": "{}", "`ключ`": "значение"},
    metadata_statistics=["{}", "line\nbreak\ttab"],
    last_modified_time=2**62,
    partition_keys={"dir0": "1994"},
    additional_metadata="quotes ' \" ` and a backslash \\",
    metadata_identifier="1994/a.parquet/0",
    column="`dir0`",
    locations=["/a", "/b"],
    partition_values=["1994"],
    path="/data/nation/1994/a.parquet",
    row_group_index=-(2**31),
    host_affinity={"host-1": 1.0, "host-2": 0.25},
)


def read_all(metastore: Metastore) -> list[TableMetadataUnit]:
    """Every unit of the tables component."""
    return metastore.tables.read().metadata_types(ALL).execute()


class ReadingAndWriting:
    """Holds for the tables component on any catalog; a subclass brings ``metastore``, never written to."""

    def test_nothing_written_reads_as_nothing(self, metastore: Metastore) -> None:
        """A metastore that nobody has written to has no units, in all columns, and no version."""
        assert read_all(metastore) == []
        assert metastore.tables.read().metadata_types(ALL).to_arrow().schema.names == list(
            column_names(TableMetadataUnit)
        )
        assert metastore.tables.metadata.version == 0

    def test_every_field_returns_as_it_was_written(self, metastore: Metastore) -> None:
        """All columns are set in this unit, with values at the edges of their types."""
        assert all(value is not None for value in FULL.to_columns().values())
        metastore.tables.modify().overwrite([FULL]).execute()
        assert read_all(metastore) == [FULL]

    def test_unset_fields_return_as_none(self, metastore: Metastore, unit: MakeUnit) -> None:
        """A unit with its keys alone."""
        metastore.tables.modify().overwrite([unit()]).execute()
        assert read_all(metastore) == [unit()]

    def test_an_empty_list_or_map_is_not_a_missing_one(self, metastore: Metastore, unit: MakeUnit) -> None:
        """Empty and null are told apart, and so is a null within a list."""
        written = [
            unit("empty", interesting_columns=[], columns_statistics={}, partition_keys={}),
            unit("null", interesting_columns=None, columns_statistics=None, partition_keys=None),
            unit("inner", interesting_columns=[None, "`a`"], columns_statistics={"`a`": None}, owner=""),
        ]
        metastore.tables.modify().overwrite(written).execute()
        assert sorted(read_all(metastore), key=repr) == sorted(written, key=repr)

    def test_a_large_text_survives(self, metastore: Metastore, unit: MakeUnit) -> None:
        """Schemas of wide tables are megabytes of JSON."""
        schema = "ß" * 3_000_000
        metastore.tables.modify().overwrite([unit(schema=schema)]).execute()
        assert [read.schema for read in read_all(metastore)] == [schema]

    @pytest.mark.parametrize("length", [15, 16, 17, 255, 256, 257])
    def test_a_text_survives_at_the_limits_of_bounds(self, metastore: Metastore, unit: MakeUnit, length: int) -> None:
        """Values answered from manifests and those read from files are the same values."""
        owner = "o" * (length - 2) + "é"
        metastore.tables.modify().overwrite([unit(owner=owner)]).execute()
        assert [u.owner for u in metastore.tables.read().metadata_types(TABLE).columns("owner").execute()] == [owner]

    def test_units_of_one_partition_live_together(self, metastore: Metastore, unit: MakeUnit) -> None:
        """Units given in any order, mixed between partitions, each end in their own."""
        kinds = ["SEGMENT", "FILE", "ROW_GROUP", "ROW_GROUP", "PARTITION"]
        of = {
            key: [unit(key=key, metadata_type=kind, metadata_identifier=f"{key}/{n}") for n, kind in enumerate(kinds)]
            for key in ("1994", "1995")
        }
        mixed = [each for pair in zip(of["1994"], of["1995"], strict=True) for each in pair]
        metastore.tables.modify().overwrite([mixed[0], unit(), *mixed[1:]]).execute()
        read = metastore.tables.read().metadata_types(ALL)
        for key, written in of.items():
            found = [u for u in read.execute() if u.metadata_key == key]
            assert sorted(found, key=repr) == sorted(written, key=repr)
        [version] = metastore.tables.metadata.history()
        assert version.summary["added-data-files"] == "3"

    def test_columns_choose_what_is_read(self, metastore: Metastore) -> None:
        """Columns come in the order asked for; units leave the others None."""
        metastore.tables.modify().overwrite([FULL]).execute()
        read = metastore.tables.read().metadata_types(ALL).columns("path", "tableName", "hostAffinity")
        assert read.to_arrow().schema.names == ["path", "tableName", "hostAffinity"]
        assert read.execute() == [
            TableMetadataUnit(path=FULL.path, table_name=FULL.table_name, host_affinity=FULL.host_affinity)
        ]

    @pytest.mark.parametrize("column", columns_of(TableMetadataUnit), ids=lambda column: column.name)
    def test_each_column_can_be_read_alone(self, metastore: Metastore, column: object) -> None:
        """Whatever a column's type, and whether manifests or files answer it."""
        assert hasattr(column, "name")
        metastore.tables.modify().overwrite([FULL]).execute()
        [found] = metastore.tables.read().metadata_types(ALL).columns(column.name).execute()
        assert {k: v for k, v in found.to_columns().items() if v is not None} == {
            column.name: FULL.to_columns()[column.name]
        }

    def test_a_filter_may_use_columns_that_are_not_read(self, metastore: Metastore) -> None:
        """The filter's columns are read for it, and not given back."""
        metastore.tables.modify().overwrite([FULL]).execute()
        read = metastore.tables.read().metadata_types(ALL).columns("owner").filter(f"path = '{FULL.path}'")
        assert read.to_arrow().to_pylist() == [{"owner": FULL.owner}]

    def test_an_arrow_table_is_written_like_units(self, metastore: Metastore, unit: MakeUnit) -> None:
        """What a read gives as Arrow can be written again."""
        metastore.tables.modify().overwrite([FULL, unit()]).execute()
        rows = metastore.tables.read().metadata_types(ALL).to_arrow()
        metastore.tables.modify().purge()
        metastore.tables.modify().overwrite(rows).execute()
        assert sorted(read_all(metastore), key=repr) == sorted([FULL, unit()], key=repr)

    def test_columns_absent_from_an_arrow_table_become_null(self, metastore: Metastore, unit: MakeUnit) -> None:
        """Columns come by name, in any order; types are cast where nothing is lost."""
        rows = pa.table(
            {
                "lastModifiedTime": pa.array([7], pa.int8()),
                "metadataKey": ["GENERAL_INFO"],
                "metadataIdentifier": ["GENERAL_INFO"],
                "metadataType": pa.array(["TABLE"]).dictionary_encode(),
                "tableName": pa.array(["nation"], pa.large_string()),
                "workspace": ["tmp"],
                "storagePlugin": ["dfs"],
            }
        )
        metastore.tables.modify().overwrite(rows).execute()
        assert read_all(metastore) == [unit(last_modified_time=7)]

    @pytest.mark.parametrize(
        "rows",
        [
            pa.table({"unknown": ["a"]}),
            pa.table({"lastModifiedTime": ["not a number"]}),
            pa.table({"rowGroupIndex": [2**40]}),
            pa.table({"storagePlugin": ["dfs"], "workspace": ["tmp"], "tableName": ["t"]}),
            pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["owner", "owner"]),
        ],
        ids=["unknown column", "wrong type", "too large", "no metadata key", "a column twice"],
    )
    def test_an_arrow_table_that_does_not_fit_is_refused(self, metastore: Metastore, rows: pa.Table) -> None:
        """Before anything is written."""
        with pytest.raises(InvalidRequestError):
            metastore.tables.modify().overwrite(rows)

    @pytest.mark.parametrize(
        "values",
        [
            {"last_modified_time": "yesterday"},
            {"last_modified_time": 2**63},
            {"row_group_index": 2**31},
            {"owner": 7},
            {"interesting_columns": [1]},
            {"columns_statistics": "text"},
            {"host_affinity": {"host": "near"}},
            {"owner": "\ud800"},
        ],
        ids=repr,
    )
    def test_a_value_that_does_not_fit_is_refused(
        self, metastore: Metastore, unit: MakeUnit, values: dict[str, object]
    ) -> None:
        """Before anything is written, with the column's name."""
        [attribute] = values
        name = next(c.name for c in columns_of(TableMetadataUnit) if c.attribute == attribute)
        with pytest.raises(InvalidRequestError, match=name):
            metastore.tables.modify().overwrite([unit(**values)])

    def test_other_things_than_units_are_refused(self, metastore: Metastore, unit: MakeUnit) -> None:
        """The message names the type that came."""
        with pytest.raises(InvalidRequestError, match="dict"):
            metastore.tables.modify().overwrite([unit(), {"tableName": "nation"}])  # type: ignore[list-item]

    @pytest.mark.parametrize("column", TableMetadataUnit.partition_columns)
    def test_a_null_partition_key_is_refused(self, metastore: Metastore, column: str) -> None:
        """Drill refuses it as well."""
        attribute = next(c.attribute for c in columns_of(TableMetadataUnit) if c.name == column)
        with pytest.raises(InvalidRequestError, match=column):
            metastore.tables.modify().overwrite([dataclasses.replace(FULL, **{attribute: None})])

    def test_metadata_types_choose_rows(self, metastore: Metastore, unit: MakeUnit) -> None:
        """One type, several, or ALL of them."""
        file = unit(key="1994", metadata_type="FILE", metadata_identifier="1994/a.parquet")
        general, segment = unit(), unit(key="1994")
        metastore.tables.modify().overwrite([general, segment, file]).execute()
        read = metastore.tables.read
        assert read().metadata_types(TABLE).execute() == [general]
        assert read().metadata_types(SEGMENT).execute() == [segment]
        assert sorted(read().metadata_types(TABLE, FILE).execute(), key=repr) == sorted([general, file], key=repr)
        assert len(read().metadata_types(ALL).execute()) == 3
        assert read().metadata_types(MetadataType.PARTITION).execute() == []

    def test_a_read_without_metadata_types_is_refused(self, metastore: Metastore) -> None:
        """Everything must be asked for by name: ALL."""
        with pytest.raises(InvalidRequestError, match="metadata_types"):
            metastore.tables.read().execute()

    @pytest.mark.parametrize(
        ("filter_", "tables"),
        [
            ("tableName = 'a'", "a"),
            ("tableName != 'a'", "bc"),
            ("lastModifiedTime < 2", "a"),
            ("lastModifiedTime <= 2", "ab"),
            ("lastModifiedTime > 1", "b"),
            ("lastModifiedTime >= 1", "ab"),
            ("tableName in ('a', 'c')", "ac"),
            ("tableName not in ('a', 'c')", "b"),
            ("lastModifiedTime is null", "c"),
            ("lastModifiedTime is not null", "ab"),
            ("not (tableName = 'a' or tableName = 'b')", "c"),
            ("storagePlugin = 'dfs' and tableName = 'b'", "b"),
            (In("tableName", {"b", "c"}), "bc"),
            (And(EqualTo("workspace", "tmp"), EqualTo("owner", "o")), "b"),
            ("interestingColumns is null", "abc"),
            ("tableName like 'a%'", "a"),
        ],
        ids=str,
    )
    def test_filters(self, metastore: Metastore, unit: MakeUnit, filter_: str, tables: str) -> None:
        """As text or as expression, over any scalar column; a null matches ``is null`` alone."""
        units = [unit("a", last_modified_time=1), unit("b", last_modified_time=2, owner="o"), unit("c")]
        metastore.tables.modify().overwrite(units).execute()
        found = metastore.tables.read().metadata_types(ALL).filter(filter_).execute()
        assert "".join(sorted(u.table_name or "" for u in found)) == tables

    def test_two_filters_both_hold(self, metastore: Metastore, unit: MakeUnit) -> None:
        """A filter narrows what an earlier one left."""
        metastore.tables.modify().overwrite([unit("a", owner="x"), unit("b", owner="x"), unit("b", "1")]).execute()
        read = metastore.tables.read().metadata_types(ALL).filter("owner = 'x'").filter("tableName = 'b'")
        assert read.execute() == [unit("b", owner="x")]

    @pytest.mark.parametrize(
        ("filter_", "reason"),
        [
            ("noSuchColumn = 1", "unknown column 'noSuchColumn'"),
            ("lastModifiedTime = 'x'", "cannot be carried out"),
            ("interestingColumns = 'a'", "cannot be carried out"),
            ("columnsStatistics.key = 'a'", "cannot be carried out"),
            ("tableName =", "syntax error at line 1, column 11"),
            ("", "one predicate is expected"),
            (EqualTo("noSuchColumn", 1), "does not fit the columns"),
        ],
        ids=str,
    )
    def test_a_filter_that_does_not_fit_is_refused(self, metastore: Metastore, filter_: Filter, reason: str) -> None:
        """Where it is given, and whether or not there is anything to read."""
        with pytest.raises(InvalidRequestError, match=reason):
            metastore.tables.read().filter(filter_)

    def test_an_unknown_column_is_refused(self, metastore: Metastore) -> None:
        """The message names it and those that there are."""
        with pytest.raises(InvalidRequestError, match="'noSuchColumn'.*storagePlugin"):
            metastore.tables.read().columns("tableName", "noSuchColumn")

    def test_many_partitions_read_like_few(self, metastore: Metastore, unit: MakeUnit) -> None:
        """Few files are opened one by one, many through a dataset; units with every column set show any difference."""
        written = [dataclasses.replace(FULL, table_name=f"t{n}", row_group_index=n) for n in range(60)]
        written.append(unit("t60", "1994", metadata_type="ROW_GROUP"))
        metastore.tables.modify().overwrite(written).execute()
        assert sorted(read_all(metastore), key=repr) == sorted(written, key=repr)
        few = metastore.tables.read().metadata_types(ALL).filter("tableName in ('t1', 't2')").execute()
        assert sorted(few, key=repr) == sorted(written[1:3], key=repr)


class TestOnFileSystem(ReadingAndWriting):
    """The default catalog."""
