"""Deletes in another form delete the same rows; PyIceberg, which refuses equality deletes, reads what came of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from pyiceberg.typedef import Record
from support.delete_files import delete_equal, delete_positions, with_ids

from metastore.config import Settings
from metastore.engines.engine import LocalEngine
from metastore.errors import InvalidRequestError, MetastoreError, ProcedureError
from metastore.lake.iceberg.columns.version_3_fields import referenced_data_file
from metastore.lake.iceberg.rows.live_files import LiveFiles, live_files
from metastore.session import Session, connect

TABLE = "lake.db.t"
PARTITIONED = "WITH (format_version = 2, partitioning = ARRAY['k'])"


class Interrupted(LocalEngine):
    """Does something else, once, when tasks have been run."""

    def __init__(self) -> None:
        super().__init__(1)
        self.meanwhile: Callable[[], object] | None = None

    def run(self, *arguments: Any) -> Iterator[pa.RecordBatch]:
        """Run the tasks, then what comes between."""
        yield from super().run(*arguments)
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()


class Lake:
    """A session whose catalog ``lake`` has the table ``db.t`` of ids 0 to 9 and 10 to 19, ``k`` a or b."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.engine = folder, Interrupted()
        catalog = {"type": "sql", "uri": f"sqlite:///{folder}/c.db", "warehouse": f"file://{folder}/wh"}
        settings = {"iceberg.location.base_path": str(folder / "m"), "catalogs.lake": catalog}
        self.session: Session = connect(
            Settings.from_mapping({"drill.metastore": settings}, environ={}), engine=self.engine
        )
        self.sql("CREATE SCHEMA lake.db")

    def create(self, how: str = "WITH (format_version = 2)") -> Lake:
        """Make the table."""
        self.sql(f"CREATE TABLE {TABLE} (id BIGINT, k VARCHAR) {how}")
        for first in (0, 10):
            self.sql(f"INSERT INTO {TABLE} SELECT i, ['a', 'b'][i % 2 + 1] FROM range({first}, {first + 10}) r(i)")
        return self

    def sql(self, statement: str) -> pa.Table:
        """Run a statement."""
        return self.session.sql(statement)

    def load(self) -> Table:
        """The table at its newest version."""
        return self.session.catalogs.target("lake", "db", "t").load()

    def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a procedure on the table; its row."""
        [row] = self.session.call(f"lake.system.{name}", schema="db", table_name="t", **arguments).to_pylist()
        return dict(row)

    def raised(self, version: int) -> None:
        """Raise the format version."""
        self.call("upgrade_format_version", format_version=version)

    @property
    def ids(self) -> list[Any]:
        """The ids of all rows, by SELECT."""
        found: list[Any] = self.sql(f"SELECT id FROM {TABLE}")["id"].to_pylist()
        return sorted(found, key=repr)

    @property
    def by_pyiceberg(self) -> list[Any]:
        """The ids of all rows, by PyIceberg."""
        found: list[Any] = self.load().scan().to_arrow()["id"].to_pylist()
        return sorted(found, key=repr)

    @property
    def files(self) -> list[str]:
        """All files of the table."""
        return sorted(str(path) for path in (self.folder / "wh").rglob("*") if path.is_file())

    @property
    def live(self) -> LiveFiles:
        """The files of the newest snapshot."""
        table = self.load()
        current = table.metadata.current_snapshot()
        assert current is not None
        return live_files(table.metadata, table.io, current)

    def paths(self) -> list[str]:
        """The data files, those of smaller ids first."""
        return [live.path for live in sorted(self.live.data, key=lambda live: live.sequence_number)]

    def counts(self) -> tuple[int, int]:
        """How many entries of position deletes and of equality deletes there are."""
        return len(self.live.position_deletes), len(self.live.equality_deletes)


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """An empty lake."""
    made = Lake(tmp_path)
    with made.session, made.engine:
        yield made


def keys(*ids: int | None) -> pa.Table:
    """Rows of an equality delete file by ``id``."""
    return with_ids(pa.table({"id": pa.array(ids, pa.int64())}), 1)


@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_of_a_plain_table(lake: Lake, version: int) -> None:
    """Beside position deletes, with rows that came back since; nothing matches twice, and null equals null."""
    lake.create()
    lake.sql(f"INSERT INTO {TABLE} VALUES (NULL, 'n')")
    first = lake.paths()
    delete_positions(lake.load(), {first[0]: [0], first[1]: [0, 5]})
    delete_equal(lake.load(), keys(1, 5, 11, None, 77), [1])
    lake.sql(f"INSERT INTO {TABLE} VALUES (5, 'again')")
    delete_equal(lake.load(), with_ids(pa.table({"id": [7, 8], "k": ["b", "z"]}), 1, 2), [1, 2])
    lake.raised(version)
    expected, rows = lake.ids, len(lake.ids)
    assert lake.call("convert_equality_deletes", dry_run=True)["rewritten_delete_files_count"] == 2
    assert lake.counts() == (1, 2)
    done = lake.call("convert_equality_deletes")
    assert lake.counts()[1] == 0
    assert lake.ids == lake.by_pyiceberg == expected
    assert rows == len(expected)
    assert 4 <= done["deleted_rows_count"] <= 5
    before = lake.files
    again = lake.call("convert_equality_deletes")
    assert again["message"] == "nothing to change: the table has no equality deletes"
    assert lake.files == before


@pytest.mark.parametrize("version", [2, 3])
def test_equality_deletes_of_partitions(lake: Lake, version: int) -> None:
    """Only rows of the delete's own partition go; files in which nothing matches get no deletes."""
    lake.create(PARTITIONED)
    delete_equal(lake.load(), keys(0, 1, 2, 13), [1], Record("a"))
    delete_equal(lake.load(), keys(13), [1], Record("b"))
    lake.raised(version)
    expected = lake.ids
    assert expected == sorted((n for n in range(20) if n not in (0, 2, 13)), key=repr)
    done = lake.call("convert_equality_deletes")
    assert (done["deleted_rows_count"], done["added_delete_files_count"]) == (3, 2)
    assert lake.ids == lake.by_pyiceberg == expected
    assert lake.counts() == (2, 0)


