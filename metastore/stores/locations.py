"""What a location says about its store: scheme, bucket (or container), key; and which stores are served.

Keys are taken as they stand, byte for byte: what looks like a query or an escape is part of the name. Only on HDFS,
which has folders, ``.`` and ``..`` are no names, and are refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from metastore.errors import StorageError

StoreKind = Literal["s3", "gcs", "azure", "hdfs"]

_KINDS: Final[dict[str, StoreKind]] = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs", "az"), "azure"),
    **dict.fromkeys(("hdfs", "webhdfs", "swebhdfs"), "hdfs"),
}
_EXPECTED: Final[dict[StoreKind, str]] = {
    "s3": "the name of a bucket",
    "gcs": "the name of a bucket",
    "azure": "<container>@<account>.dfs.core.windows.net",
    "hdfs": "<namenode>:<port> or the name of a nameservice",
}

_SHARED: Final[dict[StoreKind | None, str]] = {"s3": "s3", "gcs": "gs", "azure": "abfss"}
"""The one scheme of each object store."""

_BUCKET: Final = re.compile(r"[A-Za-z0-9][\w.-]*")
_CONTAINER: Final = re.compile(r"[A-Za-z0-9$][\w.-]*@[A-Za-z0-9][\w.-]*")
_AUTHORITIES: Final[dict[StoreKind, re.Pattern[str]]] = {
    "s3": _BUCKET,
    "gcs": _BUCKET,
    "azure": _CONTAINER,
    "hdfs": re.compile(r"[A-Za-z0-9][\w.-]*(:\d{1,5})?"),
}


def is_local(location: str) -> bool:
    """Whether ``location`` is a plain path or a ``file:`` URI."""
    return "://" not in location or location.startswith("file:")


def is_on_object_store(location: str) -> bool:
    """Whether ``location`` is on S3, GCS or Azure."""
    scheme, separator, _ = location.partition("://")
    return bool(separator) and _KINDS.get(scheme) in _SHARED


def one_spelling(location: str) -> str:
    """``location`` with the scheme that all spellings of its store share: ``s3``, ``gs`` or ``abfss``.

    ``s3a://b/k`` and ``s3n://b/k`` become ``s3://b/k``. On Azure the host of blobs (``wasb``) becomes that of files.
    Local paths, HDFS and unknown schemes stay as they are: there another scheme is another service.
    """
    scheme, separator, rest = location.partition("://")
    kind = _KINDS.get(scheme) if separator else None
    if kind not in _SHARED:
        return location
    if kind == "azure":
        authority, slash, key = rest.partition("/")
        rest = f"{authority.replace('.blob.', '.dfs.', 1)}{slash}{key}"
    return f"{_SHARED[kind]}://{rest}"


@dataclass(frozen=True)
class StoreLocation:
    """One place on a store; ``authority`` is what stands between ``://`` and the key, which on HDFS is a path."""

    scheme: str
    authority: str
    key: str

    @classmethod
    def parse(cls, location: str) -> StoreLocation:
        """The parts of ``scheme://authority/key``. Raises StorageError for a store that is not served."""
        scheme, _, rest = location.partition("://")
        authority, _, key = rest.partition("/")
        if scheme not in _KINDS:
            raise StorageError(f"{location} is on no known store; known are file, {', '.join(sorted(_KINDS))}")
        kind = _KINDS[scheme]
        if not _AUTHORITIES[kind].fullmatch(authority):
            # The location is not shown: it may hold credentials, as old Hadoop releases had them there.
            raise StorageError(
                f"a location on {scheme}:// does not say where it is: {_EXPECTED[kind]} is expected, and nothing else, "
                f"after {scheme}://; credentials belong in drill.metastore.iceberg.config.properties"
            )
        if kind == "hdfs" and not {".", ".."}.isdisjoint(key.split("/")):
            raise StorageError(f"{location} has a step . or .. in its path, which HDFS does not know")
        return cls(scheme, authority, key)

    @property
    def root(self) -> str:
        """The location of the bucket itself, without a slash at the end."""
        return f"{self.scheme}://{self.authority}"

    @property
    def kind(self) -> StoreKind:
        """Whose protocol the store speaks."""
        return _KINDS[self.scheme]

    @property
    def bucket(self) -> str:
        """Bucket; on Azure the container, on HDFS the namenode or nameservice."""
        return self.authority.partition("@")[0] if self.kind == "azure" else self.authority

    @property
    def account(self) -> str:
        """Azure's storage account; empty elsewhere."""
        return self.authority.partition("@")[2].partition(".")[0] if self.kind == "azure" else ""
