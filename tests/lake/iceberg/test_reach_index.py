"""The reach index misses no table that has files where candidates lie, whatever changes, and stays within its bound."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from metastore.lake.iceberg.rows.reach_index import NamedFolders, Reach, ReachIndex, Sought, TableReach, cover
from metastore.lake.stores.local_folders import identities, with_those_above
from metastore.lake.stores.spelling import Spelling

FOLDERS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map("/".join)
TABLES = st.tuples(st.sampled_from("rstu"), st.lists(FOLDERS, max_size=4))


def at(*folders: str) -> Reach:
    """The reach of one file in each of ``folders`` of a bucket."""
    named = NamedFolders(Spelling())
    for folder in folders:
        named.add(f"s3://bucket/{folder}/x.parquet")
    return named.reach


def sought(*folders: str, claimed: bool = False) -> Sought:
    """Candidates in ``folders`` of a bucket."""
    return Sought(with_those_above(f"/{folder}" for folder in folders), frozenset(), frozenset(), claimed)


@given(st.lists(st.tuples(TABLES, st.booleans()), max_size=12), st.lists(FOLDERS, min_size=1, max_size=3))
def test_near_tables_are_those_with_files_in_a_folder_of_candidates(
    changes: list[tuple[tuple[str, list[str]], bool]], wanted: list[str]
) -> None:
    """After any changes of pointers and drops, as a plain loop over the newest folders of each table says."""
    index, model = ReachIndex(), dict[str, list[str]]()
    for number, ((name, folders), is_kept) in enumerate(changes):
        model[name] = folders
        index.add_table(("lake", "s", name), TableReach(str(number), at(*folders), Reach()))
        if not is_kept:
            del model[name]
            assert index.find_outdated({("lake", "s", each): "?" for each in model}, {"lake"}) == [
                ("lake", "s", each) for each in model
            ]
    found = {name for _, _, name in index.near(sought(*wanted))}
    inside = {f"{folder}/" for folder in wanted}
    assert found == {
        name for name, folders in model.items() if any(each.startswith(f"{f}/") for f in folders for each in inside)
    }


@given(st.lists(FOLDERS, min_size=1, max_size=40), st.integers(1, 5))
def test_few_folders_cover_many(folders: list[str], most: int) -> None:
    """At most ``most`` folders are left, and each given folder is one of them or lies below one."""
    left = cover(frozenset(f"/{each}" for each in folders), most)
    assert len(left) <= most
    for folder in folders:
        assert not left.isdisjoint(with_those_above([f"/{folder}"]))


def test_the_least_recently_read_tables_are_read_again_when_there_are_too_many() -> None:
    """The bound drops what it must, and what was dropped counts as unknown: it is never taken for free of files."""
    index = ReachIndex(most=10)
    tables = [("lake", "s", str(number)) for number in range(20)]
    for table in tables:
        index.add_table(table, TableReach("p", at(table[2]), Reach()))
    unknown = index.find_outdated(dict.fromkeys(tables, "p"), {"lake"})
    assert len(unknown) == 15
    assert {*unknown, *index.near(sought(*(name for _, _, name in tables)))} == set(tables)


def test_a_folder_that_becomes_a_link_leads_to_its_table(tmp_path: Path) -> None:
    """The names of a local table stay; what they lead to is looked at with each question."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    ours.mkdir()
    named = NamedFolders(Spelling())
    named.add(f"file://{theirs}/x.parquet")
    index = ReachIndex()
    index.add_table(("lake", "s", "theirs"), TableReach("p", named.reach, Reach()))
    wanted = Sought(with_those_above([str(ours)]), identities([str(ours)]), frozenset(), claimed=False)
    assert index.near(wanted) == set()
    theirs.rmdir()
    theirs.symlink_to(ours)
    assert index.near(wanted) == {("lake", "s", "theirs")}
    theirs.unlink()
    assert index.near(wanted) == {("lake", "s", "theirs")}, "nobody knows where the files are now"