def test_position_deletes_are_written_together(lake: Lake) -> None:
    """One file a partition, without positions of files that are gone; once more changes nothing."""
    lake.create(PARTITIONED)
    by_partition = {
        part: [live.path for live in lake.live.data if live.file.partition[0] == part] for part in ("a", "b")
    }
    for position in range(3):
        for part, paths in by_partition.items():
            delete_positions(lake.load(), {path: [position] for path in paths}, Record(part))
    expected = lake.ids
    kept = lake.call("rewrite_position_delete_files")
    assert "no partition has 5 small position delete files" in kept["message"]
    done = lake.call("rewrite_position_delete_files", options={"min-input-files": "3"})
    assert (done["rewritten_delete_files_count"], done["added_delete_files_count"]) == (6, 2)
    assert lake.ids == lake.by_pyiceberg == expected
    assert "nothing to change" in lake.call("rewrite_position_delete_files")["message"]
    lake.sql(f"DELETE FROM {TABLE} WHERE k = 'a'")
    done = lake.call("rewrite_position_delete_files")
    assert lake.counts() == (1, 0)
    assert lake.ids == lake.by_pyiceberg == [n for n in expected if n % 2]


def test_vectors_of_one_puffin_file_go_one_by_one(lake: Lake) -> None:
    """A vector is replaced or removed with its own data file; its neighbours in the Puffin file stay."""
    lake.create()
    paths = lake.paths()
    delete_positions(lake.load(), {path: [1, 2] for path in paths})
    lake.raised(3)
    expected = lake.ids
    done = lake.call("rewrite_position_delete_files")
    assert (done["rewritten_delete_files_count"], done["added_delete_files_count"]) == (1, 2)
    assert lake.counts() == (2, 0)
    assert lake.ids == lake.by_pyiceberg == expected
    [kept] = [live for live in lake.live.deletes if referenced_data_file(live.file) == paths[1]]
    lake.sql(f"UPDATE {TABLE} SET k = 'u' WHERE id = 5")
    assert lake.counts() == (2, 0)
    assert kept.entry in {live.entry for live in lake.live.deletes}
    assert lake.ids == lake.by_pyiceberg == expected
    lake.call("rewrite_data_files", options={"delete-file-threshold": "1"})
    assert lake.counts() == (0, 0)
    assert lake.ids == lake.by_pyiceberg == expected


