"""Opens the store of a location: its pointers and its files, from one configuration."""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.io import FileIO

from metastore.lake.stores.hadoop_properties import file_io_properties
from metastore.lake.stores.hdfs.hdfs import HdfsPointers
from metastore.lake.stores.hdfs.hdfs_io import HdfsFileIO
from metastore.lake.stores.local import LocalFileIO
from metastore.lake.stores.locations import StoreLocation, is_local
from metastore.lake.stores.objects.object_store import ObjectPointers
from metastore.lake.stores.objects.object_store_io import ObjectFileIO
from metastore.lake.stores.pointer_store import LOCAL_POINTERS, PointerStore


def open_store(location: str, properties: Mapping[str, str]) -> tuple[PointerStore, FileIO]:
    """Return pointers and files of the store of ``location``; ``properties`` are Hadoop's and PyIceberg's.

    Sends no request yet. Raises StorageError for an unsupported store, ConfigError for properties that its client
    refuses.
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
