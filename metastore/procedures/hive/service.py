"""The Hive Metastore of a call: that of the catalog that the procedure was called in."""

from __future__ import annotations

from collections.abc import Mapping

from metastore.errors import InvalidRequestError
from metastore.hive.client import HiveClient
from metastore.hive.listing import Nested
from metastore.procedures.framework.model import CallContext


def hive_client(context: CallContext) -> HiveClient:
    """A client of the catalog's service, to be closed. InvalidRequestError for a catalog of another kind."""
    properties = hive_properties(context)
    user = properties.get("ugi")
    return HiveClient(properties["uri"], user=user.partition(":")[0] if user else None)


def hive_properties(context: CallContext) -> Mapping[str, str]:
    """The catalog's properties, which open the stores of its tables too. InvalidRequestError as above."""
    settings = context.settings.catalogs.get(context.catalog)
    if settings is None or settings.type != "hive" or "uri" not in settings.properties:
        hives = [name for name, each in context.settings.catalogs.items() if each.type == "hive"]
        known = f"call it in {' or '.join(hives)}" if hives else "configure one as drill.metastore.catalogs.<name>"
        raise InvalidRequestError(
            f"catalog {context.catalog} is not on a Hive Metastore (type = hive, with its uri); {known}"
        )
    return {**settings.properties, **context.settings.limits.properties}


def nested_of(text: str) -> Nested:
    """What ``recursive_directory`` says. InvalidRequestError for anything but true, false and fail."""
    try:
        return Nested(text.lower())
    except ValueError:
        raise InvalidRequestError(f"recursive_directory is 'true', 'false' or 'fail', not {text!r}") from None
