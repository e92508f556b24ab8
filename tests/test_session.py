"""A session: what it prunes with, which engine it takes, what it says of unknown tables, and what it closes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from metastore.config.settings import Settings
from metastore.engines.engine import LocalEngine
from metastore.errors import EngineError, InvalidRequestError, NotFoundError
from metastore.model.identity import TableInfo
from metastore.session import Session, connect

TABLE = "dfs.shop.sales"


class NamedEngine(LocalEngine):
    """A local engine under another name that remembers being closed."""

    name = "spark"  # type: ignore[misc] # the name is what tells it apart
    closed = False

    def close(self) -> None:
        """Close, and remember it."""
        self.closed = True
        super().close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A table of 4 files in 2 directories: ``n`` goes from 0 to 39, ten to a file."""
    for number in range(4):
        _write(tmp_path / "sales" / f"year={2020 + number // 2}" / f"{number}.parquet", number * 10)
    return tmp_path


@pytest.fixture
def settings(folder: Path) -> Callable[..., Settings]:
    """Settings of a metastore and a workspace in the folder, with engine settings given."""

    def make(**engine: Any) -> Settings:
        return Settings.from_mapping(
            {
                "drill.metastore.iceberg.location.base_path": f"{folder}/metastore",
                "drill.metastore.storage.dfs.workspaces.shop.location": str(folder),
                "drill.metastore.engine": engine,
            }
        )

    return make


@pytest.fixture
def session(settings: Callable[..., Settings]) -> Iterator[Session]:
    """A session in which the table was analyzed."""
    with connect(settings()) as opened:
        opened.analyze(TABLE)
        yield opened


