"""remove_orphan_files beside other tables of the catalog: no file of one of them goes, wherever it lies."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.table import Table

from metastore.errors import InvalidRequestError, ProcedureError
from metastore.procedures.files.listing import StoredFile
from metastore.procedures.files.neighbours import Grounds, outside_neighbours
from metastore.procedures.files.remove_orphans import remove_orphan_files
from metastore.procedures.files.spelling import Spelling

OLD_DAYS = 10
FOLDERS = ("a", "a/b", "a/b/data", "a/data", "a/data/k=1", "c", "c/metadata")


@pytest.fixture
def written(lake: Any, rows: Any) -> Callable[..., Table]:
    """Make a table with one row, its id, whose files are ten days old for the procedures."""

    def make(name: str, id_: int, **create: Any) -> Table:
        table: Table = lake.table(name, **create)
        table.append(rows(id_))
        lake.later(days=OLD_DAYS)
        return table.refresh()

    return make


def ids(table: Table) -> list[int]:
    """The ids in the table, as PyIceberg reads it."""
    found: list[Any] = table.scan().to_arrow()["id"].to_pylist()
    return found


def stray(folder: Path) -> str:
    """A file in ``folder`` that no table reaches; its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "stray.parquet"
    path.write_bytes(b"stray")
    return str(path)


def root(table: Table) -> Path:
    """The table's folder on the disk."""
    return Path(table.metadata.location.removeprefix("file://"))


def removed(found: list[dict[str, Any]]) -> set[str]:
    """Locations that the procedure says it deleted."""
    return {row["orphan_file_location"] for row in found if row["deleted"]}


@pytest.mark.parametrize("key", ["write.data.path", "write.metadata.path"])
@pytest.mark.parametrize("dry_run", [True, False])
def test_a_folder_of_two_tables(lake: Any, written: Any, tmp_path: Path, key: str, dry_run: bool) -> None:
    """What two tables write to one folder is both's: nothing of it is an orphan of either."""
    places = {key: f"file://{tmp_path}/shared", "write.object-storage.enabled": "true"}
    tables = [written("one", 1, properties=places), written("two", 2, properties=places)]
    for name in ("one", "two"):
        with pytest.raises(ProcedureError, match=r"/shared is also in use by lake\.default\.(one|two).*nothing"):
            lake.call(remove_orphan_files, table=name, dry_run=dry_run)
    assert [ids(table.refresh()) for table in tables] == [[1], [2]]


def test_the_own_folder_of_a_table_that_shares_another(lake: Any, written: Any, tmp_path: Path) -> None:
    """A location that is the table's alone is looked through, although the table shares another folder."""
    places = {"write.data.path": f"file://{tmp_path}/shared"}
    one, two = written("one", 1, properties=places), written("two", 2, properties=places)
    path = stray(root(one) / "old")
    assert removed(lake.call(remove_orphan_files, table="one", location=one.metadata.location)) == {path}
    assert ids(two.refresh()) == [2]


@pytest.mark.parametrize("below", ["", "/data", "/metadata", "/data/deep/er"])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_location_inside_a_nested_table(lake: Any, written: Any, below: str, is_known: bool) -> None:
    """A location that narrows the listing does not hide whose folder it is, be the table of this catalog or of none."""
    outer = written("outer", 1)
    inner = written("inner", 2, location=f"{outer.metadata.location}/inner")
    stray(root(inner) / "data/deep/er")
    before = lake.files("outer")
    if not is_known:
        lake.catalog.drop_table("default.inner")
    assert lake.call(remove_orphan_files, table="outer", location=f"{inner.metadata.location}{below}") == []
    assert lake.files("outer") == before


def test_a_location_inside_a_table_whose_metadata_lies_elsewhere(lake: Any, written: Any, tmp_path: Path) -> None:
    """What no file beside it tells, the catalog does."""
    outer = written("outer", 1)
    places = {"write.metadata.path": f"file://{tmp_path}/elsewhere"}
    inner = written("inner", 2, location=f"{outer.metadata.location}/inner", properties=places)
    with pytest.raises(ProcedureError, match=r"also in use by lake\.default\.inner"):
        lake.call(remove_orphan_files, table="outer", location=f"{inner.metadata.location}/data")
    assert lake.call(remove_orphan_files, table="outer") == []
    assert ids(inner.refresh()) == [2]


