"""The views component: one unit for each view."""

from __future__ import annotations

from typing import ClassVar

from metastore.components.component import single_type
from metastore.components.named_components import NamedComponent
from metastore.model.view_unit import ViewMetadataUnit
from metastore.model.vocabulary import MetadataType

VIEWS = single_type("views", ViewMetadataUnit, MetadataType.VIEW)


class Views(NamedComponent[ViewMetadataUnit]):
    """Definitions of views, by name."""

    noun: ClassVar[str] = "view"