def test_a_vector_takes_over_what_the_one_before_deleted(lake: Lake) -> None:
    """A data file has one vector at a time; one in which equality deletes find nothing keeps its own."""
    lake.create()
    paths = lake.paths()
    delete_positions(lake.load(), {path: [3, 4] for path in paths})
    delete_equal(lake.load(), keys(0, 4, 5), [1])
    lake.raised(3)
    expected = lake.ids
    lake.call("rewrite_position_delete_files")
    [kept] = [live for live in lake.live.deletes if referenced_data_file(live.file) == paths[1]]
    done = lake.call("convert_equality_deletes")
    assert (done["deleted_rows_count"], done["rewritten_delete_files_count"], lake.counts()) == (2, 2, (2, 0))
    assert lake.ids == lake.by_pyiceberg == expected
    assert kept.entry in {live.entry for live in lake.live.deletes}


def _many_deletes(lake: Lake) -> list[Any]:
    """Three position delete files a partition, of both data files; the ids that are left."""
    lake.create(PARTITIONED)
    for position in range(3):
        for part in ("a", "b"):
            paths = [live.path for live in lake.live.data if live.file.partition[0] == part]
            delete_positions(lake.load(), {path: [position] for path in paths}, Record(part))
    return lake.ids


@pytest.mark.parametrize(
    ("options", "rewritten", "added"),
    [
        ({"min-input-files": "3"}, 6, 2),
        ({"min-input-files": "4", "rewrite-all": "true"}, 6, 2),
        ({"min-input-files": "4"}, 0, 0),
        # The old files have about a kilobyte each, so all are of a good size, or one of two is a group too large.
        ({"min-input-files": "3", "min-file-size-bytes": "10", "target-file-size-bytes": "100000"}, 0, 0),
        ({"rewrite-all": "true", "max-file-group-input-files": "2"}, 6, 4),
        ({"rewrite-all": "true", "max-file-group-size-bytes": "100"}, 6, 6),
        # Two new files of each partition, one for each data file.
        ({"rewrite-all": "true", "min-file-size-bytes": "1", "target-file-size-bytes": "2000"}, 6, 4),
        ({"rewrite-all": "true", "rewrite-job-order": "bytes-desc"}, 6, 2),
    ],
)
def test_options_choose_position_delete_files(lake: Lake, options: dict[str, str], rewritten: int, added: int) -> None:
    """By size, by number, in groups of a limited size, and into files of the target size."""
    expected = _many_deletes(lake)
    done = lake.call("rewrite_position_delete_files", options=options)
    assert (done["rewritten_delete_files_count"], done["added_delete_files_count"]) == (rewritten, added)
    assert lake.ids == lake.by_pyiceberg == expected


def test_a_filter_chooses_partitions_of_position_deletes(lake: Lake) -> None:
    """Deletes of the other partition stay as they are, as Spark's ``where`` leaves them; dangling ones, too."""
    expected = _many_deletes(lake)
    kept = {live.entry for live in lake.live.position_deletes if live.file.partition[0] == "b"}
    done = lake.call("rewrite_position_delete_files", options={"rewrite-all": "true"}, filter="k = 'a'")
    assert (done["rewritten_delete_files_count"], done["added_delete_files_count"]) == (3, 1)
    assert kept < {live.entry for live in lake.live.position_deletes}
    lake.call("rewrite_data_files", options={"delete-file-threshold": "1"}, filter="k = 'a'")
    assert lake.call("rewrite_position_delete_files", filter="k = 'b'")["rewritten_delete_files_count"] == 0
    assert lake.ids == lake.by_pyiceberg == expected
    with pytest.raises(InvalidRequestError, match="cannot choose files"):
        lake.call("rewrite_position_delete_files", filter="id % 2 = 0")


