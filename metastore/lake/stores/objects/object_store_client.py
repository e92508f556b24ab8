"""Creates obstore clients from FileIO properties, and converts obstore's errors to Python's; the only user of obstore.

Guarantee: no error raised here, nor its cause, contains a credential: neither configured ones, nor those that a store's
answer or a signed URL repeats.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from functools import lru_cache
from textwrap import shorten
from typing import Any, Final

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store

from metastore.engines.traffic import count
from metastore.errors import ConfigError, StorageError
from metastore.ground.distribution import install_command
from metastore.lake.stores.hadoop_properties import (
    ADLS_AUTHORITY_HOST,
    GCS_ANONYMOUS,
    SERVICE_ACCOUNT_FILE,
    SERVICE_ACCOUNT_JSON,
)
from metastore.lake.stores.locations import StoreLocation
from metastore.redaction import remember, without_secrets

Store = S3Store | GCSStore | AzureStore
_Options = dict[str, Any]

_S3: Final = {
    "client.access-key-id": "access_key_id",
    "client.secret-access-key": "secret_access_key",
    "client.session-token": "session_token",
    "client.region": "region",
    "s3.access-key-id": "access_key_id",
    "s3.secret-access-key": "secret_access_key",
    "s3.session-token": "session_token",
    "s3.region": "region",
    "s3.endpoint": "endpoint",
    "s3.anonymous": "skip_signature",
    "s3.server-side-encryption": "server_side_encryption",
    "s3.sse-kms-key-id": "sse_kms_key_id",
}
_GCS: Final = {
    SERVICE_ACCOUNT_FILE: "service_account",
    SERVICE_ACCOUNT_JSON: "service_account_key",
    GCS_ANONYMOUS: "skip_signature",
    "gcs.service.host": "base_url",
}
_AZURE: Final = {
    "adls.account-name": "account_name",
    "adls.account-key": "account_key",
    "adls.sas-token": "sas_key",
    "adls.client-id": "client_id",
    "adls.client-secret": "client_secret",
    "adls.tenant-id": "tenant_id",
    ADLS_AUTHORITY_HOST: "authority_host",
    "adls.anon": "skip_signature",
}
_HTTP: Final = {"s3.proxy-uri": "proxy_url", "s3.connect-timeout": "connect_timeout", "s3.request-timeout": "timeout"}
_SECONDS: Final = {"connect_timeout", "timeout"}

_QUERY: Final = re.compile(r"(https?://[^\s?]+)\?\S*")
_LONGEST_TEXT: Final = 600

_OF_CLIENTS: Final = ("s3.", "gcs.", "adls.", "client.", "fs.")
_OUTSIDE: Final = ("AWS_", "GOOGLE_", "AZURE_")
"""Beginnings of the properties, and of the variables of the environment, by which a client is made."""
_MOST_OPEN: Final = 64

PAGE: Final = 1_000
"""Entries in a page of a listing, as stores send them."""

_DELETED_TOGETHER: Final = {"s3": 1_000, "azure": 256, "gcs": 1}
"""Objects that one request deletes."""


@dataclass
class _AskingProcess:
    """The process whose threads send obstore's requests; a forked child has no such threads and would wait forever.

    The library starts its threads with the first request, once in a process and its children.
    """

    pid: int | None = None

    def begin(self) -> None:
        """Record that this process sends a request. Raises StorageError in a child of a process that did."""
        if self.pid is None:
            self.pid = os.getpid()
        elif self.pid != os.getpid():
            raise StorageError(
                "this process was forked from one that had asked an object store already, and the client does not "
                "survive a fork: start processes by multiprocessing's spawn or forkserver, or fork before the first "
                "request"
            )


_ASKING: Final = _AskingProcess()


def is_cut_off() -> bool:
    """Whether this process was forked from one that had sent requests: no client works here."""
    return _ASKING.pid is not None and _ASKING.pid != os.getpid()


_LAST_RESORT: Final = re.compile(r"//(169\.254\.\d+\.\d+|metadata\.google\.internal|metadata)[:/]")
"""The metadata service of a cloud's machine. Clients ask it for keys last, where they found none."""
_NO_KEYS: Final = (
    "no keys found: set them in the environment (AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; "
    "GOOGLE_APPLICATION_CREDENTIALS; AZURE_STORAGE_ACCOUNT_KEY) or as properties (s3.access-key-id and "
    "s3.secret-access-key; s3.anonymous = true for a public bucket); the machine has no role that gives any"
)


