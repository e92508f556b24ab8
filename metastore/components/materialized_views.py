"""The materialized views component: one unit for each view, in Drill's columns."""

from __future__ import annotations

from typing import ClassVar

from metastore.components.component import single_type
from metastore.components.named_components import NamedComponent
from metastore.model.materialized_view_unit import MaterializedViewMetadataUnit
from metastore.model.vocabulary import MetadataType

MATERIALIZED_VIEWS = single_type("materialized_views", MaterializedViewMetadataUnit, MetadataType.MATERIALIZED_VIEW)


class MaterializedViews(NamedComponent[MaterializedViewMetadataUnit]):
    """Definitions of materialized views and the locations of their rows, by name."""

    noun: ClassVar[str] = "materialized view"
