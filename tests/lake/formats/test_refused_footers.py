"""Files that Arrow refuses as a whole for one column: what is changed in their footers, and what stays."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.footers import NAME, OPTIONAL, SCHEMA, change_footer, set_numbers
from support.odd_parquet import FILES, LISTS, LISTS_OF_PAIRS, NUMBERS, ONES, STRUCTS, write_odd_parquet

from metastore.errors import FormatError
from metastore.lake.formats.accepted_files import accepted_file
from metastore.lake.formats.parquet.parquet_facts import ParquetFooters
from metastore.lake.formats.parquet.parquet_footer import read_footer
from metastore.lake.formats.parquet.parquet_plans import FooterPlan, arrow_schema_of
from metastore.lake.formats.parquet.refused_footers import require_no_unread
from metastore.lake.formats.parquet.thrift_structs import Struct, decode_struct

OF_NO_SHAPE = (
    "list_of_value",
    "list_that_does_not_repeat",
    "list_of_two_fields",
    "map_that_does_not_repeat",
    "map_of_two_fields",
    "map_of_three_fields",
    "map_of_hive_of_three_fields",
    "map_of_values",
)
"""Spark says "Invalid list type" or "Invalid map type" of these columns, and reads the others."""

REFUSED = (
    *(kind for kind in FILES if kind.startswith("map_of_optional_keys")),
    "optional_keys_alone",
    "map_with_null_key",
    "decimal_of_80",
    "decimal_of_80_in_struct",
    *OF_NO_SHAPE,
)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of each kind."""
    folder = tmp_path_factory.mktemp("odd")
    write_odd_parquet(folder)
    return folder


@pytest.mark.parametrize("kind", FILES)
def test_a_footer_is_changed_only_where_arrow_refuses_it(odd: Path, kind: str) -> None:
    """Row groups, counts and writer stay as they are, byte by byte; so do names and physical types of columns."""
    path = odd / f"{kind}.parquet"
    footer = read_footer(str(path))
    assert (footer.accepted is not None) == (kind in REFUSED)
    if footer.accepted is None:
        assert pq.read_metadata(path).equals(footer.metadata)
        return
    with pytest.raises((pa.ArrowInvalid, OSError)):
        pq.ParquetFile(path)
    before, after = decode_struct(footer.content), decode_struct(footer.accepted.content)
    assert {**before, SCHEMA: None} == {**after, SCHEMA: None}
    assert [leaf_of(each) for each in before[SCHEMA][1][1]] == [leaf_of(each) for each in after[SCHEMA][1][1]]


def leaf_of(element: Struct) -> tuple[object, ...]:
    """Of a schema element what says how values are stored: physical type, width, repetition, number of children."""
    return tuple(element.get(field) for field in (1, 2, 3, 5))


@pytest.mark.parametrize(
    ("kind", "type_"),
    [
        ("map_of_optional_keys", pa.map_(pa.string(), pa.int64())),
        ("map_of_optional_keys_in_list", pa.list_(pa.map_(pa.string(), pa.int64()))),
        ("map_of_optional_keys_in_map", pa.map_(pa.string(), pa.map_(pa.string(), pa.int64()))),
        ("optional_keys_alone", pa.list_(pa.string())),
    ],
)
def test_maps_are_maps(odd: Path, kind: str, type_: pa.DataType) -> None:
    """Whatever they are read as."""
    assert arrow_schema_of(read_footer(str(odd / f"{kind}.parquet"))).field("v").type == type_


@pytest.mark.parametrize("kind", REFUSED)
def test_such_a_file_is_read_with_another_ending(odd: Path, kind: str) -> None:
    """Of its own bytes and those of the footer, whatever part is asked for."""
    path = odd / f"{kind}.parquet"
    footer = read_footer(str(path))
    assert footer.accepted is not None
    content = path.read_bytes()[: -len(footer.content) - 8] + footer.accepted.content
    content += len(footer.accepted.content).to_bytes(4, "little") + b"PAR1"
    with pa.OSFile(str(path), "rb") as source:
        found = accepted_file(source)
        assert found is not None
        assert found.content.size() == len(content)
        random = Random(kind)
        for start in (random.randrange(len(content)) for _ in range(200)):
            length = random.randrange(len(content) + 10)
            found.content.seek(start)
            assert found.content.read(length) == content[start : start + length]
        rows = pq.ParquetFile(found.content).read()
    assert rows["id"].to_pylist() == [1, 2, 3, 4]


