"""Lists of files, row groups and partitions are the same from embedded facts and from the rows of another program."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metastore.components.information_schema import InformationSchema
from metastore.config.settings import Settings
from metastore.errors import FormatError
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.model.statistics_json import holder_json
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import GENERAL_INFO, MetadataType
from metastore.overview.tables import files, segments
from metastore.session import Session, connect

INEXACT = '{"statisticsValue":{"java.lang.Long":7},"statisticsKind":{"name":"rowCount"}}'


def unit(kind: str, key: str, identifier: str | None, **values: Any) -> TableMetadataUnit:
    """A unit of the table ``dfs.tmp.t``."""
    identity: dict[str, Any] = {"storage_plugin": "dfs", "workspace": "tmp", "table_name": "t", "metadata_key": key}
    return TableMetadataUnit(**identity, metadata_type=kind, metadata_identifier=identifier, **values)


def units() -> Iterator[TableMetadataUnit]:
    """Segments of all shapes: nested, with a file twice, with unknown numbers, and one that can have no facts."""
    yield unit("TABLE", GENERAL_INFO, GENERAL_INFO, location="/t")
    for number in range(6):
        key = f"y={number}"
        held = tuple(f"/t/{key}/{file}.parquet" for file in range(number))
        place: dict[str, Any] = {"location": f"/t/{key}", "last_modified_time": 1_700_000_000_000 + number}
        yield unit(
            "SEGMENT", key, key, path=f"/t/{key}", column="`dir0`", locations=held, partition_values=(key,), **place
        )
        yield unit(
            "SEGMENT", key, f"{key}/m", column="`dir1`", locations=held[:1], partition_values=(key, "m"), **place
        )
        yield unit("PARTITION", key, f"{key}/null", column="`p`", partition_values=(None,), locations=())
        for path in (*held, *held[: number // 4]):
            name = path.removeprefix("/t/")
            rows = INEXACT if number == 2 else holder_json("rowCount", number)
            time = holder_json("modificationTimeNanos", 1_700_000_000_000_000_000 + number * 1_000_000)
            yield unit(
                "FILE", key, name, path=path, metadata_statistics=(rows, holder_json("length", 9), time), **place
            )
            for group in range(number % 3):
                numbers = (holder_json("rowCount", group), holder_json("start", 4 + group), holder_json("length", 5))
                of_group: dict[str, Any] = {"row_group_index": group, "metadata_statistics": numbers}
                yield unit("ROW_GROUP", key, f"{name}/{group}", path=path, **of_group, **place)
    yield unit("FILE", "odd", "odd/1", path="/t/odd/1", last_modified_time=3)
    yield unit("ROW_GROUP", "odd", None, path="/t/odd/1", row_group_index=0)


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, Session]]:
    """The table as we write it, and as another program does, which has neither columns nor facts."""
    opened = []
    for number in range(2):
        folder: Path = tmp_path_factory.mktemp("lake")
        given: dict[str, Any] = {
            "drill.metastore.iceberg.location": {"base_path": str(folder), "relative_path": "metastore"},
            "drill.metastore.iceberg.read.small_files": 0,
            "drill.metastore.iceberg.read.part_rows": 20,
        }
        session = connect(Settings.from_mapping(given, environ={}))
        session.metastore.tables.modify().overwrite(list(units())).execute()
        if number:
            rows = session.metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow()
            FileSystemCatalog("other", str(folder / "metastore")).load_table("tables").overwrite(rows)
        opened.append(session)
    yield opened[0], opened[1]
    for session in opened:
        session.close()


TERMS = st.sampled_from(
    [
        "table_name = 't'",
        "metadata_key = 'y=3'",
        "metadata_key in ('y=2', 'odd')",
        "metadata_key > 'y=2'",
        "path = '/t/y=3/1.parquet'",
        "path like '/t/y=4%'",
        "num_rows > 3",
        "num_rows is null",
        "length = 9",
        "last_modified_time is not null",
        "metadata_identifier in ('y=3/1.parquet', 'y=2/0.parquet/1')",
        "last_modified_time > '2023-11-14T22:13:20.003+00:00'",
    ]
)
CONDITIONS = st.none() | st.lists(TERMS, min_size=1, max_size=3).flatmap(
    lambda terms: st.sampled_from([" and ".join(terms), " or ".join(terms), f"not ({' and '.join(terms)})"])
)
NAMES = ("PATH", "NUM_ROWS", "LENGTH", "METADATA_IDENTIFIER", "METADATA_KEY", "LAST_MODIFIED_TIME")


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(["FILES", "ROW_GROUPS"]),
    where=CONDITIONS,
    columns=st.none() | st.lists(st.sampled_from(NAMES), min_size=1, unique=True),
)
def test_lists_are_the_same(
    sessions: tuple[Session, Session], name: str, where: str | None, columns: list[str] | None
) -> None:
    """Any columns, any condition: as one table, and in parts."""
    mine, others = (InformationSchema(session.metastore) for session in sessions)
    found = [sorted(map(repr, each.read(name, columns, where).to_pylist())) for each in (mine, others)]
    parts = (part.batches() for part in mine.parts(name, columns, where))
    found.append(sorted(repr(row) for some in parts for batch in some for row in batch.to_pylist()))
    assert found[0] == found[1] == found[2]
    if where is None:
        kind = {"FILES": "FILE", "ROW_GROUPS": "ROW_GROUP"}[name]
        assert len(found[0]) == sum(unit.metadata_type == kind for unit in units())


def test_partitions_and_lists_for_people_are_the_same(sessions: tuple[Session, Session]) -> None:
    """Directories and values of partitions, and what ``metastore segments`` and ``metastore files`` show."""
    found: list[Any] = []
    for session in sessions:
        partitions = sorted(map(repr, InformationSchema(session.metastore).partitions().to_pylist()))
        lists = [list(files(session, "dfs.tmp.t", segment).files) for segment in (None, "y=3", "y=5", "odd")]
        found.append((partitions, segments(session, "dfs.tmp.t").segments, lists))
    for mine, other in pairwise(found):
        assert mine[:2] == other[:2]
        assert [sorted(map(repr, each)) for each in mine[2]] == [sorted(map(repr, each)) for each in other[2]]
    assert {each.row_groups for each in found[0][2][1]} == {0}
    assert {each.row_groups for each in found[0][2][2]} == {2, 4}


def test_lists_open_no_row(sessions: tuple[Session, Session], opened_files: list[str]) -> None:
    """Only the partition without facts is opened."""
    session, _ = sessions
    opened_files.clear()
    assert InformationSchema(session.metastore).files(["path", "num_rows"]).num_rows == 1 + 15 + 2
    assert len(segments(session, "dfs.tmp.t").segments) == 12
    assert len(opened_files) == 2


def test_damage_is_an_error_that_names_the_file(sessions: tuple[Session, Session]) -> None:
    """The bytes are checked before anything is read from them."""
    read = sessions[0].metastore.tables.read().metadata_types(MetadataType.FILE).columns("path")
    damaged = 0
    for group in read.groups():
        for planned in group.files.planned:
            if planned.columns is not None and planned.columns.has_facts:
                place = planned.columns._replace(checksum=1).to_bytes()
                other = replace(group, files=group.files._replace(planned=(planned._replace(place=place),)))
                with pytest.raises(FormatError, match=re.escape(planned.path)):
                    list(other.facts(["path"]))
                damaged += 1
    assert damaged == 5
