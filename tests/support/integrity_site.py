"""A metastore of three versions in a folder of the test, and what stands in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.session import Session, connect

MakeUnit = Callable[..., TableMetadataUnit]
TABLES = "abc"


@dataclass
class Site:
    """A metastore below ``folder``; ``known`` are the tables of each version that was committed."""

    folder: Path
    unit: MakeUnit
    keys: dict[str, Any] = field(default_factory=dict)
    known: dict[int, set[str]] = field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """Its settings, with the site's own ``keys`` over them."""
        location = {"base_path": str(self.folder), "relative_path": "m"}
        return Settings.from_mapping({"drill.metastore.iceberg.location": location, **self.keys}, environ={})

    @property
    def component(self) -> Path:
        """The folder of the tables component."""
        return self.folder / "m/tables"

    @property
    def metadata(self) -> Path:
        """Its folder of metadata."""
        return self.component / "metadata"

    def fill(self) -> None:
        """Commit one table after another."""
        with Metastore.open(self.settings) as metastore:
            for count, name in enumerate(TABLES, 1):
                version = metastore.tables.modify().overwrite([self.unit(name)]).execute()
                self.known[version] = set(TABLES[:count])

    def session(self) -> Session:
        """A new session."""
        return connect(self.settings)

    def tables(self) -> set[str]:
        """The tables that a new reader finds."""
        with Metastore.open(self.settings) as metastore:
            units = metastore.tables.read().metadata_types(MetadataType.ALL).execute()
            return {str(unit.table_name) for unit in units}

    def contents(self) -> list[tuple[str, bytes]]:
        """Names and contents of all files below the metastore but the hint, wherever they lie."""
        files = [path for path in (self.folder / "m").rglob("*") if path.is_file()]
        return sorted((path.name, path.read_bytes()) for path in files if path.name != "version-hint.text")