def test_each_of_two_nested_tables_is_tidied(lake: Any, written: Any) -> None:
    """A table inside another has its location for itself, and the outer one the rest."""
    outer = written("outer", 1)
    inner = written("inner", 2, location=f"{outer.metadata.location}/inner")
    of_outer, of_inner = stray(root(outer) / "x"), stray(root(inner) / "x")
    assert removed(lake.call(remove_orphan_files, table="inner")) == {of_inner}
    assert removed(lake.call(remove_orphan_files, table="outer")) == {of_outer}
    assert [ids(outer.refresh()), ids(inner.refresh())] == [[1], [2]]


def test_data_of_another_inside_the_own_folder(lake: Any, written: Any) -> None:
    """A folder below the table's own that another table writes to is left alone; the rest is tidied."""
    one = written("one", 1)
    two = written("two", 2, properties={"write.data.path": f"{one.metadata.location}/theirs"})
    path = stray(root(one) / "data")
    stray(root(one) / "theirs")
    assert removed(lake.call(remove_orphan_files, table="one")) == {path}
    assert ids(two.refresh()) == [2]


def test_the_own_data_inside_the_folder_of_another(lake: Any, written: Any) -> None:
    """Who writes into the folder of another table cannot say what in there is the other's."""
    one = written("one", 1)
    written("two", 2, properties={"write.data.path": f"{one.metadata.location}/data"})
    with pytest.raises(ProcedureError, match=r"also in use by lake\.default\.one"):
        lake.call(remove_orphan_files, table="two")
    assert ids(one.refresh()) == [1]


def test_a_table_that_cannot_be_loaded(lake: Any, written: Any) -> None:
    """Nobody knows where it lies, so nothing is deleted; once it is dropped, orphans go."""
    one, broken = written("one", 1), written("broken", 2)
    path = stray(root(one) / "data")
    shutil.rmtree(root(broken))
    with pytest.raises(ProcedureError, match=r"lake\.default\.broken cannot be loaded.*Nothing was deleted"):
        lake.call(remove_orphan_files, table="one")
    assert Path(path).exists()
    lake.catalog.drop_table("default.broken")
    assert removed(lake.call(remove_orphan_files, table="one")) == {path}


def test_where_nothing_is_found_no_other_table_is_loaded(lake: Any, written: Any) -> None:
    """A run that deletes nothing costs nothing for the size of the catalog, and needs nothing of its tables."""
    written("one", 1)
    shutil.rmtree(root(written("broken", 2)))
    assert lake.call(remove_orphan_files, table="one") == []


@pytest.mark.parametrize(
    ("theirs", "apart"),
    [
        ("s3://two/a", True),
        ("s3a://one/a", False),
        ("gs://one/a", True),
        ("s3://one/a/", False),
        ("s3://one//./a", False),
        ("s3://one/ab", True),
        ("oss://one/a", False),
        ("file:///a", True),
    ],
)
def test_the_same_path_elsewhere(theirs: str, apart: bool) -> None:
    """Buckets of other names are other places; where the names leave it open, the folder is shared."""
    own = Grounds("one", "s3://one/home", ())
    stored = [StoredFile("s3://one/a/x", 1, 0)]
    asked = (stored, own, ["s3://one/a"], [Grounds("two", theirs, ())], Spelling())
    if apart:
        assert outside_neighbours(*asked) == stored
    else:
        with pytest.raises(ProcedureError, match="s3://one/a is also in use by two"):
            outside_neighbours(*asked)


layouts = st.tuples(
    st.sampled_from(FOLDERS), st.none() | st.sampled_from(FOLDERS), st.none() | st.sampled_from(FOLDERS)
)


@given(st.lists(layouts, min_size=2, max_size=3), st.none() | st.sampled_from(FOLDERS))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_no_layout_loses_a_file_of_a_table(
    make_lake: Callable[[Path], Iterator[Any]],
    rows: Any,
    tmp_path_factory: pytest.TempPathFactory,
    placed: list[tuple[str, str | None, str | None]],
    location: str | None,
) -> None:
    """Wherever tables lie and write, a run on each, refused or not, leaves every table readable."""
    folder = tmp_path_factory.mktemp("layout")
    for lake in make_lake(folder):
        for number, (home, data, metadata) in enumerate(placed):
            keys = {"write.data.path": data, "write.metadata.path": metadata}
            places = {key: f"file://{folder}/{name}" for key, name in keys.items() if name is not None}
            lake.table(f"t{number}", location=f"file://{folder}/{home}", properties=places).append(rows(number))
        lake.later(days=OLD_DAYS)
        for number in range(len(placed)):
            with suppress(ProcedureError, InvalidRequestError):
                where = {} if location is None else {"location": f"file://{folder}/{location}"}
                lake.call(remove_orphan_files, table=f"t{number}", **where)
        assert [ids(lake.table(f"t{number}")) for number in range(len(placed))] == [[n] for n in range(len(placed))]
