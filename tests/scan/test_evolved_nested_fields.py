"""Random evolutions of nested fields of Iceberg tables: WHERE equals filtering the rows of a model, at every door."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from pyiceberg.types import (
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
)
from support.tables_of_kinds import settings_of_kinds

from metastore.session import Session, connect

STRUCTS = ("st", "li.element", "ma.value")
"""Where the evolving structs stand."""


def first_schema() -> Schema:
    """An id, and three structs of a number and a text: alone, in a list, in a map."""
    number = itertools.count(1)

    def struct() -> StructType:
        x, y = NestedField(next(number), "x", IntegerType()), NestedField(next(number), "y", StringType())
        return StructType(x, y)

    def column(name: str, make: Callable[[], IcebergType]) -> NestedField:
        return NestedField(next(number), name, make())

    return Schema(
        column("id", LongType),
        column("st", struct),
        column("li", lambda: ListType(next(number), struct(), element_required=False)),
        column("ma", lambda: MapType(next(number), StringType(), next(number), struct(), value_required=False)),
    )


@dataclass
class Model:
    """The rows by field ids, whatever the names: nested lists, maps and structs of plain values."""

    rows: list[dict[int, Any]] = field(default_factory=list)

    def add(self, schema: Schema, rows: list[dict[str, Any]]) -> None:
        """Add rows that were written by ``schema``."""
        self.rows += [by_ids(schema.as_struct(), row) for row in rows]

    def table(self, schema: Schema) -> pa.Table:
        """The rows as ``schema`` names them now."""
        arrow = schema_to_pyarrow(schema, include_field_ids=False)
        return pa.Table.from_pylist([by_names(schema.as_struct(), row) for row in self.rows], arrow)


def by_ids(type_: IcebergType, value: Any) -> Any:
    """A written value with the ids of struct fields in place of their names."""
    match value, type_:
        case None, _:
            return None
        case _, StructType(fields=fields):
            return {each.field_id: by_ids(each.field_type, value.get(each.name)) for each in fields}
        case _, ListType():
            return [by_ids(type_.element_type, each) for each in value]
        case _, MapType():
            return [(key, by_ids(type_.value_type, each)) for key, each in value]
    return value


def by_names(type_: IcebergType, value: Any) -> Any:
    """A value by ids with the present names; fields that were not there are null."""
    match value, type_:
        case None, _:
            return None
        case _, StructType(fields=fields):
            return {each.name: by_names(each.field_type, value.get(each.field_id)) for each in fields}
        case _, ListType():
            return [by_names(type_.element_type, each) for each in value]
        case _, MapType():
            return [(key, by_names(type_.value_type, each)) for key, each in value]
    return value


def value(chance: Random, type_: IcebergType) -> Any:
    """A value of a type; one of eight is null."""
    if not chance.randrange(8):
        return None
    if isinstance(type_, StructType):
        return {each.name: value(chance, each.field_type) for each in type_.fields}
    if isinstance(type_, ListType):
        return [value(chance, type_.element_type) for _ in range(chance.randrange(3))]
    if isinstance(type_, MapType):
        return [(key, value(chance, type_.value_type)) for key in "kl"[: chance.randrange(3)]]
    return chance.choice(("", "a", "b", "é")) if isinstance(type_, StringType) else chance.randrange(-2, 10)


def fields_of(schema: Schema, place: str) -> tuple[NestedField, ...]:
    """The fields of a struct."""
    struct = schema.find_type(place)
    assert isinstance(struct, StructType)
    return struct.fields


def append(table: Table, path: Path, rows: list[dict[str, Any]]) -> None:
    """Add one file, with the bounds that Iceberg for Java writes: of columns, and of fields of structs.

    PyIceberg's own writer has no bounds of fields, and writes empty lists for null ones.
    """
    schema = table.schema()
    pq.write_table(pa.Table.from_pylist(rows, schema_to_pyarrow(schema)), path)
    metrics: dict[str, Any] = {"lower_bounds": {}, "upper_bounds": {}, "null_value_counts": {}}
    structs = [("st", each) for each in fields_of(schema, "st")]
    for above, each in [("", schema.find_field("id")), *structs]:
        found = [row[above] if above else row for row in rows]
        known = [value[each.name] for value in found if value is not None and value[each.name] is not None]
        metrics["null_value_counts"][each.field_id] = len(rows) - len(known)
        if known and isinstance(each.field_type, PrimitiveType):
            metrics["lower_bounds"][each.field_id] = to_bytes(each.field_type, min(known))
            metrics["upper_bounds"][each.field_id] = to_bytes(each.field_type, max(known))
    entry = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(rows),
        file_size_in_bytes=path.stat().st_size,
        **metrics,
    )
    with table.transaction() as change, change.update_snapshot().fast_append() as files:
        files.append_data_file(entry)


def evolve(chance: Random, table: Table, fresh: Iterator[int]) -> None:
    """Change the fields of one struct: rename, add, drop, swap, widen, or drop one and give its name to a new one."""
    place = chance.choice(STRUCTS)
    struct: Any = table.schema().find_type(place)
    names = [each.name for each in struct.fields]
    kinds = ["rename", "add", "widen", "again"] + (["drop", "swap"] if len(names) > 1 else [])
    kind, name = chance.choice(kinds), chance.choice(names)
    path = (*place.split("."), name)
    with table.update_schema(allow_incompatible_changes=True) as update:
        if kind == "rename":
            update.rename_column(path, f"r{next(fresh)}")
        elif kind == "add":
            update.add_column((*place.split("."), f"n{next(fresh)}"), chance.choice([IntegerType(), StringType()]))
        elif kind in ("drop", "again"):
            update.delete_column(path)
        elif kind == "widen" and isinstance(struct.field_by_name(name).field_type, IntegerType):
            update.update_column(path, LongType())
        elif kind == "swap":
            other = chance.choice([each for each in names if each != name])
            update.rename_column(path, other)
            update.rename_column((*path[:-1], other), name)
    if kind == "again":
        with table.update_schema() as update:
            update.add_column(path, chance.choice([IntegerType(), StringType()]))


def conditions(chance: Random, schema: Schema) -> Iterator[str]:
    """Conditions that DuckDB and Spark read alike, on the struct that has bounds and on ids."""
    for each in fields_of(schema, "st"):
        is_text = isinstance(each.field_type, StringType)
        literal = "'a'" if is_text else str(chance.randint(-2, 9))
        sign = chance.choice(["=", "<>", "<", ">="])
        yield f"st.{each.name} {sign} {literal}"
        yield f"st.{each.name} IS {chance.choice(['', 'NOT '])}NULL AND id >= {chance.randint(0, 5)}"
    yield "st IS NULL OR li IS NULL"


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    """A catalog, as ``prod`` and through the plugin ``lake``."""
    with connect(settings_of_kinds(tmp_path_factory.mktemp("nested"))) as opened:
        opened.catalogs.open("prod").create_namespace("db")
        yield opened


@pytest.fixture(scope="module")
def tmp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where data files lie."""
    return tmp_path_factory.mktemp("files")