def _write(path: Path, start: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": range(start, start + 10)}), path, row_group_size=5)


def _answer(files: list[str], at_least: int) -> list[int]:
    found = ds.dataset(files).to_table(filter=ds.field("n") >= at_least)["n"].to_pylist()
    return sorted(n for n in found if n is not None)


def test_pruned_files_hold_the_answer_whatever_happened_since(session: Session, folder: Path) -> None:
    """One file is new, one has other rows, one is gone: the answer is that of all files, and some are still skipped."""
    data = folder / "sales"
    _write(data / "year=2022" / "new.parquet", 100)
    _write(data / "year=2020" / "0.parquet", 200)
    os.utime(data / "year=2020" / "0.parquet", ns=(0, 1))
    (data / "year=2021" / "3.parquet").unlink()
    pruned = session.prune(TABLE, "n >= 15")
    every = [str(path) for path in data.rglob("*.parquet")]
    assert _answer([file.path for file in pruned.files], 15) == _answer(every, 15)
    assert (len(pruned.unknown), len(pruned.changed), len(pruned.missing)) == (1, 1, 1)
    assert session.prune(TABLE, "n >= 25").files_count.skipped == 1


def test_without_listing_the_metadata_is_trusted(session: Session, folder: Path) -> None:
    """Also where the data is no longer there."""
    for path in (folder / "sales").rglob("*.parquet"):
        path.unlink()
    pruned = session.prune(TABLE, "n >= 35", list_files=False)
    assert [(file.path, file.row_groups) for file in pruned.files] == [(f"{folder}/sales/year=2021/3.parquet", (1,))]
    assert session.prune(TABLE, "n >= 35").files == []


def test_a_table_is_the_same_by_name_and_by_path(session: Session, folder: Path) -> None:
    """Metadata made under the name is found under the path."""
    assert session.prune(folder / "sales", "n >= 35").files == session.prune(TABLE, "n >= 35").files
    assert session.analyze(str(folder / "sales")).status == "up to date"
    assert session.table_info(f"{folder}/sales") == TableInfo("dfs", "shop", "sales")


def test_a_table_of_a_plugin_that_is_not_configured_has_a_name(session: Session) -> None:
    """Metadata that others made can be looked at and dropped, though its data cannot be found from here."""
    assert session.table_info("s3.lake.sales") == TableInfo("s3", "lake", "sales")
    with pytest.raises(NotFoundError, match="unknown storage plugin 's3'"):
        session.source("s3.lake.sales")


def test_an_unknown_table_is_an_error_that_names_the_nearest(session: Session) -> None:
    """When nothing is near, it says what to do."""
    with pytest.raises(
        NotFoundError,
        match=r"dfs\.shop\.sale has not been analyzed; did you mean dfs\.shop\.sales\? .*analyze dfs\.shop\.sale$",
    ):
        session.prune("dfs.shop.sale", "n = 1", list_files=False)
    with pytest.raises(NotFoundError, match="run: metastore analyze"):
        session.prune("dfs.root.other", "n = 1")


def test_a_predicate_that_does_not_fit_is_the_callers_error(session: Session) -> None:
    """An unknown column is named."""
    with pytest.raises(InvalidRequestError, match="unknown column 'm'"):
        session.prune(TABLE, "m = 1")


def test_dropped_metadata_is_gone(session: Session) -> None:
    """Once; the second time there is nothing to drop."""
    assert session.drop_metadata(TABLE) is True
    assert session.tables.requests.tables_metadata() == []
    assert session.drop_metadata(TABLE, if_exists=True) is False
    with pytest.raises(NotFoundError, match="has not been analyzed"):
        session.drop_metadata(TABLE)


@pytest.mark.parametrize(
    ("engine", "taken"),
    [
        ({"spark_threshold_files": 5}, "local"),
        ({"spark_threshold_files": 4}, "spark"),
        ({"spark_threshold_files": 4, "kind": "local"}, "local"),
        ({"spark_threshold_files": 5, "kind": "spark"}, "spark"),
    ],
)
def test_the_engine_is_chosen_by_the_number_of_files_unless_it_is_forced(
    settings: Callable[..., Settings], engine: dict[str, Any], taken: str
) -> None:
    """The table has four files; Spark is made only when it is taken, and the result names the engine."""
    made: list[NamedEngine] = []

    def spark_engine() -> NamedEngine:
        made.append(NamedEngine())
        return made[-1]

    with connect(settings(**engine), spark_engine=spark_engine) as session:
        assert session.analyze(TABLE).engine == taken
        assert len(made) == (taken == "spark")
    assert all(each.closed for each in made)


def test_the_choice_of_an_engine_is_logged(settings: Callable[..., Settings], caplog: pytest.LogCaptureFixture) -> None:
    """With its reason."""
    with caplog.at_level("INFO", "metastore.session"), connect(settings(), spark_engine=NamedEngine) as session:
        session.analyze(TABLE)
    assert caplog.messages == ["engine local: 4 files, and Spark is for 50000 or more"]


def test_a_session_without_spark_does_large_work_itself(settings: Callable[..., Settings]) -> None:
    """Unless the settings insist: then it is an error that says how to get Spark."""
    with connect(settings(spark_threshold_files=0)) as session:
        assert session.analyze(TABLE).engine == "local"
        session.drop_metadata(TABLE)
    with connect(settings(kind="spark")) as session, pytest.raises(EngineError, match=r"metastore\.spark\.connect"):
        session.analyze(TABLE)


def test_a_given_engine_does_everything_and_stays_open(settings: Callable[..., Settings]) -> None:
    """Whatever the settings say; whoever made it closes it."""
    engine = NamedEngine()
    with connect(settings(kind="local"), engine) as session:
        assert session.analyze(TABLE).engine == "spark"
    assert engine.closed is False


def test_nothing_to_do_needs_no_engine(session: Session) -> None:
    """The result names none."""
    result = session.analyze(TABLE)
    assert (result.status, result.engine) == ("up to date", None)


def test_progress_is_told(settings: Callable[..., Settings]) -> None:
    """Footers read, and to read; the last call has all of them."""
    told: list[tuple[int, int]] = []
    with connect(settings()) as session:
        session.analyze(TABLE, on_progress=lambda done, total: told.append((done, total)))
    assert told[-1] == (4, 4)
    assert told == sorted(told)
