"""Reading in parts: the same rows as at once, of the version that was planned, also in another process."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable

import pyarrow as pa
import pytest
from support.reading import settings_reading

from metastore.components.metastore import Metastore
from metastore.errors import InvalidRequestError, StorageError
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]

_ENOUGH = 1 << 20


@pytest.fixture
def filled(metastore: Metastore, unit: MakeUnit) -> Metastore:
    """Twenty tables, each with general information and a segment of three units."""
    units = []
    for n in range(20):
        units.append(unit(f"t{n}", last_modified_time=n, owner="me"))
        units += [unit(f"t{n}", "1994", path=path, partition_values=["1994"]) for path in ("a", "b", "c")]
    metastore.tables.modify().overwrite(units).execute()
    return metastore


def reading(metastore: Metastore, cache_bytes: int = _ENOUGH, **limits: int) -> Metastore:
    """Another over the same tables, which has nothing cached and reads within ``limits``."""
    return Metastore(settings_reading(metastore.settings, cache_bytes, **limits))


@pytest.mark.parametrize(
    "condition", [None, "tableName = 't7'", "path = 'b'", "lastModifiedTime > 12", "owner is null"]
)
@pytest.mark.parametrize("columns", [(), ("tableName", "lastModifiedTime"), ("partitionValues",)])
def test_parts_are_the_rows(
    filled: Metastore, as_rows: Callable[[pa.Table], list[str]], condition: str | None, columns: tuple[str, ...]
) -> None:
    """Whatever is asked for; the groups pickle, and are read wherever they arrive."""
    read = filled.tables.read().metadata_types(MetadataType.ALL)
    read = read.filter(condition) if condition else read
    read = read.columns(*columns) if columns else read
    whole = read.to_arrow()
    parts = pickle.loads(pickle.dumps(read.parts()))  # noqa: S301 - made right here
    assert parts.version == filled.tables.metadata.version
    assert as_rows(pa.Table.from_batches(parts.batches(), whole.schema)) == as_rows(whole)
    assert as_rows(pa.Table.from_batches(read.to_batches(), whole.schema)) == as_rows(whole)


def test_what_the_manifests_know_needs_no_files(filled: Metastore) -> None:
    """Names and times of tables."""
    read = filled.tables.read().metadata_types(MetadataType.TABLE).columns("tableName", "lastModifiedTime")
    parts = read.parts()
    assert (parts.answered.num_rows, parts.groups) == (20, ())


@pytest.mark.parametrize(("rows", "groups"), [(10_000, [20]), (6, [2] * 10), (1, [1] * 20)])
def test_files_are_grouped_by_rows(filled: Metastore, rows: int, groups: list[int]) -> None:
    """A group has few rows, unless one file has more."""
    with reading(filled, part_rows=rows) as metastore:
        read = metastore.tables.read().metadata_types(MetadataType.SEGMENT)
        assert [len(group.files.paths) for group in read.parts().groups] == groups


def test_files_are_grouped_by_size(filled: Metastore) -> None:
    """As they are stored."""
    with reading(filled, part_size=1) as metastore:
        read = metastore.tables.read().metadata_types(MetadataType.SEGMENT)
        assert [len(group.files.paths) for group in read.parts().groups] == [1] * 20


def test_parts_stay_with_their_version(filled: Metastore, unit: MakeUnit) -> None:
    """A commit in between changes nothing of them; when files are gone it is an error, never fewer rows."""
    parts = filled.tables.read().metadata_types(MetadataType.ALL).parts()
    filled.tables.modify().overwrite([unit("t0", "1994", path="new")]).execute()
    assert sum(batch.num_rows for batch in parts.batches()) == 80
    for path in parts.groups[0].files.paths:
        os.unlink(path)
    with pytest.raises(StorageError, match="read again"):
        list(parts.batches())


def test_few_rows_are_kept_for_their_version(filled: Metastore, unit: MakeUnit) -> None:
    """Asked again, no file is needed for them; another version is another answer."""
    metastore = reading(filled, small_files=0)
    read = metastore.tables.read().metadata_types(MetadataType.SEGMENT)
    groups = read.parts().groups
    paths = [path for group in groups for path in group.files.paths]
    size = sum(map(os.path.getsize, paths))
    assert sum(group.files.size_bytes for group in groups) == size
    assert read.few(size - 1) is None
    found = read.few(size)
    assert found is not None
    assert (found.num_rows, found["path"].num_chunks) == (60, 1)
    version = metastore.tables.metadata.version
    filled.tables.modify().overwrite([unit("t0", "1994", path="new")]).execute()
    newest = read.few(size)
    assert newest is not None
    assert newest.num_rows == 58
    for path in paths:
        os.unlink(path)
    assert read.at(version).few(size) == found
    with pytest.raises(StorageError):
        metastore.tables.read().metadata_types(MetadataType.SEGMENT).columns("path").at(version).few(size)


def test_units_that_are_alike_are_not_few(metastore: Metastore, unit: MakeUnit) -> None:
    """They take a hundredth on disk of what they take decoded: the limit counts both, and is found out once."""
    text = "the same in every unit, " * 400
    metastore.tables.modify().overwrite([unit("t", path=f"{n}", schema=text) for n in range(2_000)]).execute()
    read = reading(metastore, small_files=0).tables.read().metadata_types(MetadataType.ALL)
    groups = read.parts().groups
    stored = sum(group.files.size_bytes for group in groups)
    whole = read.parts()
    decoded = sum(batch.nbytes for batch in whole.batches())
    assert decoded > 16 * stored
    assert read.few(stored) is None
    for path in (path for group in groups for path in group.files.paths):
        os.unlink(path)
    assert read.few(stored) is None


@pytest.mark.parametrize(("cache_bytes", "kept"), [(_ENOUGH, True), (8_192, False)], ids=["large", "small"])
def test_an_answer_that_would_take_the_cache_is_not_kept(filled: Metastore, cache_bytes: int, kept: bool) -> None:
    """It is returned, and read again."""
    read = reading(filled, cache_bytes, small_files=0).tables.read().metadata_types(MetadataType.SEGMENT)
    found = read.few(_ENOUGH)
    assert found is not None
    again = read.few(_ENOUGH)
    assert (again is found) == kept
    assert again == found


@pytest.mark.parametrize(("most", "kept"), [(_ENOUGH, True), (20, False)], ids=["little", "much"])
def test_few_files_are_kept_decoded_only_if_they_are_small_together(filled: Metastore, most: int, kept: bool) -> None:
    """Else a question about one column would decode all of them, and fill the cache with what nobody asked for."""
    read = (
        reading(filled, small_size=most).tables.read().metadata_types(MetadataType.SEGMENT).filter("tableName = 't7'")
    )
    assert read.columns("path").to_arrow().num_rows == 3
    [group] = read.parts().groups
    for path in group.files.paths:
        os.unlink(path)
    if kept:
        assert read.columns("path", "schema").to_arrow().num_rows == 3
    else:
        with pytest.raises(StorageError):
            read.columns("path", "schema").to_arrow()


def test_nothing_is_read_of_a_metastore_that_is_not_there(metastore: Metastore) -> None:
    """No rows, version 0; and a kind of units must be named."""
    parts = metastore.tables.read().metadata_types(MetadataType.ALL).columns("owner").parts()
    assert (parts.version, list(parts.batches())) == (0, [])
    few = metastore.tables.read().metadata_types(MetadataType.ALL).columns("owner").few(0)
    assert few is not None
    assert (few.num_rows, few.column_names) == (0, ["owner"])
    with pytest.raises(InvalidRequestError, match="metadata types"):
        metastore.tables.read().parts()