_numbers = itertools.count()


# A failing example is not shrunk: each example writes files, so shrinking takes minutes.
@settings(
    max_examples=settings().max_examples // 50,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
@given(seed=st.integers(0, 1 << 32))
def test_where_is_filtering_whatever_became_of_the_fields(session: Session, tmp: Path, seed: int) -> None:
    """By DuckDB over the model; analyzed before the last change, and not analyzed at all; in scans and in SQL."""
    name, fresh, model, chance = f"t{next(_numbers)}", itertools.count(), Model(), Random(seed)
    table = session.catalogs.open("prod").create_table(f"db.{name}", first_schema())
    analyzed_after = chance.randint(0, 3)
    for step in range(4):
        schema = table.schema()
        rows = [
            {"id": step * 2 + place, **{each.name: value(chance, each.field_type) for each in schema.fields[1:]}}
            for place in range(2)
        ]
        append(table, tmp / f"{name}-{step}.parquet", rows)
        model.add(schema, rows)
        if step == analyzed_after:
            session.analyze(f"lake.db.{name}")
        evolve(chance, table, fresh)
    now = session.catalogs.open("prod").load_table(f"db.{name}").schema()
    right = model.table(now)
    with duckdb.connect() as judge:
        judge.register("rows", right)
        for where in ("TRUE", *conditions(chance, now)):
            expected = sorted(judge.sql(f"SELECT id FROM rows WHERE {where}").fetchall())
            whole = {row["id"]: row for row in right.to_pylist()}
            for door in ("lake", "prod"):
                found = session.tables.scan(f"{door}.db.{name}", where).to_arrow().to_pylist()
                assert sorted((row["id"],) for row in found) == expected, (door, where, now)
                assert all(row == whole[row["id"]] for row in found), (door, where, now)
            if where != "TRUE":
                said = session.sql(f"SELECT id FROM prod.db.{name} WHERE {where}").to_pylist()
                assert sorted((row["id"],) for row in said) == expected, (where, now)
