"""One row of the views component: a view's definition in one or more dialects, and derived facts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from metastore.model.fields import ColumnType, stored_as
from metastore.model.named_unit import NamedUnit


@dataclass(frozen=True)
class ViewMetadataUnit(NamedUnit):
    """One view. Drill declares this component without implementing it, so the columns are ours, named in Drill's style.

    ``representations`` holds the query by dialect (sqlglot's names). The query in ``dialect`` defines the view; the
    others are translations. ``workspace_schema_path`` is where names without a plugin or workspace are looked up.
    ``schema`` is a tuple schema in JSON, ``fields`` Drill's own list of columns. ``dependencies`` maps the back-quoted
    name of everything that the query names to its kind: TABLE, VIEW or MATERIALIZED_VIEW. Times are in epoch ms.
    """

    bounded_columns: ClassVar[tuple[str, ...]] = ("owner", "lastModifiedTime")

    owner: str | None = stored_as("owner", ColumnType.STRING)
    dialect: str | None = stored_as("dialect", ColumnType.STRING)
    representations: Mapping[str, str] | None = stored_as("representations", ColumnType.STRING_MAP)
    schema: str | None = stored_as("schema", ColumnType.STRING)
    fields: str | None = stored_as("fields", ColumnType.STRING)
    workspace_schema_path: Sequence[str] | None = stored_as("workspaceSchemaPath", ColumnType.STRING_LIST)
    comment: str | None = stored_as("comment", ColumnType.STRING)
    column_comments: Mapping[str, str] | None = stored_as("columnComments", ColumnType.STRING_MAP)
    properties: Mapping[str, str] | None = stored_as("properties", ColumnType.STRING_MAP)
    dependencies: Mapping[str, str] | None = stored_as("dependencies", ColumnType.STRING_MAP)
    last_modified_time: int | None = stored_as("lastModifiedTime", ColumnType.LONG)
    additional_metadata: str | None = stored_as("additionalMetadata", ColumnType.STRING)

    @property
    def sql(self) -> str | None:
        """The query that defines the view, in ``dialect``."""
        return (self.representations or {}).get(self.dialect or "")
