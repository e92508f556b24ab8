"""Schemas: Drill's JSON and back, leaves by path, and one schema for many files."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.errors import FormatError
from metastore.model.tuple_schema import TIME_ZONE, SchemaColumn, TupleSchema, merge, property_name

TYPES = st.sampled_from(["INT", "BIGINT", "DOUBLE", "DATE", "DECIMAL(9, 2)", "STRUCT<`a` INT, `ä.b` DATE>"])
COLUMNS = st.builds(
    SchemaColumn,
    st.sampled_from(["a", "A", "größe.cm", "x`y"]),
    TYPES,
    st.booleans(),
    st.dictionaries(st.sampled_from([TIME_ZONE, "drill.format", "drill.default", "p"]), st.text(), max_size=2),
)
SCHEMAS = st.builds(
    TupleSchema,
    st.lists(COLUMNS, unique_by=lambda column: column.name, max_size=4).map(tuple),
    st.dictionaries(st.text(), st.text(), max_size=2),
)


@given(SCHEMAS)
def test_json_loses_nothing(schema: TupleSchema) -> None:
    """Names, types, modes and properties come back."""
    assert TupleSchema.from_json(schema.to_json()) == schema


def test_the_form_is_drills() -> None:
    """The example of the format comes out as it stands there, and what Drill adds is read."""
    schema = TupleSchema((SchemaColumn("id", "INT", required=True),), {"drill.strict": "true"})
    assert json.loads(schema.to_json()) == {
        "type": "tuple_schema",
        "columns": [{"name": "id", "type": "INT", "mode": "REQUIRED"}],
        "properties": {"drill.strict": "true"},
    }
    drills = (
        '{"type":"tuple_schema","columns":[{"name":"d","type":"DATE","mode":"OPTIONAL","format":"yyyy","default":"1"}]}'
    )
    assert TupleSchema.from_json(drills).columns[0].properties == {"drill.format": "yyyy", "drill.default": "1"}


@pytest.mark.parametrize("text", ["", "[]", "3", '{"columns":[{"name":"a"}]}', '{"type":"map"}'])
def test_what_is_no_schema_is_a_format_error(text: str) -> None:
    """Foreign text is refused with our error."""
    with pytest.raises(FormatError):
        TupleSchema.from_json(text)


def test_leaves_enter_structs_only() -> None:
    """A struct gives a path per field, at any depth; arrays and maps are leaves."""
    schema = TupleSchema(
        (SchemaColumn("a.b", "INT"), SchemaColumn("s", "STRUCT<`x` STRUCT<`y` DATE>, `l` ARRAY<STRUCT<`z` INT>>>"))
    )
    assert list(schema.leaves()) == [
        (("a.b",), "INT"),
        (("s", "x", "y"), "DATE"),
        (("s", "l"), "ARRAY<STRUCT<`z` INT>>"),
    ]


def test_a_leaf_has_properties_of_its_own() -> None:
    """A struct's leaf is in UTC though its neighbour is not."""
    column = SchemaColumn(
        "s", "STRUCT<`t` TIMESTAMP, `u` TIMESTAMP>", properties={property_name(TIME_ZONE, ("s", "t")): "UTC"}
    )
    assert column.leaf_property(TIME_ZONE, ("s", "t")) == "UTC"
    assert column.leaf_property(TIME_ZONE, ("s", "u")) is None


def test_a_column_missing_somewhere_is_optional() -> None:
    """Required is only what every file has and requires; columns keep the order in which they were first seen."""
    a, b = SchemaColumn("a", "INT", required=True), SchemaColumn("b", "INT", required=True)
    merged = merge([TupleSchema((b,)), TupleSchema((a, b))])
    assert [(c.name, c.required) for c in merged.columns] == [("b", True), ("a", False)]


@given(st.lists(SCHEMAS, max_size=4))
def test_every_column_is_in_the_merged_schema(schemas: list[TupleSchema]) -> None:
    """No name is lost, none is doubled, and one schema alone stays as it is."""
    names = [column.name for column in merge(schemas).columns]
    assert names == list(dict.fromkeys(column.name for schema in schemas for column in schema.columns))
    assert all(merge([schema]) == schema for schema in schemas)


def test_files_in_utc_and_not_are_not_called_utc() -> None:
    """A property that files disagree about is dropped."""
    utc, local = (TupleSchema((SchemaColumn("t", "TIMESTAMP", properties=p),)) for p in ({TIME_ZONE: "UTC"}, {}))
    assert merge([utc, utc]).columns[0].properties == {TIME_ZONE: "UTC"}
    assert merge([utc, local]).columns[0].properties == {}
