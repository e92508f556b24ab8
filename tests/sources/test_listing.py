"""What counts as a data file, in which order, and what a missing or foreign location says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from services.s3 import ACCESS_KEY, SECRET_KEY, S3Server

from metastore.errors import InvalidRequestError, NotFoundError, StorageError
from metastore.lake.formats.source_file import Fingerprint, SourceFile
from metastore.lake.stores.arrow import open_location
from metastore.sources.listing import list_directories, list_files, list_first_level


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty table directory."""
    path = tmp_path / "table"
    path.mkdir()
    return path


def put(root: Path, *names: str, content: bytes = b"data") -> None:
    """Write files below ``root``."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def names(root: Path) -> list[str]:
    """The listed files, relative to ``root``."""
    return ["/".join((*file.directories, file.name)) for file in list_files(str(root)).files]


def test_files_come_sorted_with_their_directories(root: Path) -> None:
    """Files are sorted by directories and name, and carry path, size and time in nanoseconds."""
    put(root, "b/2.parquet", "a/x/1.parquet", "a.parquet", "a/1.parquet")
    os.utime(root / "a.parquet", ns=(1, 1_700_000_000_123_456_789))
    files = list_files(str(root)).files
    assert [(file.directories, file.name) for file in files] == [
        ((), "a.parquet"),
        (("a",), "1.parquet"),
        (("a", "x"), "1.parquet"),
        (("b",), "2.parquet"),
    ]
    assert files[0] == SourceFile((), "a.parquet", f"{root}/a.parquet", 4, 1_700_000_000_123_456_789)
    assert files[0].fingerprint == Fingerprint(4, 1_700_000_000_123_456_789)
    assert all(Path(file.path).is_file() for file in files)


def test_hidden_names_are_skipped_as_spark_does(root: Path) -> None:
    """Underscore and dot hide files and whole directories, except where ``_k=v`` is a partition."""
    put(root, "_SUCCESS", ".crc", "_temporary/0/a.parquet", "a/.hidden/b.parquet", "c.parquet._COPYING_")
    put(root, "_k=1/a.parquet", "_f=1.parquet", "plain.txt", "a_b/.x=1/z.parquet")
    assert names(root) == ["_f=1.parquet", "plain.txt", "_k=1/a.parquet"]


def test_files_of_no_bytes_hold_no_rows(root: Path) -> None:
    """Empty files are left out."""
    put(root, "empty.parquet", content=b"")
    put(root, "a.parquet")
    assert names(root) == ["a.parquet"]


def test_odd_names_are_kept(root: Path) -> None:
    """Spaces, percent signs, globs and any script are plain characters."""
    odd = ["ä ö%20/日本 *?[1].parquet", "a=b c/x#y;z.parquet"]
    put(root, *odd)
    assert sorted(names(root)) == sorted(odd)


def test_only_chosen_directories_are_listed(root: Path) -> None:
    """A choice among first-level directories gives exactly their part of the full listing, and the root's files."""
    put(root, *(f"{top}/{below}.parquet" for top in "abcd" for below in ("1", "n/2")), "root.parquet", "_h/x.parquet")
    everything = list_files(str(root))
    for wanted in (set(), {"b"}, {"a", "d"}, {"_h", "a"}):
        some = list_files(str(root), wanted.__contains__)
        assert some.files == [f for f in everything.files if not f.directories or f.directories[0] in wanted]


def test_directory_by_directory_is_the_whole(root: Path, tmp_path: Path) -> None:
    """The first level and each directory by itself give the files of one listing: hidden, odd and linked ones, too."""
    put(root, *(f"{top}/{below}.parquet" for top in ("a", "b=1", "_h", ".g", "_p=2") for below in ("1", "n/2", "_x/3")))
    put(root, "root.parquet", "_no.parquet", "README.md", "a ö%20/日本.parquet", "own/x.parquet", "a/own/y.parquet")
    put(tmp_path, "elsewhere/deep/a.parquet")
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "back").symlink_to(root)
    (root / "to_itself").symlink_to(root)
    (root / "a" / "to_its_sister").symlink_to(root / "b=1")
    (root / "a" / "n" / "up").symlink_to(root / "a")
    whole = list_files(str(root), passed_over=("own", "a/own")).files
    first = list_first_level(str(root), 1, passed_over=("own", "a/own"))
    assert first is not None
    each = [
        file for name in first.directories for file in list_directories(str(root), [name], passed_over=("own", "a/own"))
    ]
    together = list_directories(str(root), first.directories, passed_over=("own", "a/own"))
    assert sorted([*first.files, *each]) == sorted([*first.files, *together]) == list(whole)
    assert list_directories(str(root), ["gone"]) == []


