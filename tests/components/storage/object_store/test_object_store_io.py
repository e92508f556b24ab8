"""PyIceberg's FileIO over objects: one request a file, nothing half written, and what Arrow reads through it."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable

import obstore
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from obstore.store import ObjectStore
from support.store_server import StoreServer

from metastore.errors import StorageError
from metastore.lake.stores.files import arrow_paths, discard, flush
from metastore.lake.stores.hadoop_properties import file_io_properties
from metastore.lake.stores.objects.object_store_io import ObjectFileIO
from metastore.lake.stores.opening import open_store
from metastore.lake.stores.whole_files import WHOLE_BYTES


@pytest.fixture
def files(hadoop: dict[str, str], root: str) -> ObjectFileIO:
    """Files in the bucket."""
    return ObjectFileIO(file_io_properties(root, hadoop))


@pytest.fixture
def at(root: str) -> Callable[[str], str]:
    """The location of a key in the bucket."""
    return lambda key: f"{root}/{key}"


def put(files: ObjectFileIO, location: str, content: bytes, *, overwrite: bool = False) -> None:
    """Write a file."""
    with files.new_output(location).create(overwrite) as stream:
        stream.write(content)


def test_a_file_is_there_once_it_is_closed(files: ObjectFileIO, at: Callable[[str], str]) -> None:
    """Not before; and then as a whole, to a copy that was pickled too."""
    location = at("a b/ü%3A.bin")
    stream = files.new_output(location).create()
    assert stream.write(b"con") == 3
    stream.write(b"tent")
    assert not files.new_input(location).exists()
    stream.close()
    stream.close()
    found = pickle.loads(pickle.dumps(files)).new_input(location)  # noqa: S301 - made here
    assert found.exists()
    assert len(found) == 7
    assert found.open().read() == b"content"


def test_a_failed_write_leaves_no_file(files: ObjectFileIO, at: Callable[[str], str]) -> None:
    """Not even a part of one."""
    stream = files.new_output(at("x")).create()
    stream.write(b"part")
    with pytest.raises(TypeError), stream:
        stream.write("no bytes")  # type: ignore[arg-type] # on purpose
    assert not files.new_input(at("x")).exists()


def test_nothing_is_written_over_unless_asked(files: ObjectFileIO, at: Callable[[str], str]) -> None:
    """Whatever the content: a name that was taken at the first request is somebody else's."""
    put(files, at("x"), b"one")
    for content in (b"one", b"two"):
        with pytest.raises(FileExistsError):
            put(files, at("x"), content)
    put(files, at("x"), b"three", overwrite=True)
    assert files.new_input(at("x")).open().read() == b"three"


def test_a_missing_file(files: ObjectFileIO, at: Callable[[str], str]) -> None:
    """It is Python's own error, with its number."""
    missing = files.new_input(at("missing"))
    assert not missing.exists()
    for operation in (missing.open, missing.__len__):
        with pytest.raises(FileNotFoundError) as raised:
            operation()
        assert raised.value.errno == 2


def test_files_are_deleted_together(files: ObjectFileIO, at: Callable[[str], str], bucket: ObjectStore) -> None:
    """More than one request could hold; those that are gone already count as removed; the others stay."""
    for number in range(3):
        put(files, at(f"{number}"), b"x")
    gone = [at("0"), at("1"), *(at(f"gone/{number}") for number in range(1_100))]
    assert discard(files, gone).removed == len(gone)
    assert [entry["path"] for chunk in obstore.list(bucket) for entry in chunk] == ["2"]


def test_a_deletion_that_fails_tells_which(files: ObjectFileIO, at: Callable[[str], str]) -> None:
    """The other files go nevertheless."""
    put(files, at("x"), b"x")
    done = discard(files, [at("x"), "hdfs://namenode/y"])
    assert done.removed == 1
    [(location, error)] = done.failed
    assert location == "hdfs://namenode/y"
    assert isinstance(error, StorageError)
    assert not files.new_input(at("x")).exists()


def test_there_is_nothing_to_flush(at: Callable[[str], str]) -> None:
    """A store has made durable what it has confirmed."""
    flush([at("x")])


@pytest.mark.parametrize("size", [1_000, 2 * WHOLE_BYTES], ids=["whole", "by ranges"])
def test_arrow_reads_files_of_any_size(files: ObjectFileIO, at: Callable[[str], str], size: int) -> None:
    """As one file and as a dataset, by column; larger files come in ranges."""
    rows = pa.table({"noise": [os.urandom(size // 10) for _ in range(10)], "number": list(range(10))})
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink, compression="none")
    put(files, at("a b/ü.parquet"), sink.getvalue().to_pybytes())
    filesystem, paths = arrow_paths(files, [at("a b/ü.parquet")])
    assert pq.read_table(paths[0], filesystem=filesystem, partitioning=None).equals(rows)
    fragments = [ds.ParquetFileFormat().make_fragment(path, filesystem) for path in paths]
    found = ds.FileSystemDataset(fragments, rows.schema, ds.ParquetFileFormat(), filesystem)
    assert found.to_table(columns=["number"]).to_pydict() == {"number": list(range(10))}
    with pytest.raises(FileNotFoundError):
        pq.read_table(at("missing.parquet"), filesystem=filesystem, partitioning=None)


@pytest.mark.parametrize("kind", ["s3"], indirect=True)
def test_an_assumed_role_opens_the_store(
    hadoop: dict[str, str], at: Callable[[str], str], server: StoreServer, bucket: ObjectStore
) -> None:
    """Its credentials are asked of the token service, and are those that sign the requests."""
    role = {
        "fs.s3a.assumed.role.arn": "arn:aws:iam::123456789012:role/metastore",
        "fs.s3a.assumed.role.sts.endpoint": server.endpoint,
    }
    pointers, _ = open_store(at(""), {**hadoop, **role})
    assert pointers.create_if_absent(at("x"), b"by a role")
    assert bytes(obstore.get(bucket, "x").bytes()) == b"by a role"
