"""Opens S3, GCS and Azure: pointers, a FileIO, and an Arrow file system for plain data."""
# ruff: noqa: PLC0415 - tasks that only open data load no PyIceberg

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pyarrow import fs

from metastore.lake.stores.arrow_options import data_properties
from metastore.lake.stores.hadoop_properties import file_io_properties
from metastore.lake.stores.locations import StoreLocation
from metastore.lake.stores.objects.aws_settings import says_any, says_region, with_profile
from metastore.lake.stores.objects.object_store_arrow import TAIL_BYTES, ObjectArrow
from metastore.lake.stores.objects.object_store_client import Buckets, is_cut_off

if TYPE_CHECKING:
    from metastore.lake.stores.objects.object_store import ObjectPointers
    from metastore.lake.stores.objects.object_store_io import ObjectFileIO

_ENDPOINTS = ("s3.endpoint", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")


def open_files(location: str, properties: Mapping[str, str]) -> ObjectFileIO:
    """Return the files of the bucket; Hadoop's keys are converted."""
    from metastore.lake.stores.objects.object_store_io import ObjectFileIO

    return ObjectFileIO(file_io_properties(location, properties))


def open_pointers(location: str, files: ObjectFileIO) -> ObjectPointers:
    """Return pointers that conditional requests create. Raises ConfigError for properties that the client refuses."""
    from metastore.lake.stores.objects.object_store import ObjectPointers

    files.new_input(location)
    return ObjectPointers(files.buckets)


def open_data(location: str, options: Mapping[str, str]) -> tuple[fs.FileSystem, str]:
    """Return a file system of the bucket; ``options`` are Hadoop's, PyIceberg's or those of pyarrow's clients.

    See :mod:`metastore.lake.stores.arrow_options`. Raises ConfigError for values that a store's client refuses.
    """
    place, settings = StoreLocation.parse(location), tuple(sorted(options.items()))
    if is_cut_off() and place.kind == "s3":
        return _arrow_s3(place.root, settings), f"{place.bucket}/{place.key}".rstrip("/")
    return _object_store(place.root, settings), location.rstrip("/")


@lru_cache(maxsize=64)
def _object_store(root: str, options: tuple[tuple[str, str], ...]) -> fs.FileSystem:
    """Return one client for all locations of a bucket with the same options."""
    place = StoreLocation.parse(root)
    buckets = Buckets(_properties(place, options), f"the keys of the storage plugin of {root}")
    buckets.of(place)
    return fs.PyFileSystem(ObjectArrow(buckets, TAIL_BYTES))


@lru_cache(maxsize=64)
def _arrow_s3(root: str, options: tuple[tuple[str, str], ...]) -> fs.FileSystem:
    """Return Arrow's own client, which works in a forked child, unlike obstore's."""
    properties = _properties(StoreLocation.parse(root), options)
    endpoint = urlsplit(properties.get("s3.endpoint", ""))
    return fs.S3FileSystem(
        access_key=properties.get("s3.access-key-id"),
        secret_key=properties.get("s3.secret-access-key"),
        session_token=properties.get("s3.session-token"),
        anonymous=properties.get("s3.anonymous") == "true",
        region=properties.get("s3.region"),
        role_arn=properties.get("s3.role-arn"),
        scheme="http" if endpoint.scheme == "http" else "https",
        endpoint_override=endpoint.netloc or None,
        force_virtual_addressing=properties.get("s3.force-virtual-addressing") == "true",
    )


def _properties(place: StoreLocation, options: tuple[tuple[str, str], ...]) -> dict[str, str]:
    properties = data_properties(place, dict(options))
    if place.kind != "s3":
        return properties
    return _with_region(place.bucket, with_profile(properties, os.environ))


def _with_region(bucket: str, properties: dict[str, str]) -> dict[str, str]:
    """Return ``properties`` with the region of an Amazon bucket; if nothing names it, S3 itself is asked."""
    if says_region(properties, os.environ) or says_any(_ENDPOINTS, {**os.environ, **properties}):
        return properties
    try:
        return {**properties, "s3.region": fs.resolve_s3_region(bucket)}
    except OSError:  # the client reports the problem at its first request
        return properties
