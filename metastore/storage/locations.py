"""What a location says about its store: scheme, bucket (or container), key; and which stores are served.

Keys are taken as they stand, byte for byte: what looks like a query or an escape is part of the name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from metastore.errors import StorageError

StoreKind = Literal["s3", "gcs", "azure"]

_KINDS: Final[dict[str, StoreKind]] = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gcs"),
    **dict.fromkeys(("abfs", "abfss", "wasb", "wasbs"), "azure"),
}

_BUCKET: Final = re.compile(r"[A-Za-z0-9][\w.-]*")
_CONTAINER: Final = re.compile(r"[A-Za-z0-9$][\w.-]*@[A-Za-z0-9][\w.-]*")


def is_local(location: str) -> bool:
    """Whether ``location`` is a plain path or a ``file:`` URI."""
    return "://" not in location or location.startswith("file:")


@dataclass(frozen=True)
class StoreLocation:
    """One place on an object store; ``authority`` is what stands between ``://`` and the key."""

    scheme: str
    authority: str
    key: str

    @classmethod
    def parse(cls, location: str) -> StoreLocation:
        """The parts of ``scheme://authority/key``. Raises StorageError for a store that is not served."""
        scheme, _, rest = location.partition("://")
        authority, _, key = rest.partition("/")
        if scheme in ("hdfs", "viewfs", "webhdfs"):
            raise StorageError(
                f"{location} is on HDFS, which is not served: a commit there needs a rename that refuses an existing "
                "target, and what HDFS clients do has not been shown to. Keep the metastore on the local disk, on S3, "
                "GCS or Azure, or on HDFS behind a catalog"
            )
        if scheme not in _KINDS:
            raise StorageError(f"{location} is on no known store; known are file, {', '.join(sorted(_KINDS))}")
        on_azure = _KINDS[scheme] == "azure"
        if not (_CONTAINER if on_azure else _BUCKET).fullmatch(authority):
            # The location is not shown: it may hold credentials, as old Hadoop releases had them there.
            wanted = "<container>@<account>.dfs.core.windows.net" if on_azure else "the name of a bucket"
            raise StorageError(
                f"a location on {scheme}:// does not say where it is: {wanted} is expected, and nothing else, after "
                f"{scheme}://; credentials belong in drill.metastore.iceberg.config.properties"
            )
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
        """Bucket; on Azure the container."""
        return self.authority.partition("@")[0] if self.kind == "azure" else self.authority

    @property
    def account(self) -> str:
        """Azure's storage account; empty elsewhere."""
        return self.authority.partition("@")[2].partition(".")[0] if self.kind == "azure" else ""
