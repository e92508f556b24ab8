"""The maximum size of a metadata file that is read, so that damaged or hostile files cannot exhaust memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Final

from metastore.config.section import Section

LIMITS_KEY: Final = "drill.metastore.limits"

LIMIT_PROPERTY: Final = "metastore.limits."
"""Prefix of the limits among the properties of a FileIO."""


@dataclass(frozen=True)
class LimitSettings:
    """Limits in bytes, which apply to the stored file and to its uncompressed content."""

    metadata_json: int = 128 << 20
    manifest: int = 128 << 20
    puffin: int = 256 << 20
    file_list: int = 256 << 20
    delta_log: int = 1 << 30
    view_file: int = 16 << 20
    backup: int = 512 << 20

    @property
    def properties(self) -> Mapping[str, str]:
        """Returns the limits as properties of a FileIO."""
        return {f"{LIMIT_PROPERTY}{each.name}": str(getattr(self, each.name)) for each in fields(self)}

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> LimitSettings:
        """Returns the limits in the ``properties`` of a FileIO, with defaults for those that are missing."""
        names = (each.name for each in fields(cls))
        given = {name: properties.get(f"{LIMIT_PROPERTY}{name}") for name in names}
        return cls(**{name: int(text) for name, text in given.items() if text is not None})


def limit_settings(section: Section) -> LimitSettings:
    """Read the settings below ``drill.metastore.limits``. Raises ConfigError for a size that is not above zero."""
    return LimitSettings(**{each.name: _positive_size(section, each.name) for each in fields(LimitSettings)})


def _positive_size(section: Section, name: str) -> int:
    size = section.require(name, section.size(name))
    if size <= 0:
        raise section.refusal(name, "a size above zero is expected")
    return size
