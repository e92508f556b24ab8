"""The law over a corpus: what ANALYZE accepts every door reads with equal rows, or refuses by a typed error."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.corpus import WRITERS, make_corpus
from support.doctor.doors import DOORS
from support.doctor.files import examine

from metastore.errors import InvalidRequestError, NotFoundError
from metastore.model.identity import TableInfo
from metastore.session import Session

NAMED_REFUSALS = {
    "arrow_parquet": {"decimal76": "partly"},
    "odd_parquet": {
        **dict.fromkeys(("decimal_of_39", "decimal_of_76", "decimal_in_long_bytes"), "partly"),
        **dict.fromkeys(("decimal_of_80", "decimal_of_80_in_struct"), "refused"),
        **dict.fromkeys(("map_with_null_key", "group_in_struct"), "refused"),
        **dict.fromkeys(("list_of_value", "list_that_does_not_repeat", "list_of_two_fields"), "refused"),
        **dict.fromkeys(("map_that_does_not_repeat", "map_of_two_fields", "map_of_values"), "refused"),
        **dict.fromkeys(("map_of_three_fields", "map_of_hive_of_three_fields"), "refused"),
        **dict.fromkeys(("geography", "geometry", "geometry_of_crs"), "partly"),
    },
    "arrow_orc": {"moment_ms": "refused"},
    "json": {"8": "partly", "9": "partly"},
}
"""By writer and type: wide decimals outside of Arrow, annotations of no shape, tables without columns in SQL."""


@pytest.mark.corpus
@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
def test_every_file_of_a_writer_gives_equal_rows_at_every_door(tmp_path: Path, writer: str) -> None:
    """Or a refusal by name, of the types that are known for it."""
    assert make_corpus(tmp_path / "corpus", [writer]) > 10
    report = examine(tmp_path / "corpus")
    assert {file.file: file.contradictions for file in report.files if file.contradictions} == {}
    others = {Path(file.file).stem.split("-")[0]: file.outcome for file in report.files if file.outcome != "equal"}
    assert others == NAMED_REFUSALS.get(writer, {})


def test_the_corpus_has_hundreds_of_files(tmp_path: Path) -> None:
    """Formats by writers by types by patterns of nulls by codecs."""
    assert make_corpus(tmp_path / "corpus") > 450


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of three files, of which one is damaged."""
    root = tmp_path / "files"
    (root / "deep").mkdir(parents=True)
    pq.write_table(pa.table({"a": [1, None], "t": ["x", "y"]}), root / "a.parquet")
    (root / "deep" / "b.csv").write_text("a,b\n1,x\n2,\n")
    (root / "c.parquet").write_text("nonsense")
    return root


def test_a_damaged_file_is_refused_and_stops_no_other(folder: Path) -> None:
    """The report says of each file what each door said."""
    report = examine(folder)
    assert report.outcomes == {"equal": 2, "partly": 0, "refused": 1, "different": 0}
    by_name = {file.file: file for file in report.files}
    assert [door.door for door in by_name["a.parquet"].doors] == ["analyze", *DOORS]
    assert {door.rows for door in by_name["deep/b.csv"].doors} == {2}
    [refusal] = by_name["c.parquet"].doors
    assert refusal.code == "format.invalid"
    assert "c.parquet" in str(refusal.error)


def test_a_door_that_gives_other_rows_or_raises_a_foreign_error_is_told(folder: Path) -> None:
    """Each in one line; what other doors said stands beside it."""

    def shorter(session: Session, table: TableInfo) -> pa.Table:
        return session.tables.scan(table).to_arrow().slice(1)

    def raising(_session: Session, _table: TableInfo) -> pa.Table:
        raise pa.ArrowInvalid("no such thing")

    report = examine(folder, doors={"to_arrow": DOORS["to_arrow"], "short": shorter, "raising": raising})
    told = {file.file: file.contradictions for file in report.files if file.outcome == "different"}
    assert told == dict.fromkeys(
        ("a.parquet", "deep/b.csv"),
        ("raising raises pyarrow.lib.ArrowInvalid: no such thing", "short differs from to_arrow: 1 rows instead of 2"),
    )


def test_footers_that_lie_are_told(tmp_path: Path) -> None:
    """Bounds of a footer that values contradict lose rows: the conditions that the doctor asks show it."""
    path = tmp_path / "lies.parquet"
    pq.write_table(pa.table({"a": pa.array([5, 6, 7], pa.int64())}), path, use_dictionary=False, compression="none")
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    # The smallest value, 5, becomes 6 wherever the footer has it.
    lies = content[footer:].replace((5).to_bytes(8, "little"), (6).to_bytes(8, "little"))
    path.write_bytes(content[:footer] + lies)
    [file] = examine(tmp_path).files
    assert "min(`a`) is 6, and 5 is read" in file.contradictions
    assert "`a` = 5 returns 0 rows, and 1 are read" in [each.replace("a =", "`a` =") for each in file.contradictions]


def test_what_is_no_folder_is_refused(folder: Path) -> None:
    """By name."""
    with pytest.raises(InvalidRequestError, match=r"a\.parquet is a file"):
        examine(folder / "a.parquet")
    with pytest.raises(NotFoundError, match="gone"):
        examine(folder / "gone")


def test_text_of_another_encoding_says_how_to_name_it(tmp_path: Path) -> None:
    """The refusal is not the end: ANALYZE takes the encoding."""
    (tmp_path / "latin.csv").write_bytes("id;name\n1;José\n".encode("latin-1"))
    [file] = examine(tmp_path).files
    assert file.outcome == "refused"
    assert "(encoding => 'ISO-8859-1')" in str(file.doors[0].error)
