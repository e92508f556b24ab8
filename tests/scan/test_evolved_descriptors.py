"""Random descriptors of Hive over random files: WHERE equals filtering a model's rows, whatever ANALYZE saw."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyarrow import orc

from metastore.analyze.run import analyze
from metastore.components.metastore import Metastore
from metastore.config import Settings
from metastore.engines.engine import LocalEngine
from metastore.errors import NotFoundError
from metastore.model.identity import TableInfo
from metastore.scan.tables import ScannedTables, TableLike
from metastore.sources.hive.columns import HiveColumns
from metastore.sources.hive.source import state_with_columns
from metastore.sources.listing import Listing, list_files
from metastore.sources.source_table import SourceTable

TYPES: Mapping[str, tuple[pa.DataType, Sequence[pa.DataType]]] = {
    "INT": (pa.int32(), [pa.int32()]),
    "BIGINT": (pa.int64(), [pa.int32(), pa.int64()]),
    "DOUBLE": (pa.float64(), [pa.float32(), pa.float64()]),
    "VARCHAR": (pa.string(), [pa.string()]),
}
"""Types of a descriptor, with those of files that Hive reads as them."""

KEYS: Mapping[str, Sequence[Any]] = {
    "INT": (1, 20),
    "VARCHAR": ("1", "x"),
    "DATE": (date(2024, 1, 5), date(2024, 2, 1)),
}
"""Types of the partition column, with two values of each."""

LITERALS = {
    "INT": ("2", "1"),
    "BIGINT": ("2", "1"),
    "DOUBLE": ("2.5", "0.5"),
    "VARCHAR": ("'b'", "'1'"),
    "DATE": ("DATE '2024-01-05'",),
}

NAMES = ("a", "b", "c", "d")


@dataclass
class Place:
    """The source of one table, whose descriptor changes."""

    table: SourceTable

    def source(self, _table: TableLike) -> SourceTable:
        """The table, whatever was asked for."""
        return self.table

    def table_info(self, _table: TableLike) -> TableInfo:
        """Its name."""
        return self.table.table

    def no_metadata(self, table: TableInfo) -> NotFoundError:
        """The error of a table without metadata."""
        return NotFoundError(str(table))


@st.composite
def descriptors(draw: st.DrawFn, before: Mapping[str, str] | None = None) -> dict[str, str]:
    """Columns in order, by name; those that stay of ``before`` keep their types, or get wider ones."""
    names = draw(st.permutations(NAMES))[: draw(st.integers(1, len(NAMES)))]
    wider = {"INT": "BIGINT"}
    found = {}
    for name in names:
        old = (before or {}).get(name)
        new = draw(st.sampled_from(sorted(TYPES) if before is None else ["INT", "BIGINT"]))  # files hold integers there
        found[name] = new if old is None else draw(st.sampled_from([old, wider.get(old, old)]))
    return found


@st.composite
def files(draw: st.DrawFn, columns: Mapping[str, str], key: str) -> tuple[Any, pa.Table]:
    """The partition of one file, and its rows: some of the columns and others, in any order and case."""
    rows = draw(st.integers(0, 3))
    made = {}
    for name in draw(st.permutations((*NAMES, "other"))):
        if draw(st.booleans()):
            arrow = draw(st.sampled_from(TYPES[columns[name]][1])) if name in columns else pa.int32()
            values = st.sampled_from([None, "", "a", "b", "1"] if pa.types.is_string(arrow) else [None, 0, 1, 2, 9])
            spelled = draw(st.sampled_from([name, name.upper()]))
            made[spelled] = pa.array([draw(values) for _ in range(rows)], arrow)
    made["Id"] = pa.array(range(rows), pa.int32())
    return draw(st.sampled_from(KEYS[key])), pa.table(made)


def as_hive_reads(written: pa.Table, columns: Mapping[str, str], value: Any) -> list[dict[str, Any]]:
    """The rows of a file: columns by name in any case, in the descriptor's types, null where the file has none."""
    by_name: dict[str, Any] = {
        name.lower(): column for name, column in zip(written.column_names, written.columns, strict=True)
    }
    made = {
        name: by_name[name].cast(TYPES[type_][0]).to_pylist() if name in by_name else [None] * written.num_rows
        for name, type_ in columns.items()
    }
    ids = by_name["id"].to_pylist()
    return [{**{name: made[name][row] for name in made}, "id": ids[row], "k": value} for row in range(len(ids))]


_numbers = itertools.count()


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Metastore, Path]]:
    """An empty metastore, and a folder."""
    folder = tmp_path_factory.mktemp("hive")
    given = {"drill.metastore.iceberg.location.base_path": f"{folder}/m"}
    with Metastore.open(Settings.from_mapping(given, environ={})) as metastore:
        yield metastore, folder


# A failing example is not shrunk: each example writes files, so shrinking takes minutes.
@settings(max_examples=settings().max_examples // 20, suppress_health_check=list(HealthCheck), phases=[Phase.generate])
@given(data=st.data())
def test_where_is_filtering_whatever_the_descriptor_became(opened: tuple[Metastore, Path], data: st.DataObject) -> None:
    """Columns are renamed, dropped, added, reordered and widened after ANALYZE; the judge is DuckDB over the model."""
    metastore, folder = opened
    name, key = f"t{next(_numbers)}", data.draw(st.sampled_from(sorted(KEYS)))
    of_orc = data.draw(st.booleans())
    place = folder / name
    first = data.draw(descriptors())
    written = data.draw(st.lists(files(first, key), min_size=1, max_size=3))
    for number, (value, table) in enumerate(written):
        (place / f"k={value}").mkdir(parents=True, exist_ok=True)
        path = place / f"k={value}" / f"{number}.{'orc' if of_orc else 'parquet'}"
        if of_orc:
            orc.write_table(table, str(path))
        else:
            pq.write_table(table, path)

    def source(columns: Mapping[str, str]) -> SourceTable:
        kept = HiveColumns((*columns.items(), ("id", "INT")))

        def lister() -> Listing:
            found = list_files(str(place)).files
            return Listing(str(place), [file._replace(mtime_ns=state_with_columns(file, kept)) for file in found])

        return SourceTable(
            TableInfo("hive", "w", name),
            str(place),
            "ORC" if of_orc else "PARQUET",
            partition_columns={"k": key},
            lister=lister,
            columns=kept,
        )

    analyze(metastore.tables, source(first), LocalEngine(1))
    second = data.draw(descriptors(first))
    for columns in (first, second):
        tables = ScannedTables(metastore.tables.backing, Place(source(columns)))
        model = [row for value, table in written for row in as_hive_reads(table, columns, value)]
        types = {**{n: TYPES[t][0] for n, t in columns.items()}, "id": pa.int32()}
        types["k"] = pa.date32() if key == "DATE" else TYPES[key][0]
        right = pa.Table.from_pylist(model, pa.schema(list(types.items())))
        conditions = ["id >= 0"]
        for each, type_ in {**columns, "k": key}.items():
            sign = data.draw(st.sampled_from(["=", "<>", "<", ">="]))
            conditions.append(f"{each} {sign} {data.draw(st.sampled_from(LITERALS[type_]))}")
            conditions.append(f"{each} IS NULL OR id = 1")
        with duckdb.connect() as judge:
            judge.register("rows", right)
            for where in conditions:
                expected = judge.sql(f"SELECT * FROM rows WHERE {where}").to_arrow_table().to_pylist()
                found = tables.scan("hive.w.t", where, right.column_names).to_arrow().to_pylist()
                assert sorted(found, key=repr) == sorted(expected, key=repr), (where, columns, first, written)
