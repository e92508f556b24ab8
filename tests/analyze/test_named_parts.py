"""ANALYZE of named partitions or paths ends where a whole run over the same change does, and looks at nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.lake_folder import Lake

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.model.vocabulary import MetadataType
from metastore.session import Session, connect

FILES = ["a", "b", "k=1/a", "k=1/b", "k=2/a", "k=2/s=x/a", "k=2/s=y/a", "k=10/a", "p/q/a", "p/q/b"]
CONTENTS: list[dict[str, Any]] = [{"x": [1, 2]}, {"x": [7], "y": ["k"]}, {"x": [2.5, None]}, {"z": [True]}]
STEP = st.dictionaries(st.sampled_from(FILES), st.none() | st.sampled_from(range(len(CONTENTS))), min_size=1)
LEVELS = ["PARTITION", "FILE", "ROW_GROUP"]


def open_session(folder: Path, workspace: str = "/") -> Session:
    """A session of the plugin ``lake``, whose table ``lake.w.t`` is the folder ``t`` of the ``workspace``."""
    plugin = {"type": "file", "connection": str(folder), "workspaces.w.location": workspace}
    location = {"base_path": str(folder.parent), "relative_path": f"{folder.name}-metastore"}
    base = {"iceberg.location": location, "engine.kind": "local", "storage.lake": plugin}
    return connect(Settings.from_mapping({"drill.metastore": base}, environ={}))


def units(session: Session) -> pa.Table:
    """All units of the metastore."""
    return session.metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow()


def change(lake: Lake, step: dict[str, int | None]) -> list[str]:
    """Write and remove files; their paths."""
    for name, content in step.items():
        path = f"{name}.parquet"
        if content is not None:
            lake.write(path, CONTENTS[content])
        elif (lake.root / path).exists():
            lake.remove(path)
    return [f"{lake.root}/{name}.parquet" for name in step]


@example(  # a directory above others, without files of its own, when all others have gone
    first={"k=1/b": 0, "p/q/a": 0}, steps=[{"a": None}, {"k=1/b": None}], level="ROW_GROUP", by_path=True
)
@settings(max_examples=15)
@given(first=STEP, steps=st.lists(STEP, min_size=1, max_size=3), level=st.sampled_from(LEVELS), by_path=st.booleans())
def test_a_part_ends_where_a_whole_run_does(
    first: dict[str, int | None],
    steps: list[dict[str, int | None]],
    level: str,
    by_path: bool,
    as_units: Callable[[pa.Table], list[str]],
) -> None:
    """By the paths of what changed, or by its partitions at the first or second level; at levels that keep files."""
    with TemporaryDirectory() as folder:
        place = Path(folder) / "lake"
        place.mkdir()
        lake = Lake(place / "t")
        change(lake, {"a": 0, **first})
        with open_session(place) as session:
            session.analyze("lake.w.t", level="ROW_GROUP" if by_path else level)
            for step in steps:
                changed = {name: content for name, content in step.items() if by_path or is_named(lake, name, level)}
                was_flat = is_flat(lake)
                paths = change(lake, changed)
                if changed and not by_path and level == "PARTITION" and is_flat(lake) is not was_flat:
                    # The files in no directory are described otherwise then, and this level keeps none of them.
                    with pytest.raises(InvalidRequestError, match="no files are kept at its level PARTITION"):
                        session.analyze("lake.w.t", partitions=named(changed), since={"dir0": ""})
                    session.analyze("lake.w.t", level=level)
                elif by_path:
                    session.analyze("lake.w.t", paths=[*paths, *paths])
                elif changed:
                    session.analyze("lake.w.t", partitions=named(changed), since={"dir0": ""})
            kept = units(session)
            after = session.analyze("lake.w.t", level="ROW_GROUP" if by_path else level)
            assert after.status == "up to date"
            session.drop_metadata("lake.w.t")
            session.analyze("lake.w.t", level="ROW_GROUP" if by_path else level)
            assert as_units(kept) == as_units(units(session))


def is_flat(lake: Lake) -> bool:
    """Whether no file is in a directory of the table."""
    return not any(lake.root.glob("*/**/*.parquet"))


def is_named(lake: Lake, name: str, level: str) -> bool:
    """Whether the file's partition can be named: it exists, and its level keeps files if it is of the second level."""
    return "/" in name and (lake.root / name).parent.exists() and (level != "PARTITION" or name.count("/") == 1)