def test_a_file_that_arrow_opens_is_left_as_it_is(tmp_path: Path) -> None:
    """There is nothing to be changed, and one that is no Parquet file is refused as ever."""
    pq.write_table(pa.table({"a": [1]}), tmp_path / "a.parquet")
    with pa.OSFile(str(tmp_path / "a.parquet"), "rb") as source:
        assert accepted_file(source) is None
    with pytest.raises(pa.ArrowInvalid):
        accepted_file(pa.BufferReader(b"PAR1nonsensePAR1"))


def test_structs_without_end_are_damage() -> None:
    """However deep they stand in one another."""
    footer = b"\x15\x02\x19\x1c" + b"\x1c" * 100_000
    with pytest.raises((pa.ArrowInvalid, OSError)):
        read_footer(pa.BufferReader(b"PAR1" + footer + len(footer).to_bytes(4, "little") + b"PAR1"))


def test_a_map_of_other_faults_is_refused_as_before(odd: Path, tmp_path: Path) -> None:
    """One whose entries do not repeat is none that anybody reads."""
    path = tmp_path / "t.parquet"
    path.write_bytes((odd / "map_of_optional_keys.parquet").read_bytes())

    def of_one_entry(footer: Struct) -> None:
        entries = next(each for each in footer[SCHEMA][1][1] if each[NAME][1] == b"key_value")
        set_numbers(entries, repetition=OPTIONAL)

    change_footer(path, of_one_entry)
    with pytest.raises((pa.ArrowInvalid, OSError)):
        read_footer(str(path))


@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("list_of_repeated_structs", STRUCTS.to_pylist()),
        ("list_of_repeated_structs_of_one", [[1, 2], None, [], [3]]),
        ("list_of_repeated_arrays_of_one", ONES.to_pylist()),
        ("list_of_repeated_tuples_of_one", ONES.to_pylist()),
        ("list_of_arrays", [[{"element": 1}, {"element": 2}], None, [], [{"element": 3}]]),
        ("list_of_bags", NUMBERS.to_pylist()),
        ("list_of_lists_of_two_levels", LISTS.to_pylist()),
        ("list_of_maps_of_two_levels", LISTS_OF_PAIRS.to_pylist()),
        ("list_of_newer_maps_of_two_levels", LISTS_OF_PAIRS.to_pylist()),
    ],
)
def test_layouts_of_old_writers_are_what_spark_makes_of_them(odd: Path, kind: str, rows: list[object]) -> None:
    """By the rules of backward compatibility: a group of one field is the element, unless its name says otherwise."""
    path = odd / f"{kind}.parquet"
    assert read_footer(str(path)).accepted is None
    assert pq.read_table(path)["v"].to_pylist() == rows


@pytest.mark.parametrize("kind", OF_NO_SHAPE)
def test_a_column_of_no_shape_is_named_with_the_reason(odd: Path, kind: str) -> None:
    """And has no bounds, since its values are none that anybody reads."""
    footer = read_footer(str(odd / f"{kind}.parquet"))
    assert footer.accepted is not None
    assert list(footer.accepted.unread) == ["v"]
    plan = FooterPlan.of(footer, None)
    assert [leaf.reading is None for leaf in plan.leaves] == [leaf.path[0] == "v" for leaf in plan.leaves]
    with pytest.raises(FormatError, match="column v is (annotated as|a single value that is annotated as) (LIST|MAP)"):
        require_no_unread(footer.accepted.unread, ["id", "v"])
    require_no_unread(footer.accepted.unread, ["id"])


def test_who_asks_for_files_as_arrow_opens_them_has_them_refused(odd: Path) -> None:
    """An Iceberg table does not take files in that PyIceberg could not read."""
    with pa.OSFile(str(odd / "map_of_optional_keys.parquet"), "rb") as source:
        assert ParquetFooters().read(source).schema.field("v").type == pa.map_(pa.string(), pa.int64())
        with pytest.raises(pa.ArrowInvalid, match="column v is or has a map whose keys are optional"):
            ParquetFooters(as_arrow_opens=True).read(source)
    with (
        pa.OSFile(str(odd / "map_of_three_fields.parquet"), "rb") as source,
        pytest.raises(pa.ArrowInvalid, match="column v is annotated as MAP, and its entries have 3 fields"),
    ):
        ParquetFooters(as_arrow_opens=True).read(source)
