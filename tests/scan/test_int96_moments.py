"""Times of INT96 are the moments that they mean, or errors of their column, at every door; never other moments."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import FileFormat
from support.far_times import EPOCH, moment, write_int96
from support.scan_lake import Lake

from metastore.errors import FormatError
from metastore.lake.iceberg.manifests.data_file import open_data_file
from metastore.model.statistics import ColumnStatistics
from metastore.model.vocabulary import MetadataType

TABLE = "dfs.tmp.t"
LAST = EPOCH + 106_751_990
WRAPS = 2**64 // (86_400 * 10**6)
"""After this number of days, Arrow is back at nearly the same moment."""

days = st.one_of(
    st.integers(0, 2**32 - 1),
    st.integers(EPOCH - 700_000, EPOCH + 3_000_000),
    st.integers(EPOCH + WRAPS - 50_000, EPOCH + WRAPS + 50_000),
    st.sampled_from([0, 1, LAST, LAST + 1, LAST + 2, EPOCH, 2**31, 2**32 - 1]),
)
nanoseconds = st.one_of(st.integers(0, 86_400 * 10**9 - 1), st.sampled_from([0, 2**63, 2**64 - 1]))
values = st.lists(st.one_of(st.none(), st.tuples(days, nanoseconds)), min_size=1, max_size=6)


def held(value: tuple[int, int]) -> bool:
    """Whether 64 bits of microseconds have the moment, with a margin of less than two days."""
    return value[0] > 0 and value[1] < 2**63 and moment(value) < (LAST - EPOCH) * 86_400 * 10**6


def read(lake: Lake, columns: list[str], **options: Any) -> dict[str, list[Any]]:
    """The columns of a scan, times as microseconds."""
    rows = lake.scan(columns=columns, **options).to_arrow()
    return {name: _numbers(rows[name]) for name in columns}


def _numbers(column: Any) -> list[Any]:
    flat = pa.compute.list_flatten(column) if pa.types.is_list(column.type) else column
    numbers: list[Any] = flat.cast(pa.int64()).to_pylist()
    return numbers


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(
    written=values,
    group=st.integers(1, 6),
    dictionary=st.booleans(),
    analyzed=st.sampled_from(["no", "auto", "footers"]),
)
def test_a_time_is_its_moment_or_an_error(
    tmp_path_factory: pytest.TempPathFactory, written: list[Any], group: int, dictionary: bool, analyzed: str
) -> None:
    """By a scan, row ids, aggregates, bounds and Iceberg's reader, for files that ANALYZE has read and has not."""
    folder = tmp_path_factory.mktemp("lake")
    lake = Lake(folder)
    if analyzed == "no":
        lake.write("z.parquet", {"at": pa.array([None], pa.timestamp("us")), "i": [0]})
        lake.analyze()
    path = lake.root / "a.parquet"
    how: dict[str, Any] = {"row_group_size": group, "use_dictionary": dictionary}
    write_int96(path, written, {"i": list(range(len(written)))}, **how)
    if analyzed != "no":
        lake.session.analyze(TABLE, bounds=analyzed)
    known: list[int | None] = [None if each is None else moment(each) for each in written]
    reader = open_data_file(pa.OSFile(str(path), "rb"), FileFormat.PARQUET, str(path))
    if all(each is None or held(each) for each in written):
        more: list[int | None] = [None] if analyzed == "no" else []
        assert sorted(read(lake, ["at"])["at"], key=str) == sorted(known + more, key=str)
        assert [row for _, batch in reader.batches(0, len(written), ["at"]) for row in _numbers(batch["at"])] == known
        if analyzed != "no":
            assert read(lake, ["many"])["many"] == known
        times = [each for each in known if each is not None]
        for name, pick in (("min", min), ("max", max)):
            found = lake.scan().aggregate([f"{name}(at)"])[0].cast(pa.int64())[0].as_py()
            assert found == (pick(times) if times else None)
    elif not any(each and moment(each) // (86_400 * 10**6) + EPOCH in range(LAST - 2, LAST + 2) for each in written):
        for row_id in (False,) if analyzed == "no" else (False, True):
            for columns in (["at"], ["i", "at"]):
                with pytest.raises(FormatError, match=r"column at of .*a\.parquet has INT96 times that are no moment"):
                    lake.scan(columns=columns, row_id=row_id).to_arrow()
        with pytest.raises(FormatError, match="column at of"):
            lake.scan().aggregate(["max(at)"])
        with pytest.raises(FormatError, match="column at of"):
            list(reader.batches(0, len(written), ["at"]))
        with pytest.raises(FormatError, match="column at of"):
            list(reader.matching(None, ["at"]))
        assert len(lake.scan(columns=["i"]).to_arrow()) >= len(written)
    for low, high in bounds_of(lake):
        if low is not None and high is not None:
            assert all(each is None or held(each) for each in written)
    lake.session.close()


def bounds_of(lake: Lake) -> list[tuple[Any, Any]]:
    """The bounds of column ``at`` in all files."""
    units = lake.tables.read().metadata_types(MetadataType.FILE).columns("columnsStatistics").to_arrow().to_pylist()
    texts = [dict(unit["columnsStatistics"])["`at`"] for unit in units]
    return [(found.min, found.max) for found in map(ColumnStatistics.from_json, texts)]
