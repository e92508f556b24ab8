"""Converts options of a data location to PyIceberg's FileIO keys; pure.

A storage plugin may have three kinds of keys: PyIceberg's (``s3.region``), those of pyarrow's clients (``region``,
``endpoint_override``), and Hadoop's (``fs.s3a.endpoint.region``). The first kind has precedence over the second, the
second over the third. Settings without a key come from the environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from metastore.errors import InvalidRequestError
from metastore.ground.suggestions import did_you_mean
from metastore.lake.stores.hadoop_properties import GCS_ANONYMOUS, file_io_properties
from metastore.lake.stores.locations import StoreLocation

_SCHEME: Final = "scheme"
_ENDPOINTS: Final[Mapping[str, tuple[str, str, str]]] = {
    "s3": ("endpoint_override", "scheme", "s3.endpoint"),
    "gcs": ("endpoint_override", "scheme", "gcs.service.host"),
    "azure": ("blob_storage_authority", "blob_storage_scheme", "adls.account-host"),
}
_NAMES: Final[Mapping[str, Mapping[str, str]]] = {
    "s3": {
        "region": "s3.region",
        "access_key": "s3.access-key-id",
        "secret_key": "s3.secret-access-key",
        "session_token": "s3.session-token",
        "anonymous": "s3.anonymous",
        "role_arn": "s3.role-arn",
        "session_name": "s3.role-session-name",
        "connect_timeout": "s3.connect-timeout",
        "request_timeout": "s3.request-timeout",
        "force_virtual_addressing": "s3.force-virtual-addressing",
    },
    "gcs": {"anonymous": GCS_ANONYMOUS, "project_id": "gcs.project-id", "access_token": "gcs.oauth2.token"},
    "azure": {
        "account_name": "adls.account-name",
        "account_key": "adls.account-key",
        "sas_token": "adls.sas-token",
        "tenant_id": "adls.tenant-id",
        "client_id": "adls.client-id",
        "client_secret": "adls.client-secret",
    },
}


def data_properties(place: StoreLocation, options: Mapping[str, str]) -> dict[str, str]:
    """Return FileIO properties for the data at ``place``.

    Unknown keys with a dot are accepted, because other engines read the same configuration. Raises InvalidRequestError
    for an unknown key without a dot, which must be a misspelled option of pyarrow's.
    """
    names = _NAMES.get(place.kind, {})
    endpoint, scheme, key = _ENDPOINTS[place.kind]
    dotted = {name: value for name, value in options.items() if "." in name}
    found: dict[str, str] = {}
    for name, value in options.items():
        if name in names:
            found[names[name]] = value
        elif name == endpoint:
            found[key] = value if "://" in value else f"{options.get(scheme, 'https')}://{value}"
        elif name not in dotted and name != scheme:
            known = (*names, endpoint, scheme)
            raise InvalidRequestError(
                f"{name} is no option of {place.scheme}:// locations{did_you_mean(name, known)}; known are Hadoop's "
                f"and PyIceberg's keys, and {', '.join(sorted(known))}"
            )
    if place.kind == "azure" and key in found and place.account not in found[key]:
        found[key] = f"{found[key].rstrip('/')}/{place.account}"
    of_pyiceberg = {name: value for name, value in dotted.items() if not name.startswith("fs.")}
    return {**file_io_properties(place.root, dotted), **found, **of_pyiceberg}
