"""FileIO properties -> obstore clients, and obstore's errors -> Python's own; the one door to that library.

Promise: no error that leaves here, nor its cause, holds a credential: neither the configured ones nor what a store's
answer or a signed URL repeats of them.
"""

from __future__ import annotations

import errno
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from textwrap import shorten
from typing import Any, Final

from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError
from obstore.store import AzureStore, GCSStore, S3Store

from metastore.distribution import install_command
from metastore.errors import ConfigError, StorageError
from metastore.redaction import remember, without_secrets
from metastore.stores.hadoop_properties import (
    ADLS_AUTHORITY_HOST,
    GCS_ANONYMOUS,
    SERVICE_ACCOUNT_FILE,
    SERVICE_ACCOUNT_JSON,
)
from metastore.stores.locations import StoreLocation

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


@dataclass(frozen=True)
class Bucket:
    """One bucket or container: ``store`` tries again by itself, ``once`` sends a request one time only."""

    store: Store
    once: Store

    def told(self, error: BaseException) -> str:
        """What obstore says, without its debugging output and without credentials."""
        return _short_reason(error)

    def cause(self, error: BaseException) -> BaseException | None:
        """``error`` itself, if it can be shown."""
        text = str(error)
        return error if _cleaned(text) == text else None

    @contextmanager
    def plain_errors(self) -> Iterator[None]:
        """Within, obstore's errors become FileNotFoundError, PermissionError or OSError."""
        try:
            yield
        except FileNotFoundError as error:
            raise FileNotFoundError(errno.ENOENT, self.told(error)) from self.cause(error)
        except (PermissionDeniedError, UnauthenticatedError) as error:
            raise PermissionError(errno.EACCES, self.told(error)) from self.cause(error)
        except (BaseError, ValueError) as error:
            raise OSError(errno.EIO, self.told(error)) from self.cause(error)


class Buckets:
    """The buckets that FileIO ``properties`` open, each made on first use; safe across threads.

    A forked process starts with none, since a client's connections and threads do not survive a fork.
    """

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = dict(properties)
        remember(self._properties)  # Tasks in other processes read no configuration.
        self._open: dict[tuple[int, str], Bucket] = {}
        self._lock = threading.Lock()

    def of(self, place: StoreLocation) -> Bucket:
        """The bucket that holds ``place``. Raises ConfigError for properties that the store's client refuses."""
        key = (os.getpid(), place.root)
        with self._lock:
            if key not in self._open:
                self._open[key] = self._made(place)
            return self._open[key]

    def _made(self, place: StoreLocation) -> Bucket:
        try:
            return Bucket(_store(place, self._properties, 5), _store(place, self._properties, 0))
        except (BaseError, ValueError, TypeError, OSError) as error:
            raise ConfigError(
                f"drill.metastore.iceberg.config.properties do not open {place.root}: {_short_reason(error)}"
            ) from None


def _short_reason(error: BaseException) -> str:
    text = str(error).partition("\n\nDebug source:")[0]
    return shorten(_cleaned(text), _LONGEST_TEXT, placeholder=" …")


def _cleaned(text: str) -> str:
    """Without secrets, and without what stands behind a question mark in URLs: a store may have signed it."""
    return _QUERY.sub(r"\1", without_secrets(text))


def _store(place: StoreLocation, properties: Mapping[str, str], retries: int) -> Store:
    again: Any = {"max_retries": retries}
    http: Any = _taken(_HTTP, properties)
    http.update({name: f"{http[name]}s" for name in _SECONDS & http.keys()})
    match place.kind:
        case "s3":
            options = _s3_options(place.bucket, properties)
            http["allow_http"] = str(options.get("endpoint", "")).startswith("http://")
            return S3Store(place.bucket, client_options=http, retry_config=again, **options)
        case "gcs":
            options = _with_token(_taken(_GCS, properties), _gcs_token(properties))
            http["allow_http"] = str(options.get("base_url", "")).startswith("http://")
            return GCSStore(place.bucket, client_options=http, retry_config=again, **options)
        case "azure":
            options = _with_token(_taken(_AZURE, properties), properties.get("adls.token"))
            if host := properties.get("adls.account-host"):
                options["endpoint"] = host if "://" in host else f"https://{host}"
            http["allow_http"] = str(options.get("endpoint", "")).startswith("http://")
            return AzureStore(place.bucket, client_options=http, retry_config=again, **options)
        case "hdfs":
            raise StorageError(f"{place.root} is no object store; its files go through HdfsFileIO")


def _taken(names: Mapping[str, str], properties: Mapping[str, str]) -> _Options:
    return {option: properties[name] for name, option in names.items() if properties.get(name)}


def _gcs_token(properties: Mapping[str, str]) -> str | None:
    """A token for the anonymous too: the client asks the machine's metadata service for one before each write else."""
    anonymous = properties.get(GCS_ANONYMOUS, "").lower() == "true"
    return properties.get("gcs.oauth2.token") or ("anonymous" if anonymous else None)


def _with_token(options: _Options, token: str | None) -> _Options:
    return {**options, "credential_provider": lambda: {"token": token, "expires_at": None}} if token else options


def _s3_options(bucket: str, properties: Mapping[str, str]) -> _Options:
    options = _taken(_S3, properties)
    if properties.get("s3.force-virtual-addressing", "false").lower() == "true":
        options["virtual_hosted_style_request"] = "true"
        if endpoint := options.get("endpoint"):
            scheme, _, host = endpoint.partition("://")
            options["endpoint"] = f"{scheme}://{bucket}.{host}"
    if role := properties.get("s3.role-arn", properties.get("client.role-arn")):
        keys = {name: options.pop(name, None) for name in ("access_key_id", "secret_access_key", "session_token")}
        session = properties.get("s3.role-session-name", properties.get("client.role-session-name", "metastore"))
        endpoint = properties.get("fs.s3a.assumed.role.sts.endpoint")
        options["credential_provider"] = _assumed(role, session, keys, options.get("region"), endpoint)
    return options


def _assumed(
    role: str, session: str, keys: Mapping[str, str | None], region: str | None, endpoint: str | None
) -> Callable[[], dict[str, str | datetime]]:
    """Credentials of an assumed role, asked for again whenever they run out."""
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
