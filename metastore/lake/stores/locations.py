"""Parses locations: scheme, bucket (or container) and key; defines which stores are supported, and what names a folder.

Keys are used unchanged, byte for byte: a query or an escape is part of the name. Only stores with folders refuse ``.``
and ``..`` as names. A new store is a module that opens it, and one line in :data:`KNOWN`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from metastore.errors import InvalidRequestError, StorageError


@dataclass(frozen=True)
class Store:
    """A kind of store: the schemes of its locations, and the module that opens it.

    ``authority`` is what may stand between ``://`` and the key, and ``expected`` says that in words. ``module`` has the
    functions of :class:`metastore.lake.stores.store_module.StoreModule`. If there is a ``canonical`` scheme, all
    schemes are one service. ``has_folders``: the names ``.`` and ``..`` are refused.
    """

    kind: str
    schemes: tuple[str, ...]
    authority: re.Pattern[str]
    expected: str
    module: str
    canonical: str | None = None
    has_folders: bool = False


_BUCKET: Final = re.compile(r"[A-Za-z0-9][\w.-]*")
_CONTAINER: Final = re.compile(r"[A-Za-z0-9$][\w.-]*@[A-Za-z0-9][\w.-]*")
_NAMENODE: Final = re.compile(r"[A-Za-z0-9][\w.-]*(:\d{1,5})?")
_OBJECTS: Final = "metastore.lake.stores.objects.object_stores"
_HDFS: Final = "metastore.lake.stores.hdfs.hdfs_store"
_ACCOUNT: Final = "<container>@<account>.dfs.core.windows.net"
_NAMESERVICE: Final = "<namenode>:<port> or the name of a nameservice"

KNOWN: Final = (
    Store("s3", ("s3", "s3a", "s3n"), _BUCKET, "the name of a bucket", _OBJECTS, canonical="s3"),
    Store("gcs", ("gs", "gcs"), _BUCKET, "the name of a bucket", _OBJECTS, canonical="gs"),
    Store("azure", ("abfs", "abfss", "wasb", "wasbs", "az"), _CONTAINER, _ACCOUNT, _OBJECTS, canonical="abfss"),
    Store("hdfs", ("hdfs", "webhdfs", "swebhdfs"), _NAMENODE, _NAMESERVICE, _HDFS, has_folders=True),
)
"""Each store once; the local disk is none of them."""

_BY_SCHEME: Final = {scheme: store for store in KNOWN for scheme in store.schemes}
_NO_NAME: Final = re.compile(r"[/\\\x00-\x1f\x7f]")


def is_local(location: str) -> bool:
    """Whether ``location`` is a plain path or a ``file:`` URI."""
    return "://" not in location or location.startswith("file:")


def is_known(scheme: str) -> bool:
    """Whether this package has a client for the stores with ``scheme``."""
    return scheme in _BY_SCHEME


def known_store(location: str) -> Store | None:
    """Return the store of ``location``; None for the local disk and for unknown schemes."""
    scheme, separator, _ = location.partition("://")
    return _BY_SCHEME.get(scheme) if separator else None


def is_on_object_store(location: str) -> bool:
    """Whether ``location`` is on S3, GCS or Azure."""
    store = known_store(location)
    return store is not None and not store.has_folders


def require_folder_names(names: Iterable[str]) -> None:
    """Raise InvalidRequestError if one of ``names`` cannot name one folder in the folder above it.

    The rule for every name of a table, schema or view that becomes part of a location. Some programs decode escapes, so
    it holds for a decoded name, too.
    """
    for name in names:
        plain = name
        while (decoded := unquote(plain)) != plain:
            plain = decoded
        if plain in ("", ".", "..") or _NO_NAME.search(plain):
            raise InvalidRequestError(
                f"{name!r} cannot name a folder, and a table, schema or view keeps its files in a folder of its name: "
                "choose a name other than . and .. and without slashes, backslashes and control characters"
            )


def one_spelling(location: str) -> str:
    """Return ``location`` with the canonical scheme of its store: ``s3``, ``gs`` or ``abfss``.

    ``s3a://b/k`` and ``s3n://b/k`` become ``s3://b/k``. On Azure the host of blobs (``wasb``) becomes that of files.
    Local paths, HDFS and unknown schemes are unchanged, because their schemes are different services.
    """
    store = known_store(location)
    if store is None or store.canonical is None:
        return location
    rest = location.partition("://")[2]
    if store.kind == "azure":
        authority, slash, key = rest.partition("/")
        rest = f"{authority.replace('.blob.', '.dfs.', 1)}{slash}{key}"
    return f"{store.canonical}://{rest}"


@dataclass(frozen=True)
class StoreLocation:
    """A location on a store; ``authority`` is between ``://`` and the key, which is a path on HDFS."""

    scheme: str
    authority: str
    key: str

    @classmethod
    def parse(cls, location: str) -> StoreLocation:
        """Parse ``scheme://authority/key``. Raises StorageError for an unsupported store."""
        scheme, _, rest = location.partition("://")
        authority, _, key = rest.partition("/")
        store = _BY_SCHEME.get(scheme)
        if store is None:
            raise StorageError(f"{location} is on no known store; known are file, {', '.join(sorted(_BY_SCHEME))}")
        if not store.authority.fullmatch(authority):
            # Do not show the location: it may contain credentials, as in old Hadoop releases.
            raise StorageError(
                f"a location on {scheme}:// does not say where it is: {store.expected} is expected, and nothing else, "
                f"after {scheme}://; credentials belong in drill.metastore.iceberg.config.properties"
            )
        if store.has_folders and not {".", ".."}.isdisjoint(key.split("/")):
            raise StorageError(f"{location} has a step . or .. in its path; write the path without it")
        return cls(scheme, authority, key)

    @property
    def root(self) -> str:
        """The location of the bucket itself, without a trailing slash."""
        return f"{self.scheme}://{self.authority}"

    @property
    def kind(self) -> str:
        """The kind of store: ``s3``, ``gcs``, ``azure``, ``hdfs``."""
        return _BY_SCHEME[self.scheme].kind

    @property
    def bucket(self) -> str:
        """The bucket; on Azure the container, on HDFS the namenode or nameservice."""
        return self.authority.partition("@")[0] if self.kind == "azure" else self.authority

    @property
    def account(self) -> str:
        """Azure's storage account; empty for other stores."""
        return self.authority.partition("@")[2].partition(".")[0] if self.kind == "azure" else ""
