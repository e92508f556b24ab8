"""Opens HDFS: pointers, a FileIO, and an Arrow file system for plain data."""
# ruff: noqa: PLC0415 - tasks that only open data load no PyIceberg

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from pyarrow import fs

from metastore.lake.stores.hdfs.hdfs_arrow import HdfsArrow
from metastore.lake.stores.hdfs.webhdfs import Clusters
from metastore.lake.stores.locations import StoreLocation

if TYPE_CHECKING:
    from metastore.lake.stores.hdfs.hdfs import HdfsPointers
    from metastore.lake.stores.hdfs.hdfs_io import HdfsFileIO


def open_files(_location: str, properties: Mapping[str, str]) -> HdfsFileIO:
    """Return the files of all clusters that ``properties``, Hadoop's, describe."""
    from metastore.lake.stores.hdfs.hdfs_io import HdfsFileIO

    return HdfsFileIO(dict(properties))


def open_pointers(location: str, files: HdfsFileIO) -> HdfsPointers:
    """Return pointers that renames create. Raises ConfigError for properties that the client refuses."""
    from metastore.lake.stores.hdfs.hdfs import HdfsPointers

    files.clusters.of(StoreLocation.parse(location))
    return HdfsPointers(files.clusters)


def open_data(location: str, options: Mapping[str, str]) -> tuple[fs.FileSystem, str]:
    """Return a file system of all clusters; its paths are locations."""
    return _file_system(tuple(sorted(options.items()))), location


@lru_cache(maxsize=64)
def _file_system(options: tuple[tuple[str, str], ...]) -> fs.FileSystem:
    return fs.PyFileSystem(HdfsArrow(Clusters(dict(options))))
