"""COMPUTE STATISTICS end to end: what is stored, what is read again, and that it is never taken for more than it is."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from support.lake_folder import Lake

from metastore.analyze.request import AnalyzeRequest
from metastore.analyze.result import AnalyzeResult
from metastore.analyze.run import analyze
from metastore.analyze.tasks.file_rows import DataChunk
from metastore.analyze.tasks.footers import FooterChunk
from metastore.analyze.tasks.segments import SegmentChunk
from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.engines.engine import Capabilities, Engine, LocalEngine
from metastore.errors import EngineError, FormatError, InvalidRequestError
from metastore.model.identity import TableInfo
from metastore.model.statistics import ColumnStatistics
from metastore.model.statistics_json import read_column_holders
from metastore.model.vocabulary import MetadataType
from metastore.scan.pruning.prune import prune
from metastore.sources.database import no_reader
from metastore.sources.source_table import SourceTable

TABLE = TableInfo("dfs", "tmp", "t")


class Watched:
    """An engine that remembers which files were read, and for what."""

    name = "watched"
    capabilities = Capabilities()
    parallelism = 1

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.footers: list[str] = []
        self.data: list[tuple[str, Any]] = []

    def run(self, chunks: Any, task: Any, schema: pa.Schema) -> Any:
        """Remember, and run."""
        for one in chunks:
            chunk = one.footers if isinstance(one, SegmentChunk) else one
            names = [file.name for file in chunk.files]
            if isinstance(chunk, FooterChunk):
                self.footers += names
            elif isinstance(chunk, DataChunk):
                asked = chunk.describing and chunk.describing.columns
                self.data += [(name, asked) for name in names]
        return self._engine.run(chunks, task, schema)

    def close(self) -> None:
        """Nothing of its own to close."""


@pytest.fixture
def watched(engine: Engine) -> Watched:
    """The engine of these tests."""
    return Watched(engine)


@pytest.fixture
def run(metastore: Metastore, lake: Lake, watched: Watched) -> Callable[..., AnalyzeResult]:
    """ANALYZE of the lake; what was read before is forgotten."""

    def run(**request: Any) -> AnalyzeResult:
        watched.footers, watched.data = [], []
        return analyze(metastore.tables, SourceTable(TABLE, str(lake.root)), watched, AnalyzeRequest(**request))

    return run


def holders(metastore: Metastore, kind: MetadataType = MetadataType.TABLE) -> dict[str, dict[str, Any]]:
    """Values of a unit's column statistics by column and name."""
    [row] = metastore.tables.read().metadata_types(kind).to_arrow().to_pylist(maps_as_pydicts="strict")
    return {column.strip("`"): read_column_holders(text) for column, text in row["columnsStatistics"].items()}


def test_statistics_of_the_table_are_those_of_its_rows(
    lake: Lake, run: Callable[..., AnalyzeResult], metastore: Metastore
) -> None:
    """Distinct values over all files, nested columns by path, widths; beside the exact statistics."""
    for number in range(3):
        xs = [n % 40 + number * 20 for n in range(100)]
        rows = {"x": xs, "s": [f"v{n % 7}" if n % 5 else None for n in range(100)], "st": [{"a": n % 3} for n in xs]}
        lake.write(f"d/{number}.parquet", rows)
    run(statistics=True)
    found = holders(metastore)
    table = duckdb.read_parquet(f"{lake.root}/d/*.parquet").project("x, s, st.a AS a")
    for column, name in (("x", "x"), ("s", "s"), ("st`.`a", "a")):
        asked = f"count(DISTINCT {name}), count({name}), avg(strlen({name}::VARCHAR)), min({name})"
        distinct, held, width, low = table.aggregate(asked).fetchall()[0]
        told = found[column]
        assert (told["approx_count_distinct"], told["nonnullrowcount"], told["rowcount"]) == (distinct, held, 300)
        assert told["avg_width"] == (pytest.approx(width) if name == "s" else 8.0)
        assert told["minValue"] == low
    assert "histogram" in found["x"]
    assert "histogram" not in found["s"]
    assert found.pop("dir0")["minValue"] == "d"  # a segment has no bounds of its own directory
    assert found == holders(metastore, MetadataType.SEGMENT)


def test_only_what_is_missing_is_read(lake: Lake, run: Callable[..., AnalyzeResult], watched: Watched) -> None:
    """Statistics read data where there is no sketch, columns read footers, a shallower level reads nothing."""
    for name in ("a/1", "b/1"):
        lake.write(f"{name}.parquet", {"x": [1, 2], "y": [3, 3], "z": [0, 1]})
    run(columns=["x"], level="ROW_GROUP")

    def read() -> tuple[int, list[Any]]:
        return len(watched.footers), watched.data

    run(columns=["x"], statistics=["x"])
    assert read() == (0, [("1.parquet", (("x",),))] * 2)
    run(columns=["x", "y"])
    assert read() == (2, [])
    run(columns=["x", "y"], statistics=["y"])
    assert read() == (0, [("1.parquet", (("y",),))] * 2)
    run(columns=["x", "y"], level="FILE")
    assert read() == (0, [])
    run(columns=["x", "y"], level="ROW_GROUP")
    assert read() == (2, [])
    lake.write("a/2.parquet", {"x": [9], "y": [9], "z": [9]})
    result = run(columns=["x"])
    assert (result.new, result.segments_written, read()) == (1, 1, (1, [("2.parquet", (("x",), ("y",)))]))
    assert run(columns=["x"], statistics=["y"]).status == "up to date"


