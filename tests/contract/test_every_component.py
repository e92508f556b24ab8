"""What holds for every component, whatever its units are: tables, views, materialized views."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from pyiceberg.table import StaticTable

from metastore.components.component import Component
from metastore.components.materialized_views import MATERIALIZED_VIEWS
from metastore.components.metastore import Metastore
from metastore.components.tables import TABLES
from metastore.components.views import VIEWS
from metastore.errors import ConflictError, InvalidRequestError, NotFoundError
from metastore.model.fields import ColumnType, column_names, columns_of
from metastore.model.mapping.schema import iceberg_schema, partition_spec
from metastore.model.vocabulary import GENERAL_INFO, MetadataType

ALL = MetadataType.ALL

EDGES: dict[ColumnType, Any] = {
    ColumnType.STRING: "naïve ' \" ` \\ 東京 🗼\n",
    ColumnType.LONG: -(2**63),
    ColumnType.INT: 2**31 - 1,
    ColumnType.STRING_LIST: ["", "b.c", "é"],
    ColumnType.STRING_MAP: {"ключ": "значение", "": ""},
    ColumnType.FLOAT_MAP: {"host": 0.25},
}


class Kind(NamedTuple):
    """One component: its definition, its own metadata type, and the column that tells its units apart."""

    definition: Any
    own: MetadataType
    name_column: str

    def of(self, metastore: Metastore) -> Component[Any]:
        """The component of an open metastore."""
        found: Component[Any] = getattr(metastore, self.definition.name)
        return found

    def unit(self, name: str, **values: Any) -> Any:
        """A unit with its keys and these columns, by on-disk name."""
        keys = {"storagePlugin": "dfs", "workspace": "tmp", self.name_column: name}
        if self.definition is TABLES:
            keys |= {"metadataType": "TABLE", "metadataKey": GENERAL_INFO}
        return self.definition.unit_type.from_columns({**keys, **values})

    def full(self) -> Any:
        """A unit with every column set, at the edges of its type; its keys can name folders."""
        values = {c.name: EDGES[c.type] for c in columns_of(self.definition.unit_type)}
        keys = self.unit("full").to_columns()
        return self.definition.unit_type.from_columns({**values, **{k: v for k, v in keys.items() if v is not None}})


KINDS = {
    "tables": Kind(TABLES, MetadataType.TABLE, "tableName"),
    "views": Kind(VIEWS, MetadataType.VIEW, "name"),
    "materialized_views": Kind(MATERIALIZED_VIEWS, MetadataType.MATERIALIZED_VIEW, "name"),
}


class EveryComponent:
    """Holds for each component on any catalog; a subclass brings ``metastore``, never written to, on a test's clock."""

    @pytest.fixture(params=sorted(KINDS))
    def tested(self, request: pytest.FixtureRequest) -> Kind:
        """The component at hand."""
        return KINDS[request.param]

    def read(self, metastore: Metastore, tested: Kind) -> list[Any]:
        """All units."""
        return tested.of(metastore).read().metadata_types(ALL).execute()

    def owners(self, metastore: Metastore, tested: Kind) -> str:
        """The owners of all units, sorted and put together."""
        return "".join(sorted(unit.owner or "-" for unit in self.read(metastore, tested)))

    def test_nothing_written_reads_as_nothing(self, metastore: Metastore, tested: Kind) -> None:
        """No units, in all columns, and no version."""
        rows = tested.of(metastore).read().metadata_types(ALL).to_arrow()
        assert rows.num_rows == 0
        assert rows.schema.names == list(column_names(tested.definition.unit_type))
        assert tested.of(metastore).metadata.version == 0

    def test_every_field_returns_as_it_was_written(self, metastore: Metastore, tested: Kind) -> None:
        """All columns are set, with values at the edges of their types; and all but the keys unset."""
        full, bare = tested.full(), tested.unit("bare")
        assert all(value is not None for value in full.to_columns().values())
        tested.of(metastore).modify().overwrite([full, bare]).execute()
        assert sorted(self.read(metastore, tested), key=repr) == sorted([full, bare], key=repr)

    def test_each_column_can_be_read_alone(self, metastore: Metastore, tested: Kind) -> None:
        """Whatever its type, and whether manifests or files answer."""
        full = tested.full()
        tested.of(metastore).modify().overwrite([full]).execute()
        for name, value in full.to_columns().items():
            [found] = tested.of(metastore).read().metadata_types(ALL).columns(name).execute()
            assert {k: v for k, v in found.to_columns().items() if v is not None} == {name: value}

    def test_arrow_goes_in_as_it_came_out(self, metastore: Metastore, tested: Kind) -> None:
        """What a read gives can be written again; an unknown column is refused."""
        component = tested.of(metastore)
        component.modify().overwrite([tested.full(), tested.unit("a")]).execute()
        rows = component.read().metadata_types(ALL).to_arrow()
        component.modify().purge()
        component.modify().overwrite(rows).execute()
        assert sorted(self.read(metastore, tested), key=repr) == sorted([tested.full(), tested.unit("a")], key=repr)
        with pytest.raises(InvalidRequestError, match="unknown"):
            component.modify().overwrite(pa.table({"unknown": ["a"]}))

    def test_metadata_types_choose(self, metastore: Metastore, tested: Kind) -> None:
        """Its own type, or ALL; one that the component never has is refused as in Drill, and so is none at all."""
        component = tested.of(metastore)
        component.modify().overwrite([tested.unit("a")]).execute()
        assert component.read().metadata_types(tested.own).execute() == [tested.unit("a")]
        others = {MetadataType.VIEW, MetadataType.MATERIALIZED_VIEW, MetadataType.TABLE} - {tested.own}
        for other in others:
            with pytest.raises(InvalidRequestError, match=f"has no metadata of type {other}; it has .*{tested.own}"):
                component.read().metadata_types(ALL, other)
        with pytest.raises(InvalidRequestError, match="metadata_types"):
            component.read().execute()

    def test_filters_and_unknown_columns(self, metastore: Metastore, tested: Kind) -> None:
        """Filters over any scalar column; what does not fit is refused."""
        component = tested.of(metastore)
        component.modify().overwrite([tested.unit(n, owner=n, lastModifiedTime=ord(n)) for n in "abc"]).execute()
        read = component.read().metadata_types(ALL).filter(f"{tested.name_column} != 'b' and lastModifiedTime > 97")
        assert [unit.owner for unit in read.execute()] == ["c"]
        with pytest.raises(InvalidRequestError, match="unknown column"):
            component.read().filter("noSuchColumn = 1")
        with pytest.raises(InvalidRequestError, match="'noSuchColumn'"):
            component.read().columns("noSuchColumn")
        chosen = component.read().metadata_types(ALL).columns([tested.name_column, "owner"], "lastModifiedTime")
        assert chosen.to_arrow().column_names == [tested.name_column, "owner", "lastModifiedTime"]
        with pytest.raises(InvalidRequestError, match="at least one"):
            component.read().columns([])

    def test_a_transaction_is_one_version_and_the_later_operation_wins(
        self, metastore: Metastore, tested: Kind
    ) -> None:
        """Overwrites and deletes in their order, as one snapshot."""
        component = tested.of(metastore)
        component.modify().overwrite([tested.unit(n, owner=n) for n in "abc"]).execute()
        modify = component.modify().delete(f"{tested.name_column} in ('a', 'b')")
        modify.overwrite([tested.unit("b", owner="B"), tested.unit("d", owner="D")]).delete(
            f"{tested.name_column} = 'd'"
        )
        modify.execute()
        assert self.owners(metastore, tested) == "Bc"
        assert len(component.metadata.history()) == 2

    def test_nothing_to_do_makes_no_version(self, metastore: Metastore, tested: Kind) -> None:
        """No operation, no unit, a filter that matches nothing."""
        component = tested.of(metastore)
        version = component.modify().overwrite([tested.unit("a")]).execute()
        assert component.modify().execute() == version
        assert component.modify().overwrite([]).execute() == version
        assert component.modify().delete(f"{tested.name_column} = 'other'").execute() == version

    def test_delete_takes_partition_columns_and_whole_types_only(self, metastore: Metastore, tested: Kind) -> None:
        """Its own type or ALL; another's units fill no partition here."""
        component = tested.of(metastore)
        component.modify().overwrite([tested.unit("a"), tested.unit("b")]).execute()
        component.modify().delete(f"{tested.name_column} = 'a'", tested.own).execute()
        component.modify().delete(f"{tested.name_column} = 'b'", ALL).execute()
        assert self.read(metastore, tested) == []
        with pytest.raises(InvalidRequestError, match="SEGMENT"):
            component.modify().delete(f"{tested.name_column} = 'a'", MetadataType.SEGMENT)
        # Conditions that are always true, or never, are about their column all the same.
        for text in ("owner = 'me'", "lastModifiedTime != 99999999999999999999"):
            with pytest.raises(InvalidRequestError, match="partition columns only"):
                component.modify().delete(text)

    def test_if_version_commits_on_that_version_only(self, metastore: Metastore, tested: Kind) -> None:
        """Compare-and-set; with ``within``, others may have changed other partitions."""
        component = tested.of(metastore)
        first = component.modify().overwrite([tested.unit("a", owner="a")]).execute(if_version=0)
        component.modify().overwrite([tested.unit("b", owner="b")]).execute()
        with pytest.raises(ConflictError):
            component.modify().overwrite([tested.unit("a", owner="x")]).execute(if_version=first)
        within = f"{tested.name_column} = 'a'"
        component.modify().overwrite([tested.unit("a", owner="A")]).execute(if_version=first, within=within)
        assert self.owners(metastore, tested) == "Ab"

    @pytest.mark.parametrize("name", ["", "..", "a/../b", "a\0b", "x" * 256])
    def test_a_name_that_cannot_be_a_folder_is_refused(
        self, metastore: Metastore, tested: Kind, tmp_path: Path, name: str
    ) -> None:
        """Before anything is written, not even the good unit beside it."""
        with pytest.raises(InvalidRequestError):
            tested.of(metastore).modify().overwrite([tested.unit("good"), tested.unit(name)]).execute()
        assert not list(tmp_path.rglob("*.parquet"))

    @pytest.mark.parametrize("position", [0, 1, 2])
    def test_a_null_partition_key_is_refused(self, metastore: Metastore, tested: Kind, position: int) -> None:
        """The message names the column."""
        unit_type = tested.definition.unit_type
        column = unit_type.partition_columns[position]
        attribute = next(c.attribute for c in columns_of(unit_type) if c.name == column)
        with pytest.raises(InvalidRequestError, match=column):
            tested.of(metastore).modify().overwrite([dataclasses.replace(tested.unit("a"), **{attribute: None})])

    def test_versions_are_one_line_that_can_be_travelled(
        self, metastore: Metastore, tested: Kind, now: SimpleNamespace
    ) -> None:
        """Each version reads as it was, by its id and by its time; purge keeps them; an expired one is not found."""
        component = tested.of(metastore)
        written = []
        for n in range(3):
            written.append(component.modify().overwrite([tested.unit("a", lastModifiedTime=n)]).execute())
            now.ms += 1_000
        component.modify().purge()
        assert [v.version for v in component.metadata.history()][1:] == written[::-1]
        read = component.read().metadata_types(ALL)
        assert [[u.last_modified_time for u in read.at(v).execute()] for v in written] == [[0], [1], [2]]
        times = [v.timestamp for v in component.metadata.history()]
        assert [u.last_modified_time for u in read.as_of(times[2]).execute()] == [1]
        component.expiration.expire()
        with pytest.raises(NotFoundError):
            read.at(written[0]).execute()
        assert self.read(metastore, tested) == []


