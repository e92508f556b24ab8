"""Translates keys of a storage plugin to options of deltalake. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from metastore.lake.stores.arrow_options import data_properties
from metastore.lake.stores.hadoop_properties import SERVICE_ACCOUNT_FILE, SERVICE_ACCOUNT_JSON
from metastore.lake.stores.locations import StoreLocation, is_on_object_store

_NAMES: Final = {
    "s3.access-key-id": "AWS_ACCESS_KEY_ID",
    "s3.secret-access-key": "AWS_SECRET_ACCESS_KEY",
    "s3.session-token": "AWS_SESSION_TOKEN",
    "s3.region": "AWS_REGION",
    "s3.endpoint": "AWS_ENDPOINT_URL",
    "s3.anonymous": "AWS_SKIP_SIGNATURE",
    "s3.force-virtual-addressing": "AWS_VIRTUAL_HOSTED_STYLE_REQUEST",
    SERVICE_ACCOUNT_FILE: "GOOGLE_SERVICE_ACCOUNT",
    SERVICE_ACCOUNT_JSON: "GOOGLE_SERVICE_ACCOUNT_KEY",
    "adls.account-name": "AZURE_STORAGE_ACCOUNT_NAME",
    "adls.account-key": "AZURE_STORAGE_ACCOUNT_KEY",
    "adls.sas-token": "AZURE_STORAGE_SAS_KEY",
    "adls.client-id": "AZURE_STORAGE_CLIENT_ID",
    "adls.client-secret": "AZURE_STORAGE_CLIENT_SECRET",
    "adls.tenant-id": "AZURE_STORAGE_TENANT_ID",
    "adls.account-host": "AZURE_STORAGE_ENDPOINT",
}


def delta_options(location: str, options: Mapping[str, str]) -> dict[str, str]:
    """Returns options of deltalake for the table at ``location``.

    Keys with a dot are Hadoop's or PyIceberg's; they are translated. Other keys are deltalake's own; they are passed
    on, and take precedence.
    """
    own = {name: value for name, value in options.items() if "." not in name}
    if not is_on_object_store(location) or len(own) == len(options):
        return own
    dotted = {name: value for name, value in options.items() if "." in name}
    properties = data_properties(StoreLocation.parse(location), dotted)
    found = {_NAMES[name]: value for name, value in properties.items() if name in _NAMES and value}
    if any(found.get(name, "").startswith("http://") for name in ("AWS_ENDPOINT_URL", "AZURE_STORAGE_ENDPOINT")):
        found["AWS_ALLOW_HTTP" if "AWS_ENDPOINT_URL" in found else "AZURE_STORAGE_ALLOW_HTTP"] = "true"
    return {**found, **own}