@dataclass(frozen=True)
class Bucket:
    """One bucket or container. Getting a client means that a request follows, which is counted."""

    _again: Store
    _once: Store

    @property
    def store(self) -> Store:
        """Return a client that retries by itself. Raises StorageError in a forked process that cannot use it."""
        _ASKING.begin()
        count(1)
        return self._again

    @property
    def once(self) -> Store:
        """Return a client that sends a request only once. Raises StorageError in a fork that cannot use it."""
        _ASKING.begin()
        count(1)
        return self._once

    def count_received(self, content: bytes) -> bytes:
        """Count and return the ``content`` of an answer."""
        count(received=len(content))
        return content

    def count_pages(self, entries: int) -> None:
        """Count the requests for further pages of a listing; ``entries`` is the number of its entries."""
        count(max(0, -(-entries // PAGE) - 1))

    def count_deletions(self, place: StoreLocation, keys: int) -> None:
        """Count the further requests of a deletion; ``keys`` is the number of its keys."""
        count(max(0, -(-keys // _DELETED_TOGETHER[place.kind]) - 1))

    def error_text(self, error: BaseException) -> str:
        """Return obstore's message, without debugging output and credentials."""
        return _short_reason(error)

    def cause(self, error: BaseException) -> BaseException | None:
        """Return ``error`` itself, if it contains no credentials."""
        text = str(error)
        return error if _redact(text) == text else None

    @contextmanager
    def plain_errors(self) -> Iterator[None]:
        """Within, obstore's errors become FileNotFoundError, PermissionError or OSError."""
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, self.error_text(error)) from self.cause(error)
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise PermissionError(errno.EACCES, self.error_text(error)) from self.cause(error)
        except (BaseError, ValueError) as error:
            raise OSError(errno.EIO, self.error_text(error)) from self.cause(error)


class Buckets:
    """The buckets of FileIO ``properties``, each opened on first use; threads may share it.

    Those of the same properties share their clients.

    ``configured_by`` names the configuration keys in errors. A forked process starts without buckets, because a
    client's connections and threads do not survive a fork.
    """

    def __init__(
        self, properties: Mapping[str, str], configured_by: str = "drill.metastore.iceberg.config.properties"
    ) -> None:
        self.properties = dict(properties)
        self.configured_by = configured_by
        remember(self.properties)  # Tasks in other processes do not read the configuration.
        self._open: dict[tuple[int, str], Bucket] = {}
        self._lock = threading.Lock()

    def of(self, place: StoreLocation) -> Bucket:
        """Return the bucket of ``place``. Raises ConfigError for properties that the store's client refuses."""
        key = (os.getpid(), place.root)
        with self._lock:
            if key not in self._open:
                self._open[key] = self._make_bucket(place)
            return self._open[key]

    def _make_bucket(self, place: StoreLocation) -> Bucket:
        try:
            used = {name: value for name, value in self.properties.items() if name.startswith(_OF_CLIENTS)}
            outside = {name: value for name, value in os.environ.items() if name.startswith(_OUTSIDE)}
            return _open_bucket(
                replace(place, key=""), frozenset(used.items()), frozenset(outside.items()), os.getpid()
            )
        except (BaseError, ValueError, TypeError, OSError) as error:
            raise ConfigError(f"{self.configured_by} do not open {place.root}: {_short_reason(error)}") from None


@lru_cache(maxsize=_MOST_OPEN)
def _open_bucket(
    place: StoreLocation, properties: frozenset[tuple[str, str]], _outside: frozenset[tuple[str, str]], _process: int
) -> Bucket:
    """Return the bucket of these properties that is open, or open it.

    A client takes 10 ms of a core to make, and a first request its handshakes: tables of one bucket share both.
    """
    known = dict(properties)
    return Bucket(_store(place, known, 5), _store(place, known, 0))


def plain_tag(tag: str | None) -> str | None:
    """Return an ETag without quotes and the mark of a weak one: answers of different requests differ in these."""
    return tag.removeprefix("W/").strip('"') if tag else None


def _short_reason(error: BaseException) -> str:
    text = str(error).partition("\n\nDebug source:")[0]
    if _LAST_RESORT.search(text):
        return _NO_KEYS
    return shorten(_redact(text), _LONGEST_TEXT, placeholder=" …")


def _redact(text: str) -> str:
    """Return the text without secrets and without query strings of URLs, which a store may have signed."""
    return _QUERY.sub(r"\1", without_secrets(text))


def _store(place: StoreLocation, properties: Mapping[str, str], retries: int) -> Store:
    """The client of a bucket with its credentials. Plain HTTP is allowed only to an endpoint that names it."""
    again: Any = {"max_retries": retries}
    http: Any = _take_options(_HTTP, properties)
    http.update({name: f"{http[name]}s" for name in _SECONDS & http.keys()})
    make: type[Store]
    match place.kind:
        case "s3":
            make, options = S3Store, _s3_options(place.bucket, properties)
        case "gcs":
            make, options = GCSStore, _with_token(_take_options(_GCS, properties), _gcs_token(properties))
        case "azure":
            make, options = AzureStore, _with_token(_take_options(_AZURE, properties), properties.get("adls.token"))
            if host := properties.get("adls.account-host"):
                options["endpoint"] = host if "://" in host else f"https://{host}"
        case _:
            raise StorageError(f"{place.root} is no object store; its files go through another FileIO")
    http["allow_http"] = str(options.get("endpoint") or options.get("base_url", "")).startswith("http://")
    return make(place.bucket, client_options=http, retry_config=again, **options)


def _take_options(names: Mapping[str, str], properties: Mapping[str, str]) -> _Options:
    return {option: properties[name] for name, option in names.items() if properties.get(name)}


def _gcs_token(properties: Mapping[str, str]) -> str | None:
    """Return a token, also for anonymous access: otherwise the client asks the metadata service before each write."""
    anonymous = properties.get(GCS_ANONYMOUS, "").lower() == "true"
    return properties.get("gcs.oauth2.token") or ("anonymous" if anonymous else None)


def _with_token(options: _Options, token: str | None) -> _Options:
    return {**options, "credential_provider": lambda: {"token": token, "expires_at": None}} if token else options


def _s3_options(bucket: str, properties: Mapping[str, str]) -> _Options:
    options = _take_options(_S3, properties)
    if properties.get("s3.force-virtual-addressing", "false").lower() == "true":
        options["virtual_hosted_style_request"] = "true"
        if endpoint := options.get("endpoint"):
            scheme, _, host = endpoint.partition("://")
            options["endpoint"] = f"{scheme}://{bucket}.{host}"
    if role := properties.get("s3.role-arn", properties.get("client.role-arn")):
        keys = {name: options.pop(name, None) for name in ("access_key_id", "secret_access_key", "session_token")}
        session = properties.get("s3.role-session-name", properties.get("client.role-session-name", "metastore"))
        endpoint = properties.get("fs.s3a.assumed.role.sts.endpoint")
        options["credential_provider"] = _assume_role(role, session, keys, options.get("region"), endpoint)
    return options


def _assume_role(
    role: str, session: str, keys: Mapping[str, str | None], region: str | None, endpoint: str | None
) -> Callable[[], dict[str, str | datetime]]:
    """Return credentials of an assumed role, renewed when they expire."""
    try:
        from boto3 import client  # noqa: PLC0415 - an extra, needed for nothing else
    except ImportError as error:
        raise ConfigError(f"to assume the role {role} the extra `aws` is needed: {install_command('aws')}") from error
    sts = client(
        "sts",
        aws_access_key_id=keys["access_key_id"],
        aws_secret_access_key=keys["secret_access_key"],
        aws_session_token=keys["session_token"],
        region_name=region,
        endpoint_url=endpoint,
    )

    def credentials() -> dict[str, str | datetime]:
        found = sts.assume_role(RoleArn=role, RoleSessionName=session)["Credentials"]
        return {
            "access_key_id": found["AccessKeyId"],
            "secret_access_key": found["SecretAccessKey"],
            "token": found["SessionToken"],
            "expires_at": found["Expiration"].astimezone(timezone.utc),
        }

    return credentials
