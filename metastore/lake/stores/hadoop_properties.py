"""Converts Hadoop's connector keys to PyIceberg's FileIO keys, for the store of one location; pure.

Operators set the keys of the S3A, GCS and ABFS connectors, as in Drill's ``config.properties``. PyIceberg's keys
(``s3.…``, ``gcs.…``, ``adls.…``, ``client.…``) have precedence and are passed unchanged. Keys without a counterpart are
passed too, because each reader ignores unknown ones. Keys for one bucket or storage account have precedence over
general ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import urlsplit

from metastore.lake.stores.hadoop_durations import seconds_of
from metastore.lake.stores.locations import StoreLocation

_Convert = Callable[[str], str | None]

SERVICE_ACCOUNT_FILE: Final = "gcs.service-account-file"
SERVICE_ACCOUNT_JSON: Final = "gcs.service-account-json"
GCS_ANONYMOUS: Final = "gcs.anonymous"
ADLS_AUTHORITY_HOST: Final = "adls.authority-host"
"""Keys of this package, for settings of the connectors that PyIceberg has no key for."""

_CENTRAL_S3: Final = "s3.amazonaws.com"
_REGION_OF_AMAZON: Final = re.compile(r"s3[.-](?:dualstack\.)?([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com(?:\.cn)?")
"""Host names with a region: S3A takes the region from the host if no key names one."""
_CENTRAL_AZURE: Final = "core.windows.net"


def _same(value: str) -> str:
    return value


def _is_true(value: str) -> bool:
    return value.strip().lower() == "true"


def _negate(value: str) -> str:
    return "false" if _is_true(value) else "true"


def _seconds(duration: str) -> str | None:
    seconds = seconds_of(duration)
    return None if seconds is None else f"{seconds:g}"


def _anonymous(providers: str) -> str | None:
    return "true" if "AnonymousAWSCredentialsProvider" in providers else None


def _encryption(algorithm: str) -> str | None:
    return {"SSE-S3": "AES256", "AES256": "AES256", "SSE-KMS": "aws:kms"}.get(algorithm)


def _flag_unauthenticated(kind: str) -> str | None:
    return "true" if kind == "UNAUTHENTICATED" else None


def _tenant(endpoint: str) -> str | None:
    """Return the tenant of ``https://login.microsoftonline.com/<tenant>/oauth2/token``."""
    return urlsplit(endpoint).path.strip("/").split("/")[0] or None


def _authority(endpoint: str) -> str | None:
    parts = urlsplit(endpoint)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else None


_S3A: Final[tuple[tuple[str, str, _Convert], ...]] = (
    ("fs.s3a.access.key", "s3.access-key-id", _same),
    ("fs.s3a.secret.key", "s3.secret-access-key", _same),
    ("fs.s3a.session.token", "s3.session-token", _same),
    ("fs.s3a.endpoint.region", "s3.region", _same),
    ("fs.s3a.path.style.access", "s3.force-virtual-addressing", _negate),
    ("fs.s3a.aws.credentials.provider", "s3.anonymous", _anonymous),
    ("fs.s3a.assumed.role.arn", "s3.role-arn", _same),
    ("fs.s3a.assumed.role.session.name", "s3.role-session-name", _same),
    ("fs.s3a.connection.establish.timeout", "s3.connect-timeout", _seconds),
    ("fs.s3a.connection.timeout", "s3.request-timeout", _seconds),
    ("fs.s3a.encryption.algorithm", "s3.server-side-encryption", _encryption),
    ("fs.s3a.encryption.key", "s3.sse-kms-key-id", _same),
)
_GCS: Final[tuple[tuple[str, str, _Convert], ...]] = (
    ("fs.gs.project.id", "gcs.project-id", _same),
    ("fs.gs.storage.root.url", "gcs.service.host", _same),
    ("google.cloud.auth.service.account.json.keyfile", SERVICE_ACCOUNT_FILE, _same),
    ("fs.gs.auth.service.account.json.keyfile", SERVICE_ACCOUNT_FILE, _same),
    ("fs.gs.auth.type", GCS_ANONYMOUS, _flag_unauthenticated),
)
_ABFS: Final[tuple[tuple[str, str, _Convert], ...]] = (
    ("fs.azure.account.key", "adls.account-key", _same),
    ("fs.azure.sas.fixed.token", "adls.sas-token", _same),
    ("fs.azure.account.oauth2.client.id", "adls.client-id", _same),
    ("fs.azure.account.oauth2.client.secret", "adls.client-secret", _same),
    ("fs.azure.account.oauth2.client.endpoint", "adls.tenant-id", _tenant),
    ("fs.azure.account.oauth2.client.endpoint", ADLS_AUTHORITY_HOST, _authority),
)


