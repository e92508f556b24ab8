"""Which store a location is on: its pointers and its files, opened from one configuration."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.io import FileIO

from metastore.storage.hadoop_properties import file_io_properties
from metastore.storage.hdfs import HdfsPointers
from metastore.storage.hdfs_io import HdfsFileIO
from metastore.storage.local import LocalFileIO
from metastore.storage.locations import StoreLocation, is_local
from metastore.storage.object_store import ObjectPointers
from metastore.storage.object_store_io import ObjectFileIO
from metastore.storage.pointer_store import LOCAL_POINTERS, PointerStore


def open_store(location: str, properties: Mapping[str, str]) -> tuple[PointerStore, FileIO]:
    """Pointers and files of the store that holds ``location``; ``properties`` are Hadoop's and PyIceberg's.

    Nothing is asked of the store yet. Raises StorageError for a store that is not served, ConfigError for properties
    that its client refuses.
    """
    if is_local(location):
        return LOCAL_POINTERS, LocalFileIO(dict(properties))
    place = StoreLocation.parse(location)
    if place.kind == "hdfs":
        on_hdfs = HdfsFileIO(dict(properties))
        on_hdfs.clusters.of(place)
        return HdfsPointers(on_hdfs.clusters), on_hdfs
    files = ObjectFileIO(file_io_properties(location, properties))
    files.new_input(location)
    return ObjectPointers(files.buckets), files