def test_a_first_level_of_few_directories_is_none(root: Path) -> None:
    """So is one of a file, of nothing, and one with the log of a stream, which says what belongs to the table."""
    put(root, "a/1.parquet", "b/1.parquet")
    assert list_first_level(str(root), 2) is not None
    assert list_first_level(str(root), 3) is None
    assert list_first_level(f"{root}/a/1.parquet", 0) is None
    assert list_first_level(f"file://{root}/a/1.parquet", 1) is None
    assert list_first_level(f"{root}/missing", 0) is None
    put(root, "_spark_metadata/0")
    assert list_first_level(str(root), 1) is None


def test_links_are_followed(root: Path, tmp_path: Path) -> None:
    """A linked directory's files count as the table's own; a link to nothing is no file."""
    put(tmp_path, "elsewhere/a.parquet")
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    (root / "broken").symlink_to(tmp_path / "nothing")
    assert names(root) == ["linked/a.parquet"]


def test_one_file_is_a_table(root: Path) -> None:
    """A location that is a file is a table of that file."""
    put(root, "a.parquet")
    (file,) = list_files(f"{root}/a.parquet").files
    assert (file.directories, file.name, file.path) == ((), "a.parquet", f"{root}/a.parquet")


def test_uris_list_as_uris(root: Path) -> None:
    """Off the plain local path, file paths have the form of the location."""
    put(root, "a/1.parquet")
    (file,) = list_files(f"file://{root}").files
    assert (file.path, file.directories) == (f"file://{root}/a/1.parquet", ("a",))


ODD = ["my table", "ä ö", "a#b", "a?b", "a%20b", "100%", "k=1/x:@&+;,y"]


def test_odd_locations_are_listed_on_an_object_store(
    s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each finds its own files, whose paths lead back to them."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    bucket = s3_server.create(tmp_path.name.replace("_", "-"))
    options = {"endpoint_override": s3_server.endpoint.removeprefix("http://"), "scheme": "http"}
    for name in ODD:
        bucket.put(f"{name}/p q#1/a.parquet", name.encode())
    for name in ODD:
        location = f"s3://{bucket.config['bucket']}/{name}"
        [file] = list_files(location, options=options).files
        assert (file.path, file.directories) == (f"{location}/p q#1/a.parquet", ("p q#1",))
        store, root = open_location(location, options)
        with store.open_input_stream(root + file.path[len(location) :]) as source:
            assert source.read() == name.encode()


def test_names_that_are_no_text_are_refused(root: Path) -> None:
    """They could not stand in the metastore; the error shows the name and where it is."""
    put(root, "sub/a.parquet")
    (root / "sub" / os.fsdecode(b"b\xff.parquet")).write_bytes(b"data")
    with pytest.raises(StorageError, match=r"sub/b\\xff\.parquet.*rename"):
        list_files(str(root))
    with pytest.raises(StorageError, match="rename"):
        list_files(str(root), {"sub"}.__contains__)


def test_nothing_there_is_an_error(root: Path) -> None:
    """A missing location is a NotFoundError that names it; an unknown scheme is the request's fault."""
    with pytest.raises(NotFoundError, match="missing"):
        list_files(f"{root}/missing")
    with pytest.raises(InvalidRequestError, match="gopher"):
        list_files("gopher://host/x")


def test_views_are_refused(root: Path) -> None:
    """A view has no files: by its name, by its file, and among a table's files."""
    put(root, "v.view.drill", "t/w.view.drill")
    for location in ("v", "v.view.drill", "t"):
        with pytest.raises(InvalidRequestError, match="is a view"):
            list_files(f"{root}/{location}")


def test_links_to_folders_above_count_nothing_twice(root: Path, tmp_path: Path) -> None:
    """A link to the table itself, to its parent, and by way of another folder: each file is there once."""
    put(root, "a.parquet", "d/b.parquet")
    (root / "again").symlink_to(root)
    (root / "d" / "again").symlink_to(root)
    (root / "d" / "above").symlink_to(tmp_path)
    (root / "d" / "self").symlink_to(root / "d")
    put(tmp_path / "elsewhere", "c.parquet")
    (tmp_path / "elsewhere" / "back").symlink_to(root)
    (tmp_path / "elsewhere" / "here").symlink_to(tmp_path / "elsewhere")
    (root / "linked").symlink_to(tmp_path / "elsewhere")
    (root / "loop").symlink_to(root / "loop")
    assert names(root) == ["a.parquet", "d/b.parquet", "linked/c.parquet"]
    assert [file.name for file in list_files(str(root), {"d"}.__contains__).files] == ["a.parquet", "b.parquet"]


def test_what_lies_beside_data_is_no_data(root: Path) -> None:
    """Texts about a table, checksums, scripts and pages; files of other names without a suffix are data, as Hive's."""
    beside = ["README", "readme.md", "README.txt", "LICENSE", "a.parquet.crc", "schema.sql", "x.SQL", "d/notice.txt"]
    data = ["000000_0", "a.parquet", "d/part-00000", "d/readme.parquet", "notes.txt", "readmes"]
    put(root, "_SUCCESS", *beside, *data)
    assert sorted(names(root)) == sorted(data)
