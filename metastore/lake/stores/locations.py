"""Parses locations: scheme, bucket (or container) and key; defines which stores are supported, and what names a folder.

Keys are used unchanged, byte for byte: a query or an escape is part of the name. Only HDFS, which has folders, refuses
``.`` and ``..`` as names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import unquote

from metastore.errors import InvalidRequestError, StorageError

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
"""The canonical scheme of each object store."""

_NO_NAME: Final = re.compile(r"[/\\\x00-\x1f\x7f]")
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


def is_known(scheme: str) -> bool:
    """Whether this package has a client for the stores with ``scheme``."""
    return scheme in _KINDS


def is_on_object_store(location: str) -> bool:
    """Whether ``location`` is on S3, GCS or Azure."""
    scheme, separator, _ = location.partition("://")
    return bool(separator) and _KINDS.get(scheme) in _SHARED


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
    """A location on a store; ``authority`` is between ``://`` and the key, which is a path on HDFS."""

    scheme: str
    authority: str
    key: str

    @classmethod
    def parse(cls, location: str) -> StoreLocation:
        """Parse ``scheme://authority/key``. Raises StorageError for an unsupported store."""
        scheme, _, rest = location.partition("://")
        authority, _, key = rest.partition("/")
        if scheme not in _KINDS:
            raise StorageError(f"{location} is on no known store; known are file, {', '.join(sorted(_KINDS))}")
        kind = _KINDS[scheme]
        if not _AUTHORITIES[kind].fullmatch(authority):
            # Do not show the location: it may contain credentials, as in old Hadoop releases.
            raise StorageError(
                f"a location on {scheme}:// does not say where it is: {_EXPECTED[kind]} is expected, and nothing else, "
                f"after {scheme}://; credentials belong in drill.metastore.iceberg.config.properties"
            )
        if kind == "hdfs" and not {".", ".."}.isdisjoint(key.split("/")):
            raise StorageError(f"{location} has a step . or .. in its path, which HDFS does not know")
        return cls(scheme, authority, key)

    @property
    def root(self) -> str:
        """The location of the bucket itself, without a trailing slash."""
        return f"{self.scheme}://{self.authority}"

    @property
    def kind(self) -> StoreKind:
        """The kind of protocol of the store."""
        return _KINDS[self.scheme]

    @property
    def bucket(self) -> str:
        """The bucket; on Azure the container, on HDFS the namenode or nameservice."""
        return self.authority.partition("@")[0] if self.kind == "azure" else self.authority

    @property
    def account(self) -> str:
        """Azure's storage account; empty for other stores."""
        return self.authority.partition("@")[2].partition(".")[0] if self.kind == "azure" else ""
