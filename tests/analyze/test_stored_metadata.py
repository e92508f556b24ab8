"""What an increment reads of the metastore: the table's unit and the segments that changed; others where it must."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.lake_folder import Lake

from metastore.analyze.request import AnalyzeRequest
from metastore.analyze.result import AnalyzeResult
from metastore.analyze.run import analyze
from metastore.analyze.states import StoredTableState
from metastore.components.metastore import Metastore
from metastore.engines.engine import Engine
from metastore.errors import FormatError, StorageError
from metastore.model.identity import TableInfo
from metastore.model.mapping.rows import from_arrow
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import GENERAL_INFO, MetadataType
from metastore.sources.source_table import SourceTable

TABLE = TableInfo("dfs", "tmp", "t")


@pytest.fixture
def run(open_metastore: Callable[..., Metastore], lake: Lake, engine: Engine) -> Callable[..., AnalyzeResult]:
    """ANALYZE of the lake by a metastore just opened, which remembers nothing of earlier ones."""

    def run(**request: Any) -> AnalyzeResult:
        source = SourceTable(TABLE, str(lake.root))
        return analyze(open_metastore().tables, source, engine, AnalyzeRequest(**request))

    return run


@pytest.fixture
def table_unit(open_metastore: Callable[..., Metastore]) -> Callable[[], dict[str, Any]]:
    """The table's unit, as it is stored now."""

    def unit() -> dict[str, Any]:
        [row] = open_metastore().tables.read().metadata_types(MetadataType.TABLE).to_arrow().to_pylist()
        return row

    return unit


@contextmanager
def only(metastore: Metastore, *keys: str) -> Iterator[None]:
    """Meanwhile only these partitions of the table have their files."""
    away = []
    for path in Path(str(metastore.tables.metadata.location)).rglob("*.parquet"):
        key = pq.read_table(path, columns=["metadataKey"])["metadataKey"][0].as_py()
        if key not in (*keys, GENERAL_INFO):
            away.append((path, path.rename(path.with_suffix(".away"))))
    assert away
    try:
        yield
    finally:
        for path, place in away:
            place.rename(path)


def as_a_first_run(metastore: Metastore, run: Any, as_units: Callable[[pa.Table], list[str]]) -> bool:
    """Whether the units are those of a run that knows nothing."""
    kept = as_units(metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow())
    metastore.tables.modify().purge()
    run()
    return kept == as_units(metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow())


@pytest.mark.parametrize(
    ("changed", "removed"),
    [({"b/1": [2, 3]}, ()), ({"d/1": [4]}, ()), ({"b/1": [9], "e/2": [0]}, ()), ({}, ["b/1"]), ({}, ["b/1", "b/2"])],
)
def test_other_segments_are_not_opened(
    metastore: Metastore,
    lake: Lake,
    run: Callable[..., AnalyzeResult],
    as_units: Callable[[pa.Table], list[str]],
    changed: dict[str, list[int]],
    removed: list[str],
) -> None:
    """A segment changed, came, or went: with the files of all others gone, the increment is that of all of them."""
    for name, values in {"a/1": [1, 7], "b/1": [2, 5], "b/2": [3, 3], "c/1": [1, 7]}.items():
        lake.write(f"{name}.parquet", {"x": values})
    run()
    for name, values in changed.items():
        lake.write(f"{name}.parquet", {"x": values})
    for name in removed:
        lake.remove(f"{name}.parquet")
    with only(metastore, "b"):
        assert run().reason is None
    assert as_a_first_run(metastore, run, as_units)


def test_the_others_are_asked_for_what_only_they_know(
    metastore: Metastore, lake: Lake, run: Callable[..., AnalyzeResult], as_units: Callable[[pa.Table], list[str]]
) -> None:
    """All that were known to be the greatest go, so the others are ranked; nothing is written while they cannot be."""
    for number in range(9):
        lake.write(f"{number}/1.parquet", {"x": [number]})
    run()
    for key in ("8", "7", "6"):
        lake.remove(f"{key}/1.parquet")
        with only(metastore, key):
            assert run().segments_removed == 1
    lake.remove("5/1.parquet")
    version = metastore.tables.metadata.version
    with only(metastore, "5"), pytest.raises(StorageError):
        run()
    assert metastore.tables.metadata.version == version
    run()
    lake.remove("4/1.parquet")
    with only(metastore, "4"):
        run()
    assert as_a_first_run(metastore, run, as_units)


def test_a_column_called_like_a_directory_is_told_from_it(
    lake: Lake, run: Callable[..., AnalyzeResult], table_unit: Callable[[], dict[str, Any]]
) -> None:
    """The table's unit cannot say whose column that is, so it keeps no states, and the segments are read."""

    def columns() -> list[tuple[str, str]]:
        return [(column.name, column.type) for column in TupleSchema.from_json(table_unit()["schema"]).columns]

    lake.write("x=1/1.parquet", {"y": [1]})
    lake.write("x=2/1.parquet", {"y": [1], "x": ["text"]})
    run(columns=["y"])
    assert StoredTableState.of(table_unit()["additionalMetadata"]).segments is None
    lake.write("x=1/1.parquet", {"y": [1, 1]})
    run(columns=["y"])
    assert columns() == [("y", "BIGINT"), ("x", "VARCHAR")]
    lake.remove("x=2/1.parquet")
    run(columns=["y"])
    assert columns() == [("y", "BIGINT"), ("x", "INT")]


