"""Opens the Hive Metastore of the catalog in which a procedure is called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from metastore.errors import ConfigError, InvalidRequestError
from metastore.procedures.framework.model import CallContext
from metastore.sources.hive.client import LOCK_POLLS, HiveClient


def hive_client(context: CallContext) -> HiveClient:
    """Returns a client of the catalog's service; the caller must close it.

    Raises InvalidRequestError if the catalog is not on a Hive Metastore, ConfigError if a lock property is not a
    number.
    """
    properties = hive_properties(context)
    user = properties.get("ugi")
    return HiveClient(
        properties["uri"], user=user.partition(":")[0] if user else None, lock_polls=_lock_polls(properties)
    )


def _lock_polls(properties: Mapping[str, str]) -> Sequence[float]:
    """Returns the pauses between checks of a lock in seconds, doubling each time, by PyIceberg's properties."""
    if LOCK_WAITS.isdisjoint(properties):
        return LOCK_POLLS
    retries, shortest, longest = (_not_negative(properties, key, default) for key, default in _LOCK_DEFAULTS.items())
    return [min(shortest * 2**n, longest) for n in range(int(retries))]


def _not_negative(properties: Mapping[str, str], key: str, default: float) -> float:
    text = properties.get(key)
    try:
        found = default if text is None else float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < _MOST:
        raise ConfigError(f"catalog property {key} is {text!r}; a number from 0 to {_MOST} is expected")
    return found


_LOCK_DEFAULTS: Final = {
    "lock-check-retries": len(LOCK_POLLS),
    "lock-check-min-wait-time": LOCK_POLLS[0],
    "lock-check-max-wait-time": LOCK_POLLS[-1],
}
LOCK_WAITS: Final = frozenset(_LOCK_DEFAULTS)
_MOST: Final = 3_600


def hive_properties(context: CallContext) -> Mapping[str, str]:
    """Returns the catalog's properties, which also open its tables' stores. Raises InvalidRequestError as above."""
    settings = context.settings.catalogs.get(context.catalog)
    if settings is None or settings.type != "hive" or "uri" not in settings.properties:
        hives = [name for name, each in context.settings.catalogs.items() if each.type == "hive"]
        known = f"call it in {' or '.join(hives)}" if hives else "configure one as drill.metastore.catalogs.<name>"
        raise InvalidRequestError(
            f"catalog {context.catalog} is not on a Hive Metastore (type = hive, with its uri); {known}"
        )
    return {**settings.properties, **context.settings.limits.properties}