class TestOnFileSystem(EveryComponent):
    """The default catalog, whose files PyIceberg reads too."""

    def test_pyiceberg_reads_the_same_rows(
        self,
        metastore: Metastore,
        tested: Kind,
        tmp_path: Path,
        iceberg_table: Callable[[Path], StaticTable],
        as_rows: Callable[[pa.Table], list[str]],
    ) -> None:
        """The schema has the unit's columns with ids from 1, in order; the spec its partition columns."""
        component = tested.of(metastore)
        component.modify().overwrite([tested.full(), tested.unit("a")]).execute()
        component.modify().overwrite([tested.unit("a", owner="new")]).execute()
        theirs = iceberg_table(tmp_path / "metastore" / tested.definition.name)
        assert as_rows(theirs.scan().to_arrow()) == as_rows(component.read().metadata_types(ALL).to_arrow())
        unit_type = tested.definition.unit_type
        assert theirs.schema().as_struct() == iceberg_schema(unit_type).as_struct()
        assert [field.name for field in theirs.spec().fields] == list(unit_type.partition_columns)
        assert theirs.spec().fields == partition_spec(unit_type).fields
        assert [f.field_id for f in theirs.schema().fields] == list(range(1, len(columns_of(unit_type)) + 1))


def test_materialized_views_have_drills_columns() -> None:
    """Names, order and types of Drill's own unit; what we know beside them stands in ``additionalMetadata``."""
    assert [(c.name, c.type.value) for c in columns_of(MATERIALIZED_VIEWS.unit_type)] == [
        ("storagePlugin", "string"),
        ("workspace", "string"),
        ("name", "string"),
        ("owner", "string"),
        ("sql", "string"),
        ("schema", "string"),
        ("fields", "string"),
        ("dataLocation", "string"),
        ("workspaceSchemaPath", "list<string>"),
        ("refreshStatus", "string"),
        ("lastRefreshTime", "long"),
        ("lastModifiedTime", "long"),
        ("additionalMetadata", "string"),
    ]
    assert MATERIALIZED_VIEWS.unit_type.partition_columns == ("storagePlugin", "workspace", "name")