def named(changed: dict[str, int | None]) -> list[dict[str, str]]:
    """The partitions of files: by their directories ``k=…`` and ``s=…`` where there are any."""
    found = []
    for name in changed:
        levels = name.split("/")[:-1]
        if all("=" in level for level in levels):
            found.append(dict(level.split("=") for level in levels))
        else:
            found.append({"dir0": levels[0]})
    return found


class TestLaw:
    """What a part of a run looks at and refuses, of a table with a file at each of FILES."""

    @pytest.fixture
    def lake(self, tmp_path: Path) -> Lake:
        """The table ``lake.w.t``."""
        (tmp_path / "lake").mkdir()
        made = Lake(tmp_path / "lake" / "t")
        for number, name in enumerate(FILES):
            made.write(f"{name}.parquet", {"x": [number]})
        return made

    @pytest.fixture
    def session(self, lake: Lake) -> Iterator[Session]:
        """Where the table is analyzed."""
        with open_session(lake.root.parent) as opened:
            assert opened.analyze("lake.w.t").new == len(FILES)
            yield opened

    @pytest.mark.parametrize(
        ("part", "counts"),
        [
            ({"partitions": {"k": "2"}}, (3, 3)),
            ({"partitions": {"k": "2", "s": "x"}}, (1, 1)),
            ({"partitions": {"k": "*0"}}, (1, 1)),
            ({"partitions": [{"k": "1"}, {"K": "10"}]}, (3, 3)),
            ({"since": {"k": 2}}, (4, 4)),
            ({"since": {"k": 11}}, (0, 0)),
            ({"partitions": {"dir1": "q"}}, (2, 2)),
            ({"paths": ["k=1/a.parquet", "a.parquet"]}, (2, 2)),
            ({"paths": [{"path": "p/q/b.parquet"}]}, (1, 1)),
            ({"paths": ["k=1/_SUCCESS", "k=1/.a.crc"]}, (0, 0)),
            ({"paths": []}, (0, 0)),
        ],
    )
    def test_what_is_not_named_stays(
        self, session: Session, lake: Lake, part: dict[str, Any], counts: tuple[int, int]
    ) -> None:
        """Though all files have changed, only those named are looked at and read."""
        for name in FILES:
            lake.touch(f"{name}.parquet")
        result = session.analyze("lake.w.t", **part)
        assert (result.files, result.changed) == counts
        assert result.new == result.removed == 0
        assert len(result.passed_over) == sum(
            "/_S" in str(path) or ".crc" in str(path) for path in part.get("paths", ())
        )
        assert session.analyze("lake.w.t").changed == len(FILES) - counts[1]

    def test_the_first_directory_and_the_last(
        self, session: Session, lake: Lake, as_units: Callable[[pa.Table], list[str]]
    ) -> None:
        """Files in no directory have another segment then, though nobody named them."""
        for name in FILES[2:]:
            lake.remove(f"{name}.parquet")
        result = session.analyze("lake.w.t", paths=[f"{name}.parquet" for name in FILES[2:]])
        assert (result.removed, result.segments_removed) == (8, 4)
        lake.write("k=1/a.parquet", {"x": [1]})
        for paths in (["k=1/a.parquet"], None):
            session.analyze("lake.w.t", paths=paths)
            kept = units(session)
            session.drop_metadata("lake.w.t")
            session.analyze("lake.w.t")
            assert as_units(kept) == as_units(units(session))

    def test_a_path_that_is_gone_leaves_its_segment(self, session: Session, lake: Lake) -> None:
        """And a segment without files goes, with the rest of the table as it was."""
        lake.remove("k=1/a.parquet")
        lake.remove("k=10/a.parquet")
        result = session.analyze("lake.w.t", paths=["k=1/a.parquet", "k=10/a.parquet", "k=7/never.parquet"])
        assert (result.removed, result.segments_removed, result.new, result.changed) == (2, 1, 0, 0)
        assert result.passed_over == [f"{lake.root}/k=7/never.parquet"]
        assert session.analyze("lake.w.t").status == "up to date"

    @pytest.mark.parametrize(
        ("part", "error", "text"),
        [
            ({"paths": ["/etc/passwd"]}, InvalidRequestError, "/etc/passwd is no path of a file below"),
            ({"paths": ["../u/a.parquet"]}, InvalidRequestError, "no path of a file below"),
            ({"paths": ["s3://b/t/a.parquet"]}, InvalidRequestError, "no path of a file below"),
            ({"paths": [""]}, InvalidRequestError, "no path of a file below"),
            ({"paths": ["k=1"]}, InvalidRequestError, "is a directory"),
            ({"paths": [{"file": "a"}]}, InvalidRequestError, "entry 1 of the paths names no object"),
            ({"partitions": {"k": "3"}}, NotFoundError, "no partition where k = '3'"),
            ({"partitions": {"x": "3"}}, NotFoundError, "no partition where x = '3'"),
            ({"partitions": {}}, InvalidRequestError, "by their columns"),
            ({"partitions": [{}, {"k": "1"}]}, InvalidRequestError, "by their columns"),
            ({"partitions": {"k": "1"}, "paths": ["a.parquet"]}, InvalidRequestError, "not both"),
            ({"partitions": {"k": "1"}, "statistics": True}, InvalidRequestError, "statistics; analyze it whole"),
            ({"partitions": {"k": "1"}, "level": "FILE"}, InvalidRequestError, "the level was ROW_GROUP"),
        ],
    )
    def test_what_cannot_be_done_changes_nothing(
        self, session: Session, lake: Lake, part: dict[str, Any], error: type[Exception], text: str
    ) -> None:
        """It is an error that says why."""
        lake.touch("k=1/a.parquet")
        version = session.metastore.tables.metadata.version
        with pytest.raises(error, match=text):
            session.analyze("lake.w.t", **part)
        assert session.metastore.tables.metadata.version == version

    def test_what_was_not_analyzed_is_analyzed_whole_first(self, session: Session, lake: Lake) -> None:
        """And a table without units of files takes no paths, but whole partitions."""
        session.drop_metadata("lake.w.t")
        with pytest.raises(InvalidRequestError, match="was not analyzed before; analyze it whole"):
            session.analyze("lake.w.t", paths=["a.parquet"])
        session.analyze("lake.w.t", level="SEGMENT")
        lake.touch("k=2/s=x/a.parquet")
        for part in ({"paths": ["k=2/s=x/a.parquet"]}, {"partitions": {"s": "x"}}):
            with pytest.raises(InvalidRequestError, match="no files are kept at its level SEGMENT"):
                session.analyze("lake.w.t", **part)
        assert session.analyze("lake.w.t", partitions={"k": "2"}).segments_written == 1
        assert session.analyze("lake.w.t", level="SEGMENT").status == "up to date"

    def test_units_of_another_program_do_not_tell_files(self, session: Session, lake: Lake) -> None:
        """Its units record neither size nor time, so files beside a path are not known; whole partitions are."""
        tables = session.metastore.tables
        units = tables.read().metadata_types(MetadataType.ALL).filter("metadataKey = 'k=1'").execute()
        foreign = [
            replace(unit, metadata_statistics=()) if unit.metadata_type == MetadataType.FILE else unit for unit in units
        ]
        assert foreign != units
        tables.modify().overwrite(foreign).execute()
        lake.touch("k=1/a.parquet")
        with pytest.raises(InvalidRequestError, match="another program wrote its units; analyze it whole"):
            session.analyze("lake.w.t", paths=["k=1/a.parquet"])
        assert session.analyze("lake.w.t", partitions={"k": "1"}).segments_written == 1
        assert session.analyze("lake.w.t").status == "up to date"

    def test_a_table_that_moved_is_analyzed_whole(self, session: Session, lake: Lake) -> None:
        """The files of the rest are not where its metadata says."""
        moved = lake.root.parent / "new" / "t"
        moved.parent.mkdir()
        lake.root.rename(moved)
        with open_session(lake.root.parent, "/new") as now:
            for part in ({"partitions": {"k": "1"}}, {"paths": ["k=1/a.parquet"]}):
                with pytest.raises(InvalidRequestError, match=f"it has moved from {lake.root}; analyze it whole"):
                    now.analyze("lake.w.t", **part)
            assert now.analyze("lake.w.t").new == len(FILES)
            assert now.analyze("lake.w.t", partitions={"k": "1"}).status == "up to date"

    def test_a_stream_s_table_takes_no_paths(self, session: Session, lake: Lake) -> None:
        """Its log says which files count."""
        lake.put("_spark_metadata/0", b"v1")
        with pytest.raises(InvalidRequestError, match="written by a stream"):
            session.analyze("lake.w.t", paths=["a.parquet"])