def test_new_position_deletes_are_of_one_data_file_if_the_table_says_so(lake: Lake) -> None:
    """The property ``write.delete.granularity`` counts here as it does for statements."""
    expected = _many_deletes(lake)
    lake.sql(f"ALTER TABLE {TABLE} SET PROPERTIES \"write.delete.granularity\" = 'file'")
    done = lake.call("rewrite_position_delete_files", options={"rewrite-all": "true"})
    assert done["added_delete_files_count"] == 4
    assert lake.ids == lake.by_pyiceberg == expected


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(("most", "commits"), [("1", 1), ("2", 2), ("10", 2)])
def test_partial_progress_commits_groups_one_after_the_other(lake: Lake, version: int, most: str, commits: int) -> None:
    """A group is a partition here, and no commit has more than its share of groups."""
    expected = _many_deletes(lake)
    lake.raised(version)
    before = len(lake.load().metadata.snapshots)
    options = {
        "rewrite-all": "true",
        "partial-progress.enabled": "true",
        "partial-progress.max-commits": most,
        "max-concurrent-file-group-rewrites": "1",
    }
    done = lake.call("rewrite_position_delete_files", options=options)
    assert len(lake.load().metadata.snapshots) == before + commits
    assert (done["rewritten_delete_files_count"], done["message"]) == (6, "")
    assert done["added_delete_files_count"] == (2 if version == 2 else 4)
    assert lake.ids == lake.by_pyiceberg == expected


@pytest.mark.parametrize("version", [2, 3])
def test_others_commit_meanwhile(lake: Lake, version: int) -> None:
    """Planned again on what they made: a row that came is kept, a deleted one stays away; no file is left."""
    lake.create()
    delete_equal(lake.load(), keys(1, 11), [1])
    lake.raised(version)

    def meanwhile() -> None:
        lake.sql(f"INSERT INTO {TABLE} VALUES (1, 'new')")
        lake.sql(f"DELETE FROM {TABLE} WHERE id = 12")

    lake.engine.meanwhile = meanwhile
    lake.call("convert_equality_deletes")
    expected = sorted((n for n in range(20) if n not in (11, 12)), key=repr)
    assert lake.ids == lake.by_pyiceberg == expected
    table = lake.load()
    versions = [live_files(table.metadata, table.io, each).deletes for each in table.metadata.snapshots]
    named = {live.path.removeprefix("file://") for deletes in versions for live in deletes}
    assert {path for path in lake.files if "-deletes." in path} == {path for path in named if "-deletes." in path}


def test_a_file_that_is_there_twice_is_refused(lake: Lake) -> None:
    """Its positions would be deleted in both, though an equality delete applies to the first only."""
    lake.create()
    [path, _] = lake.paths()
    delete_equal(lake.load(), keys(1), [1])
    lake.call("add_files", files=[path], duplicate_file="ALLOW")
    before, files = lake.ids, lake.files
    with pytest.raises(ProcedureError, match="is in lake.db.t 2 times"):
        lake.call("convert_equality_deletes")
    assert (lake.ids, lake.files) == (before, files)


def test_a_failing_task_leaves_nothing(lake: Lake) -> None:
    """A delete file that is gone; the table is as it was."""
    lake.create()
    made = delete_equal(lake.load(), keys(1), [1])
    Path(made.file_path.removeprefix("file://")).unlink()
    files = lake.files
    with pytest.raises(MetastoreError):
        lake.call("convert_equality_deletes")
    assert lake.files == files


def test_what_is_not_served(lake: Lake) -> None:
    """Unknown options, and a table without delete files by its version."""
    lake.create("WITH (format_version = 1)")
    with pytest.raises(ProcedureError, match="format version 1"):
        lake.call("convert_equality_deletes")
    for options, said in (({"x": "1"}, "has no option 'x'"), ({"min-input-files": "0"}, "at least 1")):
        with pytest.raises(InvalidRequestError, match=said):
            lake.call("rewrite_position_delete_files", options=options)
