"""A PyIceberg catalog without Iceberg views: lists of them are empty, and everything else about them is refused."""

from __future__ import annotations

import pyarrow as pa
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.typedef import EMPTY_DICT, Identifier, Properties
from pyiceberg.view import View
from pyiceberg.view.metadata import ViewVersion

from metastore.errors import InvalidRequestError


class CatalogWithoutViews(Catalog):
    """The part of a catalog that is about views."""

    def list_views(self, namespace: str | Identifier) -> list[Identifier]:
        """Always empty."""
        return []

    def view_exists(self, identifier: str | Identifier) -> bool:
        """Always False."""
        return False

    def load_view(self, identifier: str | Identifier) -> View:
        """Refused: this layout has no views."""
        raise InvalidRequestError(f"the file system catalog holds no Iceberg views: {identifier}")

    def register_view(self, identifier: str | Identifier, metadata_location: str) -> View:
        """Refused: this layout has no views."""
        return self.load_view(identifier)

    def drop_view(self, identifier: str | Identifier) -> None:
        """Refused: this layout has no views."""
        self.load_view(identifier)

    def create_view(
        self,
        identifier: str | Identifier,
        schema: Schema | pa.Schema,
        view_version: ViewVersion,
        location: str | None = None,
        properties: Properties = EMPTY_DICT,
    ) -> View:
        """Refused: this layout has no views."""
        return self.load_view(identifier)
