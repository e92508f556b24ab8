"""Metastores that a test opens, on any store and catalog; they are closed when the test ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.ground.clock import Clock

OpenMetastore = Callable[..., Metastore]


def settings_in(root: str, properties: Mapping[str, str] | None = None, **iceberg: Any) -> Settings:
    """Settings of a metastore below ``root``; ``properties`` open its store, ``iceberg`` are more keys, and win."""
    # Without quotes, one key would be a path into another.
    quoted = {f'"{key}"': value for key, value in (properties or {}).items()}
    place = {"base_path": root, "relative_path": "metastore"}
    keys = {"location": place, **({"config.properties": quoted} if quoted else {}), **iceberg}
    return Settings.from_mapping({"drill.metastore.iceberg": keys}, environ={})


@contextmanager
def opened_metastores(settings: Callable[..., Settings], clock: Clock) -> Iterator[OpenMetastore]:
    """A function that opens the metastore of ``settings``, which get its keyword arguments."""
    opened = []

    def open_(*, clock: Clock | None = clock, **iceberg: Any) -> Metastore:
        opened.append(Metastore.open(settings(**iceberg), clock=clock))
        return opened[-1]

    yield open_
    for metastore in opened:
        metastore.tables.expiration_worker.join()
        metastore.close()
