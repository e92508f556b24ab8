"""Facts in a data file's bytes are those of the rows beside them, for units of any shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.expressions import AlwaysTrue

from metastore.model.bounds.embedded_columns import EmbeddedBatches
from metastore.model.bounds.embedded_facts import FactBatches
from metastore.model.bounds.embedded_place import EmbeddedPlace
from metastore.model.bounds.embedding import embed_partitions
from metastore.model.bounds.portion_columns import PortionColumns
from metastore.model.bounds.unit_facts import FACTS, columns_for, facts_of_rows
from metastore.model.mapping.row_test import RowTest
from metastore.model.mapping.rows import to_arrow
from metastore.model.statistics_json import holder_json
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType, Statistic

LOWER = (MetadataType.FILE, MetadataType.ROW_GROUP)
TIMES = st.sampled_from([None, 0, 1_700_000_000_123, -5, 2**62, -(2**62)])
NANOS = st.sampled_from([0, 1_700_000_000_123_456_789, 2**63 - 1, -1])
TEXTS = st.sampled_from([None, "", "-", "=", "/lake/t", "/lake/t/ä=1"])
INEXACT = '{"statisticsValue":{"java.lang.Long":7},"statisticsKind":{"name":"rowCount"}}'
UNREADABLE = '{"statisticsValue":{"java.lang.Double":"NaN"},"statisticsKind":{"name":"length"}}'


@st.composite
def units(draw: st.DrawFn, key: str = "k") -> list[TableMetadataUnit]:
    """Units of one partition in any order: as ANALYZE and Drill write them, and with whatever they would not write."""

    def unit(kind: str | None, **values: Any) -> TableMetadataUnit:
        holders = [
            holder_json(name, draw(numbers))
            for name, numbers in (
                (Statistic.ROW_COUNT, st.sampled_from([0, 7, 2**40])),
                (Statistic.LENGTH, st.sampled_from([0, 2**40])),
                (Statistic.START, st.sampled_from([4, 2**40])),
                (Statistic.MODIFICATION_TIME_NANOS, NANOS),
            )
            if draw(st.booleans())
        ]
        holders += draw(st.sampled_from([[], [], [INEXACT], [UNREADABLE]]))
        return TableMetadataUnit(
            storage_plugin="dfs",
            workspace="tmp",
            table_name="t",
            metadata_key=key,
            metadata_type=kind,
            location=draw(TEXTS),
            last_modified_time=draw(TIMES),
            metadata_statistics=draw(st.sampled_from([tuple(holders), tuple(holders), None])),
            column=draw(st.sampled_from([None, None, "`dir0`"])),
            **values,
        )

    found = []
    for number in range(draw(st.integers(1, 3))):
        name = f"ä{number % draw(st.sampled_from([1, 4, 4]))}.parquet"
        path = f"/lake/t/{name}"
        identifier = draw(st.sampled_from([f"t/{name}", name, "other", path, ""]))
        found.append(unit("FILE", path=path, metadata_identifier=identifier))
        for index in draw(st.lists(st.sampled_from([None, 0, 1]), max_size=2)):
            own = draw(st.sampled_from([f"{identifier}/{index}", "else"]))
            of = draw(st.sampled_from([path, path, "/gone", None]))
            found.append(unit("ROW_GROUP", path=of, metadata_identifier=own, row_group_index=index))
    for kind in draw(st.lists(st.sampled_from(["SEGMENT", "PARTITION", "TABLE", "NEW", None]), max_size=3)):
        held = draw(st.sampled_from([None, (), ("/lake/a", "/lake/b")]))
        values = draw(st.sampled_from([None, ("1",), (None,)]))
        identifier = draw(st.sampled_from(["a", "a/b"]))
        found.append(
            unit(kind, path=draw(TEXTS), metadata_identifier=identifier, locations=held, partition_values=values)
        )
    return draw(st.permutations(found))


def sorted_rows(tables: Sequence[pa.Table]) -> list[str]:
    """Rows in an order that depends on their content alone."""
    return sorted(repr(row) for table in tables for row in table.to_pylist())


@given(
    some=st.lists(st.sampled_from("kl").flatmap(units), min_size=1, max_size=3),
    wanted=st.lists(st.sampled_from(FACTS.names), min_size=1, unique=True),
)
def test_facts_of_bytes_are_those_of_rows(some: list[list[TableMetadataUnit]], wanted: list[str]) -> None:
    """Any units, any selection of facts, and several partitions together."""
    batches = FactBatches(wanted)
    expected = []
    partitions = [to_arrow(TableMetadataUnit, own) for own in some]
    for own, rows, written in zip(some, partitions, embed_partitions(partitions), strict=True):
        assert written is not None
        if written.has_facts:
            key = (own[0].storage_plugin, own[0].workspace, own[0].table_name, own[0].metadata_key)
            batches.add(written.at(5), pa.py_buffer(written.content), key)
            expected.append(facts_of_rows(rows.select(columns_for(wanted)), wanted))
    assert sorted_rows(batches.tables(RowTest(AlwaysTrue()))) == sorted_rows(expected)


@given(own=units())
def test_units_with_facts_only_do_not_change_what_planning_sees(own: list[TableMetadataUnit]) -> None:
    """Segments and partitions are neither files nor row groups."""
    lower = [unit for unit in own if unit.metadata_type in LOWER]
    planned: list[list[PortionColumns]] = []
    for each in (own, lower):
        [written] = embed_partitions([to_arrow(TableMetadataUnit, each)])
        assert written is not None
        batches = EmbeddedBatches(())
        assert batches.add(written.at(0), pa.py_buffer(written.content))
        planned.append(batches.portions())
    mine, other = (
        [
            (
                [each.paths.to_pylist() for each in one.files],
                [(g.files.tolist(), g.numbers.tolist()) for g in one.row_groups],
            )
            for one in portions
        ]
        for portions in planned
    )
    assert mine == other


def test_units_without_identifier_have_no_facts() -> None:
    """Lists read them from their rows; planning has its columns all the same."""
    file = TableMetadataUnit(metadata_type="FILE", path="/a", metadata_identifier="a")
    for other in (
        TableMetadataUnit(metadata_type="ROW_GROUP", path="/a"),
        TableMetadataUnit(metadata_type="SEGMENT", path="/a", metadata_identifier="a", last_modified_time=2**63 - 1),
    ):
        [written] = embed_partitions([to_arrow(TableMetadataUnit, [file, other])])
        assert written is not None
        assert not written.has_facts
        place = written.at(7)
        assert EmbeddedPlace.from_bytes(place.to_bytes()) == place
