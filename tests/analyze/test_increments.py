"""Increments end where a run over everything does: whatever changed, in every format, and whatever was asked before."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.lake_folder import Lake

from metastore.analyze.request import AnalyzeRequest
from metastore.analyze.result import AnalyzeResult
from metastore.analyze.run import analyze
from metastore.analyze.states import StoredTableState
from metastore.analyze.tasks.chunks import Limits
from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.engines.engine import LocalEngine
from metastore.model.identity import TableInfo
from metastore.model.vocabulary import MetadataType
from metastore.sources.source_table import SourceTable

TABLE = TableInfo("dfs", "tmp", "t")
FILES = ["a", "b", "p/a", "p/b", "p/c", "p/q/a", "r=1/a", "r=2/s=x/a", "x=3/a"]
CONTENTS: list[dict[str, Any]] = [
    {"x": [1, 2], "c": ["k", "k"]},
    {"x": [2], "c": [None]},
    {"c": ["m"], "x": [2.5], "y": [dt.datetime(2020, 1, 1)]},
    {"x": pa.array([], pa.int64())},
    {"x": [None, 7], "st": [{"a": 1}, None]},
    {"x": ["text"], "c": ["k"]},
    {"n": pa.array([1_500, 1_500], pa.timestamp("ns")), "f": [-0.0, 0.0]},
]
FLAT = [0, 1, 2, 5]
"""The contents that every format can hold."""

STEP = st.dictionaries(
    st.sampled_from(FILES), st.none() | st.sampled_from(range(len(CONTENTS))), min_size=1, max_size=4
)
LEVELS = ["SEGMENT", "PARTITION", "FILE", "ROW_GROUP"]
REQUESTS = st.builds(
    AnalyzeRequest,
    columns=st.sampled_from([None, [], ["x"], ["x", "c"]]),
    level=st.sampled_from(["TABLE", *LEVELS]),
    statistics=st.sampled_from([False, False, True, ["x"], ["c"]]),
)
MAKERS = st.sampled_from(
    [
        Limits(),
        Limits(stored_bytes=5_000),
        Limits(stored_bytes=0),
        Limits(stored_bytes=0, driver_rows=1),
        Limits(surveyed=(1, 0, 0)),
        Limits(surveyed=(1, 0, 0), directory_files=(1, 2)),
    ]
)
"""Who makes segments anew, tasks or the driver, by the limits that say so."""

NUMBERS = count()
DEFAULTS = Settings.from_mapping({}, environ={})
"""Read once: that takes longer than an ANALYZE of a few files."""


class Kept:
    """A table that is analyzed again and again, beside tables of metadata that know nothing of before."""

    def __init__(self, folder: str, lake: Lake, engine: LocalEngine) -> None:
        self._folder = folder
        self._engine = engine
        self._source = SourceTable(TABLE, str(lake.root))
        self.metastore = self.fresh()

    def fresh(self) -> Metastore:
        """An empty metastore."""
        place = replace(DEFAULTS.iceberg, base_path=self._folder, relative_path=f"m{next(NUMBERS)}")
        return Metastore.open(replace(DEFAULTS, iceberg=place))

    def analyze(
        self, request: AnalyzeRequest, metastore: Metastore | None = None, limits: Limits | None = None
    ) -> AnalyzeResult:
        """ANALYZE, in the kept metastore unless another is given."""
        return analyze((metastore or self.metastore).tables, self._source, self._engine, request, limits=limits)

    def units(self, metastore: Metastore | None = None) -> pa.Table:
        """All units of a metastore."""
        return (metastore or self.metastore).tables.read().metadata_types(MetadataType.ALL).to_arrow()

    def request_of_all(self) -> AnalyzeRequest:
        """A request for all that the kept metadata holds."""
        read = self.metastore.tables.read().metadata_types(MetadataType.TABLE)
        [unit] = read.to_arrow().to_pylist()
        describing = StoredTableState.of(unit["additionalMetadata"]).describing
        if describing is None:
            return AnalyzeRequest(columns=unit["interestingColumns"])
        described = True if describing.columns is None else [f"`{path[0]}`" for path in describing.columns]
        return AnalyzeRequest(columns=unit["interestingColumns"], statistics=described, sample=describing.percent)


def change(lake: Lake, step: dict[str, int | None], suffix: str, contents: Sequence[Any] = CONTENTS) -> None:
    """Write and remove files."""
    for name, content in step.items():
        path = f"{name}.{suffix}"
        if content is not None:
            lake.write(path, contents[content])
        elif (lake.root / path).exists():
            lake.remove(path)


def assert_as_fresh(kept: Kept, level: MetadataType | str, as_units: Callable[[pa.Table], list[str]]) -> None:
    """The kept units are those of a first run for the same."""
    with kept.fresh() as fresh:
        kept.analyze(replace(kept.request_of_all(), level=level), fresh)
        assert as_units(kept.units()) == as_units(kept.units(fresh))


# A schema that comes between two files of another one, and the second of these comes last.
@example(steps=[{"p/a": 0, "p/b": 2}, {"p/c": 0}], level="FILE", makers=Limits())
@settings(max_examples=30)
@given(steps=st.lists(STEP, min_size=2, max_size=4), level=st.sampled_from(LEVELS), makers=MAKERS)
def test_increments_end_where_a_fresh_run_does(
    new_lake: Callable[[Path], Any],
    as_units: Callable[[pa.Table], list[str]],
    steps: list[Any],
    level: str,
    makers: Limits,
) -> None:
    """After any sequence of files added, changed and removed the units are those of a first run over the same files."""
    with TemporaryDirectory() as folder, LocalEngine(1) as engine:
        lake = new_lake(Path(folder) / "lake")
        kept = Kept(folder, lake, engine)
        for step in steps:
            change(lake, step, "parquet")
            kept.analyze(AnalyzeRequest(level=level), limits=makers)
            assert_as_fresh(kept, level, as_units)


# A column that was described is not among those that are analyzed from now on.
@example(
    steps=[
        ({}, AnalyzeRequest(columns=[], level="FILE", statistics=["c"])),
        ({}, AnalyzeRequest(columns=["x"], level="TABLE", statistics=True)),
    ],
    makers=Limits(),
)
@settings(max_examples=15)
@given(steps=st.lists(st.tuples(st.just({}) | STEP, REQUESTS), min_size=2, max_size=4), makers=MAKERS)
def test_other_requests_end_where_a_fresh_run_does(
    new_lake: Callable[[Path], Any],
    as_units: Callable[[pa.Table], list[str]],
    steps: list[Any],
    makers: Limits,
) -> None:
    """Another level, other columns and statistics, with files changing meanwhile or not."""
    with TemporaryDirectory() as folder, LocalEngine(1) as engine:
        lake = new_lake(Path(folder) / "lake")
        lake.write("z.parquet", CONTENTS[0])  # so that every column that is asked for exists
        kept = Kept(folder, lake, engine)
        for step, request in steps:
            change(lake, step, "parquet")
            kept.analyze(request, limits=makers)
            assert_as_fresh(kept, request.level, as_units)


@pytest.mark.parametrize("suffix", ["orc", "avro", "csv", "tsv", "json"])
@settings(max_examples=3)
@given(data=st.data())
def test_increments_of_other_formats(
    new_lake: Callable[[Path], Any], as_units: Callable[[pa.Table], list[str]], suffix: str, data: st.DataObject
) -> None:
    """Files without footers: what was asked later is read later, and the units are those of a first run."""
    contents = st.none() | st.sampled_from(FLAT)
    step = st.dictionaries(st.sampled_from(FILES), contents, max_size=4)
    with TemporaryDirectory() as folder, LocalEngine(1) as engine:
        lake = new_lake(Path(folder) / "lake")
        lake.write(f"z.{suffix}", CONTENTS[0])
        kept = Kept(folder, lake, engine)
        for _ in range(data.draw(st.integers(2, 3))):
            change(lake, data.draw(step), suffix)
            request = data.draw(REQUESTS)
            kept.analyze(request)
            assert_as_fresh(kept, request.level, as_units)
