"""What a name means in the metastore: a table, a view or a materialized view, and its columns.

An instance reads each name once, so it sees one state of each object; use one instance for each statement.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

from metastore.analyze.states import StoredTableState
from metastore.components.information_schema.relations import COMPONENTS_NAME, NAME
from metastore.components.metastore import Metastore
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.ground.suggestions import did_you_mean
from metastore.lake.stores.locations import require_folder_names
from metastore.model.identity import TableInfo
from metastore.model.materialized_view_unit import MaterializedViewMetadataUnit
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.tuple_schema import TupleSchema
from metastore.model.view_unit import ViewMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.sql.views.contract import Contract, Pins, from_json, pins
from metastore.sql.views.expansion import ViewText
from metastore.sql.views.text import DEFAULT_DIALECT

Thing = TableMetadataUnit | ViewMetadataUnit | MaterializedViewMetadataUnit


class NameKind(str, Enum):
    """The kinds of objects that a name can mean."""

    TABLE = "TABLE"
    VIEW = "VIEW"
    MATERIALIZED_VIEW = "MATERIALIZED_VIEW"

    def __str__(self) -> str:
        return self.value

    @property
    def noun(self) -> str:
        """The word for the kind in messages."""
        return self.value.lower().replace("_", " ")


@dataclass(frozen=True)
class Meaning:
    """The meaning of a name: its kind, and its unit."""

    kind: NameKind
    unit: Thing

    @property
    def schema(self) -> TupleSchema:
        """The columns."""
        return TupleSchema.from_json(self.unit.schema) if self.unit.schema else TupleSchema()

    @property
    def format(self) -> str | None:
        """The format of a table's files; None if it is not a table, or if another program did not record it."""
        return self.unit.table_type if isinstance(self.unit, TableMetadataUnit) else None

    @property
    def text_options(self) -> str:
        """The options of a table's delimited text, as ANALYZE found them.

        They are empty for the defaults and for other formats.
        """
        if not isinstance(self.unit, TableMetadataUnit):
            return ""
        return StoredTableState.of(self.unit.additional_metadata).text.to_json()

    @property
    def text(self) -> ViewText | None:
        """The query of a view or materialized view, as it was written; None for a table."""
        match self.unit:
            case ViewMetadataUnit(dialect=dialect, sql=sql, workspace_schema_path=path):
                return ViewText(sql or "", dialect or DEFAULT_DIALECT, tuple(path or ()))
            case MaterializedViewMetadataUnit(sql=sql, workspace_schema_path=path):
                return ViewText(sql or "", DEFAULT_DIALECT, tuple(path or ()))
            case _:
                return None

    @property
    def contract(self) -> Contract:
        """What a view reads of its sources; empty for a table, and for a view of an earlier release."""
        if isinstance(self.unit, TableMetadataUnit):
            return {}
        try:
            return from_json(json.loads(self.unit.additional_metadata or "{}"))
        except (ValueError, KeyError, TypeError, AttributeError):  # written by another program
            return {}


class Names:
    """Finds the meaning of names in ``metastore``. A view hides a table of the same name, as in Drill.

    ``unstored`` returns the unit of a table that is readable without metadata, None for any other name.
    """

    def __init__(
        self, metastore: Metastore, unstored: Callable[[TableInfo], TableMetadataUnit | None] | None = None
    ) -> None:
        self._metastore = metastore
        self._unstored = unstored
        self._known: dict[TableInfo, Meaning | None] = {}

    def find(self, name: TableInfo) -> Meaning | None:
        """Returns the meaning of ``name``; None if nothing has this name."""
        if name not in self._known:
            self._known[name] = self._look_up(name)
        return self._known[name]

    def get(self, name: TableInfo) -> Meaning:
        """Returns the meaning of ``name``. Raises NotFoundError, with the nearest names, if nothing has this name."""
        found = self.find(name)
        if found is None:
            if f"{name.storage_plugin}.{name.workspace}" == COMPONENTS_NAME or name.workspace.lower() == NAME:
                raise NotFoundError(
                    f"views do not read the metastore's own tables, as {name.workspace}.{name.name}; SELECT does"
                )
            known = self._every_name()
            hint = did_you_mean(str(name), known) or "."
            raise NotFoundError(f"unknown table or view {name}{hint} A table is known once it is analyzed")
        return found

    def schema(self, name: TableInfo) -> TupleSchema:
        """Returns the columns of ``name``. Raises NotFoundError if nothing has this name."""
        return self.get(name).schema

    def text(self, name: TableInfo) -> ViewText | None:
        """Returns the query of ``name``, pinned to its columns; None for a table and for an unknown name.

        Raises InvalidRequestError if a source lost a column that a view reads, or if a view's column changed its type.
        """
        found = self.find(name)
        text = None if found is None else found.text
        if found is None or text is None or not (pinned := self.pins(name, found)):
            return text
        return replace(text, pins=pinned)

    def pins(self, name: TableInfo, view: Meaning) -> Pins:
        """Returns the columns that ``view`` reads of sources whose columns have changed. Raises as :meth:`text`."""
        if not view.contract:
            return {}
        # A refresh stores rows in the current types of the sources, and updates the view's schema.
        may_change = view.kind is NameKind.MATERIALIZED_VIEW
        return pins(f"{view.kind.noun} {name}", view.contract, self._schema_now, types_may_change=may_change)

    def _schema_now(self, name: TableInfo) -> TupleSchema | None:
        found = self.find(name)
        return None if found is None else found.schema

    def require_outside_tables(self, view: TableInfo) -> None:
        """Raises InvalidRequestError if rows of ``view`` would lie in a table's folder, and so become its rows.

        Raises it also for a name that leads out of the workspace.
        """
        folders = view.name.strip("/").split("/")
        require_folder_names(folders)
        for depth in range(1, len(folders)):
            around = TableInfo(view.storage_plugin, view.workspace, "/".join(folders[:depth]))
            found = self.find(around)
            if found is not None and found.kind is NameKind.TABLE:
                raise InvalidRequestError(
                    f"{view} would keep its rows in the folder of table {around}, as rows of that; give it another name"
                )

    def _look_up(self, name: TableInfo) -> Meaning | None:
        asked: list[tuple[NameKind, Callable[[TableInfo], Thing | None]]] = [
            (NameKind.VIEW, self._metastore.views.find),
            (NameKind.MATERIALIZED_VIEW, self._metastore.materialized_views.find),
            (NameKind.TABLE, self._metastore.tables.requests.table_metadata),
            *([] if self._unstored is None else [(NameKind.TABLE, self._unstored)]),
        ]
        for kind, ask in asked:
            unit = ask(name)
            if unit is not None:
                return Meaning(kind, unit)
        return None

    def _every_name(self) -> list[str]:
        metastore = self._metastore
        columns = ("storagePlugin", "workspace", "tableName")
        tables = metastore.tables.read().metadata_types(MetadataType.TABLE).columns(*columns).to_arrow().to_pylist()
        named = [*metastore.views.list(), *metastore.materialized_views.list()]
        return [*(".".join(row[column] for column in columns) for row in tables), *(str(unit.info) for unit in named)]
