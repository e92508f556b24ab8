"""Opens any location as an Arrow file system: the local disk, object stores, HDFS."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote, urlencode, urlsplit

import pyarrow as pa
from pyarrow import fs

from metastore.errors import InvalidRequestError
from metastore.lake.stores.arrow_options import data_properties
from metastore.lake.stores.hdfs.hdfs_arrow import HdfsArrow
from metastore.lake.stores.hdfs.webhdfs import Clusters
from metastore.lake.stores.locations import StoreLocation, is_on_object_store
from metastore.lake.stores.objects.aws_settings import says_any, says_region, with_profile
from metastore.lake.stores.objects.object_store_arrow import TAIL_BYTES, ObjectArrow
from metastore.lake.stores.objects.object_store_client import Buckets, is_cut_off
from metastore.redaction import showable

_ENDPOINTS = ("s3.endpoint", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT")

HDFS = ("hdfs://", "webhdfs://", "swebhdfs://")


def open_location(location: str, options: Mapping[str, str] | None = None) -> tuple[fs.FileSystem, str]:
    """Return a location's file system and the path on it. InvalidRequestError for an unknown scheme.

    ``location`` is plain text: a blank, a ``#`` or a ``%20`` is part of a name. ``options`` are Hadoop's keys; on
    object stores also PyIceberg's and those of pyarrow's clients, see :mod:`metastore.lake.stores.arrow_options`.
    Raises ConfigError for values that a store's client refuses.
    """
    if location.startswith("/"):
        return fs.LocalFileSystem(), location
    if is_on_object_store(location):
        place, settings = StoreLocation.parse(location), tuple(sorted((options or {}).items()))
        if is_cut_off() and place.kind == "s3":
            return _arrow_s3(place.root, settings), f"{place.bucket}/{place.key}".rstrip("/")
        return _object_store(place.root, settings), location.rstrip("/")
    return _remote(location, tuple(sorted((options or {}).items())))


def lists_by_prefix(store: fs.FileSystem) -> bool:
    """Whether listing a path that is no directory returns nothing, so that no check is needed before."""
    return isinstance(store, fs.PyFileSystem) and isinstance(store.handler, ObjectArrow)


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


@lru_cache(maxsize=64)
def _remote(location: str, options: tuple[tuple[str, str], ...]) -> tuple[fs.FileSystem, str]:
    if location.startswith(HDFS):
        return fs.PyFileSystem(HdfsArrow(Clusters(dict(options)))), location
    scheme, separator, place = location.partition("://")
    host, slash, path = place.partition("/")
    uri = f"{scheme}{separator}{host}{slash}{quote(path)}{'?' if options else ''}{urlencode(options)}"
    try:
        return fs.FileSystem.from_uri(uri)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidRequestError(f"{location} is no location pyarrow can open: {error}") from showable(error)