def test_a_table_unit_without_states_is_not_subtracted_from(
    metastore: Metastore, lake: Lake, run: Callable[..., AnalyzeResult], as_units: Callable[[pa.Table], list[str]]
) -> None:
    """As another program writes it, or an earlier release did: the segments' own units tell which of them changed."""
    for name, value in {"a": 1, "b": 2, "c": 3}.items():
        lake.write(f"{name}/1.parquet", {"x": [value]})
    run()
    units = metastore.tables.read().metadata_types(MetadataType.TABLE).to_arrow()
    at = units.schema.get_field_index("additionalMetadata")
    metastore.tables.modify().overwrite(
        units.set_column(at, units.schema.field(at), pa.nulls(1, pa.string()))
    ).execute()
    lake.write("b/1.parquet", {"x": [2, 2]})
    run()
    assert as_a_first_run(metastore, run, as_units)


def test_a_segment_of_another_program_is_not_subtracted(
    metastore: Metastore, lake: Lake, run: Callable[..., AnalyzeResult], as_units: Callable[[pa.Table], list[str]]
) -> None:
    """Its unit says other things than what the table's unit was made from."""
    for name, values in {"a": [1], "b": [2, 2, 2], "c": [5]}.items():
        lake.write(f"{name}/1.parquet", {"x": values})
    run()
    kept = metastore.tables.read().metadata_types(MetadataType.ALL).filter("metadataKey = 'b'").execute()
    foreign = [
        replace(
            unit,
            additional_metadata=None,
            columns_statistics={
                key: text.replace('{"java.lang.Long":3}', '{"java.lang.Long":1}')
                for key, text in (unit.columns_statistics or {}).items()
            },
        )
        for unit in kept
    ]
    assert foreign != kept
    metastore.tables.modify().overwrite(foreign).execute()
    lake.write("b/1.parquet", {"x": [2, 2]})
    run()
    assert as_a_first_run(metastore, run, as_units)


@pytest.mark.parametrize("changed", ["a", "b"])
def test_a_segment_that_another_program_removed_is_made_anew(
    metastore: Metastore,
    lake: Lake,
    run: Callable[..., AnalyzeResult],
    as_units: Callable[[pa.Table], list[str]],
    changed: str,
) -> None:
    """The table's unit still tells its state, but what it came to can neither be left alone nor subtracted."""
    for name, values in {"a": [1, 4], "b": [2], "c": [0, 5]}.items():
        lake.write(f"{name}/1.parquet", {"x": values})
    run()
    metastore.tables.modify().delete("metadataKey = 'b'", MetadataType.ALL).execute()
    lake.write(f"{changed}/1.parquet", {"x": [3]})
    run()
    assert as_a_first_run(metastore, run, as_units)


def test_as_many_segments_as_before_need_not_be_the_same_ones(
    metastore: Metastore, lake: Lake, run: Callable[..., AnalyzeResult]
) -> None:
    """Another program removed one segment's units and added another's: what the first came to is not subtracted."""
    for name, values in {"a": [1, 4], "b": [2], "c": [0, 5]}.items():
        lake.write(f"{name}/1.parquet", {"x": values})
    run()
    read = metastore.tables.read().metadata_types(MetadataType.ALL).filter("metadataKey = 'b'")
    alien = [replace(unit, metadata_key="z", metadata_identifier="z") for unit in read.execute()]
    metastore.tables.modify().delete("metadataKey = 'b'", MetadataType.ALL).overwrite(alien).execute()
    lake.write("b/1.parquet", {"x": [3]})
    run()
    [unit] = metastore.tables.read().metadata_types(MetadataType.TABLE).execute()
    assert '{"java.lang.Long":5}' in (unit.metadata_statistics or [""])[0]


@pytest.mark.parametrize("lost", ["metadata_statistics", "columns_statistics", "schema", "locations"])
def test_a_segment_of_another_program_that_lacks_figures_is_replaced_or_refused(
    open_metastore: Callable[..., Metastore], lake: Lake, run: Callable[..., AnalyzeResult], lost: str
) -> None:
    """A changed segment is made from its files; an unchanged one would spoil the table's figures, so it is an error."""
    for month in (1, 2, 3):
        lake.write(f"month={month}/a.parquet", {"x": [month]})
    run()
    tables = open_metastore().tables
    segments = from_arrow(TableMetadataUnit, tables.read().metadata_types(MetadataType.ALL).to_arrow())
    own = [unit for unit in segments if unit.metadata_key == "month=1"]
    tables.modify().overwrite(
        [replace(unit, **{lost: None}) if unit.metadata_type == MetadataType.SEGMENT else unit for unit in own]
    ).execute()
    lake.write("month=2/b.parquet", {"x": [7], "y": [1]})
    with pytest.raises(FormatError, match=r"dfs\.tmp\.t: .*'month=1' .*metastore drop-metadata"):
        run()
    lake.write("month=1/b.parquet", {"x": [9], "y": [1]})
    assert run().rows == 5