def file_io_properties(location: str, properties: Mapping[str, str]) -> dict[str, str]:
    """Return FileIO properties for the store of ``location``: ``properties`` and its Hadoop keys, converted.

    Invalid values (a timeout that is not a number) are left out, like unknown keys.
    """
    return {**_translate(StoreLocation.parse(location), properties), **properties}


def _translate(place: StoreLocation, properties: Mapping[str, str]) -> dict[str, str]:
    match place.kind:
        case "s3":
            hadoop = _for_bucket(place.bucket, properties)
            return {**_apply_rules(_S3A, hadoop), **_s3_endpoint(hadoop)}
        case "gcs":
            return {**_apply_rules(_GCS, properties), **_service_account(properties)}
        case "azure":
            hadoop = _for_account(place, properties)
            return {"adls.account-name": place.account, **_azure_endpoint(place, hadoop), **_apply_rules(_ABFS, hadoop)}
        case _:
            return {}


def _apply_rules(rules: tuple[tuple[str, str, _Convert], ...], hadoop: Mapping[str, str]) -> dict[str, str]:
    found = ((key, convert(hadoop[name])) for name, key, convert in rules if hadoop.get(name))
    return {key: value for key, value in found if value is not None}


def _for_bucket(bucket: str, properties: Mapping[str, str]) -> dict[str, str]:
    own = f"fs.s3a.bucket.{bucket}."
    special = {f"fs.s3a.{key[len(own) :]}": value for key, value in properties.items() if key.startswith(own)}
    return {**properties, **special}


def _for_account(place: StoreLocation, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the keys without ABFS's account suffix, and WASB's spelling of a SAS token."""
    special = {}
    domain = _azure_domain(place)
    for host in (place.account, f"{place.account}.blob.{domain}", f"{place.account}.dfs.{domain}"):
        own = f".{host}"
        special.update({key.removesuffix(own): value for key, value in properties.items() if key.endswith(own)})
        if token := properties.get(f"fs.azure.sas.{place.bucket}.{host}"):
            special["fs.azure.sas.fixed.token"] = token
    return {**properties, **special}


def _s3_endpoint(hadoop: Mapping[str, str]) -> dict[str, str]:
    """Return S3A's endpoint, completed with the scheme that another key sets, and the region in it, if any.

    Amazon's central endpoint is dropped: it does not say anything about the bucket.
    """
    endpoint = hadoop.get("fs.s3a.endpoint", "").rstrip("/")
    host = endpoint.rpartition("://")[2]
    if host in ("", _CENTRAL_S3):
        return {}
    secure = _is_true(hadoop.get("fs.s3a.connection.ssl.enabled", "true"))
    found = {"s3.endpoint": endpoint if "://" in endpoint else f"{'https' if secure else 'http'}://{host}"}
    if (region := _REGION_OF_AMAZON.fullmatch(host)) and not hadoop.get("fs.s3a.endpoint.region"):
        found["s3.region"] = region[1]
    return found


def _azure_endpoint(place: StoreLocation, hadoop: Mapping[str, str]) -> dict[str, str]:
    """Return ABFS's endpoint: a host and port with accounts as folders; without it, the location names the cloud.

    As in ABFS, an endpoint without a port is ignored, and TLS is off if both scheme and settings allow it.
    """
    endpoint = hadoop.get("fs.azure.abfs.endpoint", "").rstrip("/")
    if ":" in endpoint:
        secure = place.scheme in ("abfss", "wasbs") or _is_true(hadoop.get("fs.azure.always.use.https", "true"))
        base = endpoint if "://" in endpoint else f"{'https' if secure else 'http'}://{endpoint}"
        return {"adls.account-host": f"{base}/{place.account}"}
    domain = _azure_domain(place)
    return {} if domain == _CENTRAL_AZURE else {"adls.account-host": f"{place.account}.blob.{domain}"}


def _azure_domain(place: StoreLocation) -> str:
    """Return the cloud of ``<account>.dfs.<domain>``: sovereign clouds have their own domains."""
    return ".".join(place.authority.partition("@")[2].split(".")[2:]) or _CENTRAL_AZURE


def _service_account(hadoop: Mapping[str, str]) -> dict[str, str]:
    """Return a key that is configured field by field as the JSON of Google's key files."""
    for prefix in ("fs.gs.auth.service.account", "google.cloud.auth.service.account"):
        email, key = hadoop.get(f"{prefix}.email"), hadoop.get(f"{prefix}.private.key")
        if email and key:
            account = {
                "client_email": email,
                "private_key": key.replace("\\n", "\n"),
                "private_key_id": hadoop.get(f"{prefix}.private.key.id", ""),
            }
            return {SERVICE_ACCOUNT_JSON: json.dumps(account)}
    return {}