@pytest.mark.parametrize("type_", ["DECIMAL", "DECIMAL(9)", "DECIMAL(50, 2)"])
def test_declared_decimals_are_read(
    lake: Lake, run: Callable[..., AnalyzeResult], metastore: Metastore, type_: str
) -> None:
    """Whatever SQL lets one leave out, and with more digits than 38."""
    lake.put("a.csv", b"id\n7\n12\n")
    run(schema=f"id {type_}")
    assert holders(metastore)["id"]["upperBound"] == 12


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", b"id,x\n,a\n1,b\n"), ("a.json", b'{"x": "a"}\n{"id": 1, "x": "b"}\n'), ("a.csv", b"x\na\nb\n")],
)
def test_a_declared_not_null_holds(
    lake: Lake, run: Callable[..., AnalyzeResult], metastore: Metastore, name: str, content: bytes
) -> None:
    """An empty field or none, a key or a column that is missing are no value; the metadata stays as it was."""
    lake.put(name, content)
    with pytest.raises(InvalidRequestError, match=r"column id is declared NOT NULL, but \d of 2 rows"):
        run(schema="id INT NOT NULL, x VARCHAR NOT NULL")
    assert metastore.tables.metadata.version == 0
    run(schema="id INT, x VARCHAR NOT NULL")


def test_a_declared_column_is_spelled_as_in_the_header(lake: Lake, run: Callable[..., AnalyzeResult]) -> None:
    """In another case it would be null in all rows; one that the file has not at all may still come."""
    lake.put("a.csv", b"id,name\n1,a\n")
    with pytest.raises(FormatError, match=r"a\.csv.*column NAME is declared.*calls it name"):
        run(schema="id INT, NAME VARCHAR")
    assert run(schema="id INT, name VARCHAR, extra DATE").rows == 1


def test_a_struct_without_fields_has_nothing_to_describe(
    lake: Lake, run: Callable[..., AnalyzeResult], watched: Watched
) -> None:
    """So a file with one is not read again for it when its neighbour is new."""
    lake.put("a.json", b'{"id": 1, "tags": {}}')
    run(statistics=True)
    lake.put("b.json", b'{"id": 2, "tags": {}}')
    watched.data.clear()
    run()
    assert [name for name, _ in watched.data] == ["b.json"]


