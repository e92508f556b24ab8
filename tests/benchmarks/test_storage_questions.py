"""Benchmarks over stored metadata keep working, and what they compare is the same work. No time is asserted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import STORAGE, main
from benchmarks.content import PARTITIONS_OF_A_TABLE, ROWS_OF_A_TABLE, Content
from benchmarks.measuring import OURS, Pace
from benchmarks.stores import PLAIN, Stores
from metastore.components.metastore import Metastore
from metastore.model.vocabulary import MetadataType

pytestmark = pytest.mark.benchmarks

SIZE = 30


@pytest.mark.parametrize("name", STORAGE)
def test_a_question_measures_ours_and_a_peer_in_every_case(name: str, tmp_path: Path) -> None:
    """Every case has times of ours and of at least one peer."""
    stores = Stores(str(tmp_path / "stores"), SIZE, Content(7), lambda _: None)
    series = STORAGE[name].run(stores, Pace(rounds=1))
    stores.close()
    cases = {one.case for one in series}
    assert cases
    for case in cases:
        assert [one.seconds for one in series if one.case == case and one.contender.startswith(OURS)]
        assert [one.seconds for one in series if one.case == case and one.contender.startswith(PLAIN)]
    assert {one.size for one in series} == {SIZE}


def test_both_sides_hold_the_same_rows(tmp_path: Path) -> None:
    """What the metastore and its peer were filled with reads the same from both."""
    stores = Stores(str(tmp_path / "stores"), SIZE, Content(7), lambda _: None)
    with stores.ours() as metastore:
        ours = _rows_of(metastore)
    for load in (stores.plain(), stores.in_order(), stores.on_ours()):
        theirs = load().scan().to_arrow()
        assert sorted(map(repr, theirs.to_pylist())) == ours
    assert len(ours) == SIZE // PARTITIONS_OF_A_TABLE * ROWS_OF_A_TABLE
    assert [load.contender.partition(",")[0] for load in stores.loads] == [OURS, PLAIN]
    stores.close()


def test_a_large_peer_is_given_our_files_in_manifests_of_its_own(tmp_path: Path) -> None:
    """Beyond what its appends can do in time, the peer holds the same rows all the same."""
    stores = Stores(str(tmp_path / "stores"), SIZE, Content(7), lambda _: None, appended_at_most=0)
    with stores.ours() as metastore:
        assert sorted(map(repr, stores.plain()().scan().to_arrow().to_pylist())) == _rows_of(metastore)
    stores.close()


def test_content_depends_on_the_seed_alone() -> None:
    """Equal seeds make equal rows, whatever was made before; other seeds and editions make others."""
    content = Content(7)
    content.segment(5, 3)
    assert content.tables(range(2)).equals(Content(7).tables(range(2)))
    assert not content.tables(range(2)).equals(Content(8).tables(range(2)))
    assert not content.tables(range(2)).equals(content.tables(range(2), edition=1))


def test_the_command_writes_raw_times_and_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The JSON holds every time that was taken, the expectations, and facts without names or paths."""
    target = tmp_path / "results.json"
    arguments = ["table_list", "--sizes", "20", "--rounds", "2", "--json", str(target), "--folder", str(tmp_path)]
    assert main(arguments) == 0
    found = json.loads(target.read_text(encoding="utf-8"))
    assert all(len(one["seconds"]) == 2 for one in found["series"] if one["question"] != "load")
    assert found["facts"]["seed"] == 7
    assert found["verdicts"][0]["holds"] is None
    assert str(tmp_path) not in target.read_text(encoding="utf-8")
    assert [entry.name for entry in tmp_path.iterdir()] == ["results.json"]
    capsys.readouterr()
    assert main(["--join", str(target), str(target)]) == 0
    shown = capsys.readouterr().out
    assert shown.count("list of tables: names and times of all tables, warm") == 2, "once for each run"
    assert [entry.name for entry in tmp_path.iterdir()] == ["results.json"]


def _rows_of(metastore: Metastore) -> list[str]:
    return sorted(map(repr, metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow().to_pylist()))
