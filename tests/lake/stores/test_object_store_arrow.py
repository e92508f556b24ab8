"""Arrow's file system over S3: whole files, ranges, listings, and what a file that changes or is empty gives."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from obstore.store import S3Store
from pyarrow import fs
from services.s3 import S3Server
from support.forked import in_child

from metastore.errors import StorageError
from metastore.lake.stores.arrow import open_location
from metastore.lake.stores.objects.object_store_arrow import TAIL_BYTES
from metastore.lake.stores.opening import open_store
from metastore.sources.listing import list_files


@pytest.fixture
def bucket(s3_server: S3Server, tmp_path: Path) -> S3Store:
    """A new empty bucket."""
    return s3_server.create(str(tmp_path.name).replace("_", "-").lower()[:50].strip("-"))


@pytest.fixture
def opened(s3_server: S3Server, bucket: S3Store) -> tuple[fs.FileSystem, str]:
    """The file system and the bucket's location."""
    return open_location(f"s3a://{bucket.config['bucket']}", s3_server.hadoop(s3_server.endpoint))


@pytest.mark.parametrize("size", [0, 1, TAIL_BYTES - 1, TAIL_BYTES, TAIL_BYTES + 1, 9_000_000, 30_000_000])
def test_a_file_has_its_bytes(size: int, bucket: S3Store, opened: tuple[fs.FileSystem, str]) -> None:
    """From the start, from the end, and across the border of what the first request brought."""
    store, root = opened
    content = os.urandom(size)
    bucket.put("a/file", content)
    with store.open_input_file(f"{root}/a/file") as file:
        assert (file.size(), file.read()) == (size, content)
        for begin in {0, max(0, size - TAIL_BYTES - 5), max(0, size - 10)}:
            # The stubs have no arguments.
            assert file.read_at(20, begin) == content[begin : begin + 20]  # type: ignore[call-arg]
    with store.open_input_stream(f"{root}/a/file") as stream:
        assert stream.read() == content


def test_no_file_is_a_mix_of_two(bucket: S3Store, opened: tuple[fs.FileSystem, str]) -> None:
    """A file that is replaced while it is read is an error."""
    store, root = opened
    bucket.put("f", b"a" * (2 * TAIL_BYTES))
    with store.open_input_file(f"{root}/f") as file:
        bucket.put("f", b"b" * (2 * TAIL_BYTES))
        with pytest.raises(OSError, match="(?i)precondition|412"):
            file.read_at(10, 0)  # type: ignore[call-arg]


def test_directories_are_what_keys_share(
    s3_server: S3Server, bucket: S3Store, opened: tuple[fs.FileSystem, str]
) -> None:
    """Listed once each, whether one level is asked for or all; an object of no bytes may mark one."""
    store, root = opened
    for key in ("t/a/b/1", "t/a/2", "t/3", "u/4"):
        bucket.put(key, b"data")
    name = bucket.config["bucket"]
    with urlopen(Request(f"{s3_server.endpoint}/{name}/marked/", data=b"", method="PUT")):  # noqa: S310 - loopback
        pass

    def below(recursive: bool) -> dict[str, str | None]:
        found = store.get_file_info(fs.FileSelector(f"{root}/t", recursive=recursive))
        return {info.path[len(root) :]: info.type.name for info in found}

    assert below(recursive=False) == {"/t/a": "Directory", "/t/3": "File"}
    assert below(recursive=True) == {
        "/t/a": "Directory",
        "/t/a/b": "Directory",
        "/t/a/b/1": "File",
        "/t/a/2": "File",
        "/t/3": "File",
    }
    kinds = [info.type.name for info in store.get_file_info([f"{root}/{each}" for each in ("t", "t/3", "x", "t/a/b")])]
    assert kinds == ["Directory", "File", "NotFound", "Directory"]
    assert store.get_file_info(f"{root}/t/3").size == 4
    with pytest.raises(FileNotFoundError):
        store.get_file_info(fs.FileSelector(f"{root}/x"))
    assert store.get_file_info(fs.FileSelector(f"{root}/x", allow_not_found=True)) == []


def test_it_writes_and_removes(bucket: S3Store, opened: tuple[fs.FileSystem, str]) -> None:
    """What is written is there once the stream is closed; a directory goes with all below it, and nothing beside it."""
    store, root = opened
    content = os.urandom(20_000_000)
    for key in ("t/1", "t/a/2", "tx"):
        with store.open_output_stream(f"{root}/{key}") as stream:
            stream.write(content)
    assert bytes(bucket.get("t/a/2").bytes()) == content
    store.delete_dir(f"{root}/t")
    assert [entry["path"] for page in bucket.list() for entry in page] == ["tx"]
    with pytest.raises(FileNotFoundError):
        store.delete_dir(f"{root}/t")


def test_a_forked_child_reads_and_never_waits(
    s3_server: S3Server, bucket: S3Store, opened: tuple[fs.FileSystem, str]
) -> None:
    """The library's threads do not survive a fork: a child opens data on S3 by Arrow's client; else it is told."""
    store, root = opened
    keys = s3_server.hadoop(s3_server.endpoint)
    bucket.put("t/k=1/f", b"data")
    assert store.open_input_file(f"{root}/t/k=1/f").read() == b"data"

    def work() -> None:
        [file] = list_files(f"{root}/t", options=keys).files
        assert (file.path, file.size) == (f"{root}/t/k=1/f", 4)
        again, path = open_location(file.path, keys)
        assert again.open_input_file(path).read() == b"data"
        with pytest.raises(StorageError, match="forked.*spawn"):
            store.open_input_file(f"{root}/t/k=1/f")
        pointers, files = open_store(root, keys)
        with pytest.raises(StorageError, match="forked.*spawn"):
            pointers.create_if_absent(f"{root}/v1", b"x")
        with pytest.raises(StorageError, match="forked.*spawn"):
            files.new_input(f"{root}/t/k=1/f").open()

    assert in_child(work)() == 0


def test_it_goes_to_other_processes(bucket: S3Store, opened: tuple[fs.FileSystem, str]) -> None:
    """Pickled it opens the same store with the same keys."""
    store, root = opened
    bucket.put("f", b"data")
    again = pickle.loads(pickle.dumps(store))  # noqa: S301 - its own
    assert again.open_input_file(f"{root}/f").read() == b"data"