def test_a_sample_reads_some_row_groups_and_bounds_nothing(
    lake: Lake, run: Callable[..., AnalyzeResult], metastore: Metastore
) -> None:
    """Bounds and counts are still those of all rows, so a predicate on what was not sampled still finds its rows."""
    lake.write("a.parquet", {"x": range(10_000)}, row_group_size=100)
    run(statistics=True, sample=5)
    told = holders(metastore)["x"]
    assert (told["minValue"], told["maxValue"], told["rowcount"]) == (0, 9_999, 10_000)
    assert 8_000 < told["approx_count_distinct"] <= 10_000
    [file] = metastore.tables.read().metadata_types(MetadataType.FILE).to_arrow().to_pylist()
    assert '"rows":500,' in file["additionalMetadata"]
    units = metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow()
    for value in (0, 5_050, 9_999):
        assert prune(f"x = {value}", units).files[0].row_groups == (value // 100,)
    assert run(statistics=True).reason is not None, "all rows tell more than a sample"
    assert holders(metastore)["x"]["approx_count_distinct"] == pytest.approx(10_000, rel=0.13)
    assert run(statistics=True, sample=5).status == "up to date"


def test_requests_that_contradict_themselves_are_refused(run: Callable[..., AnalyzeResult], lake: Lake) -> None:
    """A sample of nothing, a sample for nothing, a format that there is not, and schemas that mean no columns."""
    lake.write("a.parquet", {"x": [1]})
    for request, told in (
        ({"sample": 5}, "name their columns"),
        ({"sample": 0, "statistics": True}, "0 percent"),
        ({"format": "xml"}, "no format"),
        ({"schema": "a"}, "declares no columns"),
        ({"schema": ""}, "declares no columns"),
        ({"schema": "x BIGINT, x DOUBLE"}, "names x more than once"),
        ({"schema": "s STRUCT<`a` INT, `a` INT>"}, "names a more than once"),
        ({"schema": "x ARRAY"}, "ARRAY is no type"),
        ({"schema": "x MAP<VARCHAR>"}, "is no type"),
        ({"schema": "x DECIMAL(77)"}, "1 to 76 digits"),
        ({"schema": "x ARRAY<DECIMAL(3, 5)>"}, "its scale is at most its precision"),
        ({"schema": "a BLOB"}, "BLOB"),
        ({"schema": "x BOOLEAN"}, "files hold BIGINT"),
    ):
        with pytest.raises(InvalidRequestError, match=told):
            run(**request)


def test_a_declared_schema_is_the_tables(lake: Lake, run: Callable[..., AnalyzeResult], metastore: Metastore) -> None:
    """Its columns, its order, its types, in later runs too; statistics take the declared type."""
    lake.write("a.parquet", {"x": pa.array([1], pa.int32()), "y": ["a"], "z": [1]})
    run(schema="y VARCHAR, x BIGINT")
    lake.write("b.parquet", {"x": pa.array([2], pa.int32()), "w": [1]})
    assert run().status == "analyzed"
    [unit] = metastore.tables.requests.tables_metadata()
    columns = [(column["name"], column["type"]) for column in json.loads(unit.schema or "")["columns"]]
    assert columns == [("y", "VARCHAR"), ("x", "BIGINT")]
    known = {key: ColumnStatistics.from_json(text) for key, text in (unit.columns_statistics or {}).items()}
    assert (known["`x`"].type, known["`x`"].max, set(known)) == ("BIGINT", 2, {"`x`", "`y`"})


@pytest.mark.parametrize("suffix", ["csv", "orc", "json"])
def test_pruning_is_right_without_row_groups(
    lake: Lake, run: Callable[..., AnalyzeResult], metastore: Metastore, suffix: str
) -> None:
    """Files are skipped by their statistics, and kept whole."""
    for number in range(3):
        lake.write(f"{number}.{suffix}", {"x": [number * 10, number * 10 + 5]})
    run()
    units = metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow()
    found = prune("x > 8 AND x < 16", units)
    assert [(file.path.rpartition("/")[2], file.row_groups) for file in found.files] == [(f"1.{suffix}", None)]


def test_an_interrupted_run_changes_nothing(lake: Lake, metastore: Metastore, engine: Engine) -> None:
    """Ctrl-C in the middle; the next run does all of it."""
    for number in range(40):
        lake.write(f"{number}.csv", {"x": [number]})

    def interrupt(done: int, total: int) -> None:
        if done > total // 2:
            raise KeyboardInterrupt

    source = SourceTable(TABLE, str(lake.root))
    with pytest.raises(KeyboardInterrupt):
        analyze(metastore.tables, source, engine, AnalyzeRequest(statistics=True), on_progress=interrupt)
    assert metastore.tables.metadata.version == 0
    assert analyze(metastore.tables, source, engine, AnalyzeRequest(statistics=True)).new == 40


def test_concurrent_runs_end_in_one_result(
    lake: Lake, tmp_path: Path, as_units: Callable[[pa.Table], list[str]]
) -> None:
    """Two sessions with different requests, at once, again and again: the metadata is that of both requests."""
    location = {"base_path": str(tmp_path), "relative_path": "shared"}
    settings = Settings.from_mapping({"drill.metastore.iceberg.location": location}, environ={})
    source = SourceTable(TABLE, str(lake.root))
    requests = (AnalyzeRequest(statistics=["x"]), AnalyzeRequest(statistics=["y"]))
    failed: list[BaseException] = []
    for round_ in range(3):
        lake.write(f"d{round_}/a.parquet", {"x": [round_, 1], "y": ["a", "b"]})
        together = threading.Barrier(2)

        def work(request: AnalyzeRequest, together: threading.Barrier = together) -> None:
            try:
                with Metastore.open(settings) as own, LocalEngine(1) as engine:
                    together.wait()
                    analyze(own.tables, source, engine, request)
            except BaseException as error:  # noqa: BLE001 - looked at below
                failed.append(error)

        threads = [threading.Thread(target=work, args=(request,)) for request in requests]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
    other = {"drill.metastore.iceberg.location": {**location, "relative_path": "alone"}}
    alone_settings = Settings.from_mapping(other, environ={})
    with Metastore.open(settings) as shared, Metastore.open(alone_settings) as alone, LocalEngine(1) as engine:
        order = ["x", "y"]
        [unit] = shared.tables.read().metadata_types(MetadataType.TABLE).to_arrow().to_pylist()
        if unit["additionalMetadata"].index("`y`") < unit["additionalMetadata"].index("`x`"):
            order = ["y", "x"]
        analyze(alone.tables, source, engine, AnalyzeRequest(statistics=order))
        every = [each.tables.read().metadata_types(MetadataType.ALL).to_arrow() for each in (shared, alone)]
        assert as_units(every[0]) == as_units(every[1])


def test_without_spark_databases_cannot_be_read() -> None:
    """The error says how to get there."""
    with pytest.raises(EngineError, match=r"metastore\.spark\.connect"):
        no_reader()
