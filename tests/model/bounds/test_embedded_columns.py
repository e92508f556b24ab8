"""Columns in a data file say what the JSON beside them says, whatever the statistics, and damage is an error."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_statistics import VALUES, containers, told

from metastore.errors import FormatError
from metastore.model.bounds.embedded_columns import EmbeddedBatches
from metastore.model.bounds.embedded_place import (
    EmbeddedContent,
    EmbeddedPlace,
    PackedSchema,
    pack_batch,
    unpack_content,
)
from metastore.model.bounds.embedding import embed_partitions
from metastore.model.bounds.fact_columns import KIND
from metastore.model.bounds.portion_columns import PortionColumns
from metastore.model.bounds.units import TablePortion
from metastore.model.mapping.rows import to_arrow
from metastore.model.statistics import ColumnStatistics
from metastore.model.statistics_json import holder_json
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType, Statistic

Columns = dict[str, ColumnStatistics | None]
SCHEMAS = (None, '{"type":"tuple_schema","columns":[]}', "{}", "-", "=")


def unit(kind: MetadataType, path: str | None, known: Columns, **values: Any) -> TableMetadataUnit:
    """A unit of the segment ``k``."""
    return TableMetadataUnit(
        storage_plugin="dfs",
        workspace="tmp",
        table_name="t",
        metadata_key="k",
        metadata_type=kind.value,
        path=path,
        columns_statistics={name: one.to_json() for name, one in known.items() if one is not None},
        **values,
    )


def file(number: int, known: Columns, **values: Any) -> TableMetadataUnit:
    """A FILE unit."""
    name = f"{number}.parquet"
    return unit(MetadataType.FILE, f"/k/{name}", known, metadata_identifier=f"k/{name}", **values)


def row_group(number: int, of: int, known: Columns, **values: Any) -> TableMetadataUnit:
    """A ROW_GROUP unit; files beyond those of the segment are none."""
    identifier = f"k/{of}.parquet/{number}"
    index = {"row_group_index": number}
    return unit(MetadataType.ROW_GROUP, f"/k/{of}.parquet", known, metadata_identifier=identifier, **index, **values)


def exact(values: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
    """Decimals as fractions: how many zeros one ends with depends on those that it was decoded with."""
    if values is None:
        return None
    return tuple(Fraction(one) if isinstance(one, Decimal) else one for one in values)


def said(portion: PortionColumns, asked: Collection[str]) -> Any:
    """All that columns say, by file: paths, numbers, schemas, statistics, and those of their row groups."""

    def texts(coded: Any) -> list[Any]:
        return [None if code < 0 else coded.names[code] for code in coded.codes]

    def known(columns: Any) -> list[Any]:
        return [texts(columns.schemas), *(list(map(exact, told(columns.by_column[name]))) for name in asked)]

    paths: list[Any] = [path for files in portion.files for path in files.paths.to_pylist()]
    files = [
        row
        for each in portion.files
        for row in zip(
            each.paths.to_pylist(), texts(each.folders), each.sizes, each.times, *known(each.columns), strict=True
        )
    ]
    groups = [
        row
        for each in portion.row_groups
        for row in zip(
            [None if place < 0 else paths[place] for place in each.files],
            each.numbers.tolist(),
            *known(each.columns),
            strict=True,
        )
    ]
    return files, groups


def read(parts: Sequence[EmbeddedContent], asked: Collection[str]) -> tuple[list[bool], list[PortionColumns]]:
    """What stands in ``parts``, and for each whether it has all that is asked for."""
    batches = EmbeddedBatches(asked)
    has_all = [batches.add(part.at(9), pa.py_buffer(part.content)) for part in parts]
    return has_all, batches.portions()


def from_json(units: Sequence[TableMetadataUnit], asked: Collection[str]) -> PortionColumns:
    """The same columns, of JSON."""
    return PortionColumns.of(TablePortion(to_arrow(TableMetadataUnit, units)), asked)


@st.composite
def partitions(draw: st.DrawFn) -> list[TableMetadataUnit]:
    """Files and row groups in any order, with statistics of two columns."""
    known = {name: draw(containers(draw(st.sampled_from(sorted(VALUES))))) for name in ("`a`", "`b`.`c`")}
    numbers = st.sampled_from([0, 7, 2**40])

    def columns() -> Columns:
        return {name: draw(st.sampled_from(some)) for name, some in known.items()}

    def values() -> dict[str, Any]:
        holders = [
            holder_json(name, draw(numbers))
            for name in (Statistic.LENGTH, Statistic.MODIFICATION_TIME_NANOS)
            if draw(st.booleans())
        ]
        return {"schema": draw(st.sampled_from(SCHEMAS)), "metadata_statistics": tuple(holders)}

    files = draw(st.integers(1, 4))
    units = [file(number, columns(), **values()) for number in range(files)]
    groups = range(draw(st.integers(0, 4)))
    units += [row_group(number, draw(st.integers(0, files)), columns(), **values()) for number in groups]
    units.append(unit(MetadataType.SEGMENT, "/k", columns(), metadata_identifier="k", column="`dir0`"))
    return draw(st.permutations(units))


@given(some=st.lists(partitions(), min_size=1, max_size=3))
def test_columns_of_data_files_say_what_their_json_says(some: list[list[TableMetadataUnit]]) -> None:
    """Every type, forms that do not fit (they are left to JSON), files together whose columns have other forms."""
    asked = ("`a`", "`b`.`c`", "`never`")
    written = embed_partitions([to_arrow(TableMetadataUnit, units) for units in some])
    assert None not in written
    has_all, found = read([one for one in written if one is not None], asked)
    left = [units for units, has in zip(some, has_all, strict=True) if not has]
    parts = [*found, *(from_json(units, asked) for units in left)]
    together = said(PortionColumns.join(parts), asked)
    apart = [said(from_json(units, asked), asked) for units in some]
    for mine, one_by_one in zip(together, zip(*apart, strict=True), strict=True):
        assert sorted(map(repr, mine)) == sorted(repr(row) for rows in one_by_one for row in rows)


@settings(max_examples=50, deadline=None)
@given(units=partitions())
def test_columns_that_older_releases_wrote_are_read(units: list[TableMetadataUnit]) -> None:
    """They hold files and row groups alone, and no facts."""
    [written] = embed_partitions([to_arrow(TableMetadataUnit, units)])
    assert written is not None
    stored = unpack_content(written.at(0), pa.py_buffer(written.content))
    schema = pa.ipc.read_schema(pa.py_buffer(stored.schema))
    batch = pa.ipc.read_record_batch(stored.content, schema)
    lower = sum(unit.metadata_type in (MetadataType.FILE, MetadataType.ROW_GROUP) for unit in units)
    of_facts = (KIND, "location", "cut", "identifier", "place", "modified", "rowCount", "start", "fileCount", "column")
    names = [name for name in schema.names if name not in (*of_facts, "partitionValues")]
    kept = batch.slice(0, lower).select(names).replace_schema_metadata(schema.metadata)
    older = pack_batch(kept, PackedSchema.of(kept.schema), has_facts=False)
    assert older is not None
    asked = [name for name in ("`a`", "`b`.`c`") if f"={name}" in names]
    mine, others = (read([each], asked) for each in (written, older))
    assert mine[0] == others[0] == [True]
    assert repr(said(mine[1][0], asked)) == repr(said(others[1][0], asked))


def test_forms_of_arrays_are_the_same() -> None:
    """Of plain bounds no form is lost: what tests run over is as JSON gives it."""
    values: Columns = {
        "`n`": ColumnStatistics("BIGINT", -5, 2**63 - 1, nulls=0, non_nulls=4, rows=4),
        "`f`": ColumnStatistics("FLOAT8", -0.0, float("inf"), nans=0),
        "`t`": ColumnStatistics("VARCHAR", "", "\U0001f600"),
    }
    units = [file(0, values), row_group(0, 0, values)]
    [written] = embed_partitions([to_arrow(TableMetadataUnit, units)])
    assert written is not None
    has_all, [found] = read([written], tuple(values))
    assert has_all == [True]
    judge = from_json(units, tuple(values))
    for name in values:
        [mine], [other] = (one.files[0].columns.by_column[name].bounds for one in (found, judge))
        assert type(mine.low) is type(other.low)
        if isinstance(mine.low, type(other.low)) and hasattr(mine.low, "scale"):
            assert np.asarray(mine.low.values).tobytes() == np.asarray(other.low.values).tobytes()  # type: ignore[attr-defined] # numbers have values


def test_a_form_that_arrow_has_not_is_left_to_json() -> None:
    """Bounds beyond 64 bits: the other column is here, and who asks for both reads JSON."""
    known: Columns = {"`n`": ColumnStatistics("BIGINT", 0, 1), "`d`": ColumnStatistics("UINT8", 2**63, 2**64 - 1)}
    [written] = embed_partitions([to_arrow(TableMetadataUnit, [file(0, known)])])
    assert written is not None
    assert read([written], ["`n`"])[0] == [True]
    for asked in (["`d`"], ["`n`", "`d`"], ["`never`"]):
        assert read([written], asked) == ([False], [])


def test_of_wide_tables_the_first_columns_are_here() -> None:
    """What is asked of others is read from JSON."""
    known: Columns = {f"`c{number}`": ColumnStatistics("INT", number, number) for number in range(80)}
    [written] = embed_partitions([to_arrow(TableMetadataUnit, [file(0, known)])])
    assert written is not None
    here = [name for name in known if read([written], [name])[0] == [True]]
    assert len(here) == 64


@pytest.mark.parametrize(
    "units",
    [
        [unit(MetadataType.SEGMENT, "/k", {}, metadata_identifier="k")],
        [unit(MetadataType.FILE, None, {}, metadata_identifier="k/0.parquet")],
        [unit(MetadataType.FILE, "/k/0.parquet", {})],
        [TableMetadataUnit(metadata_type="FILE", path="/0", metadata_identifier="0", columns_statistics={"`a`": "{"})],
    ],
    ids=["no file", "no path", "no identifier", "no statistics"],
)
def test_what_is_no_file_of_a_table_has_no_columns(units: list[TableMetadataUnit]) -> None:
    """The commit goes on as ever, and who reads gets what JSON gives."""
    assert embed_partitions([to_arrow(TableMetadataUnit, units)]) == [None]


@pytest.mark.parametrize("place", range(0, 400, 37))
def test_damage_is_an_error(place: int) -> None:
    """A byte that differs, wherever it is, and an end that is missing."""
    [written] = embed_partitions([to_arrow(TableMetadataUnit, [file(0, {"`n`": ColumnStatistics("BIGINT", 0, 1)})])])
    assert written is not None
    content = bytearray(written.content)
    content[place % len(content)] ^= 4
    for damaged in (bytes(content), written.content[:-1]):
        with pytest.raises(FormatError, match="checksum"):
            EmbeddedBatches(()).add(written.at(0), pa.py_buffer(damaged))


def test_a_place_is_stored_and_read() -> None:
    """One of a later version, or larger than any that is written, is none."""
    place = EmbeddedPlace(2**40, 10, 20, zlib.crc32(b"x"))
    stored = place.to_bytes()
    assert EmbeddedPlace.from_bytes(stored) == place
    assert EmbeddedPlace.from_bytes(b"\x02" + stored[1:]) == place._replace(has_facts=True)
    for other in (None, b"", stored[:-1], b"\x03" + stored[1:], place._replace(size=2**31).to_bytes()):
        assert EmbeddedPlace.from_bytes(other) is None
