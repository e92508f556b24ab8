"""The procedures of a session: finds, describes, explains and calls them. ``ms.procedures``.

Place in the flow: SQL and Python programs both pass a name and arguments as given. The registry resolves the name,
``binding`` matches and casts the arguments, and ``run`` runs the procedure on the session's engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from metastore.components.catalogs import Catalogs
from metastore.config import Settings
from metastore.engines.engine import Engine
from metastore.engines.telemetry import operation
from metastore.errors import InvalidRequestError, MetastoreError
from metastore.procedures.framework.binding import GivenArgument, bind
from metastore.procedures.framework.builtin import register_builtin, register_installed
from metastore.procedures.framework.foreign_calls import OURS, other_name, with_defaults
from metastore.procedures.framework.model import BaseProcedure, CallContext
from metastore.procedures.framework.registry import Provider, Registry
from metastore.procedures.framework.run import explain, run
from metastore.procedures.framework.spellings import in_our_words

Progress = Callable[[int, int], None]
"""Called with the number of finished work items and the total."""

_TEXT: Final[pa.DataType] = pa.string()
LISTING: Final = pa.schema(
    {"catalog": _TEXT, "schema": _TEXT, "name": _TEXT, "kind": _TEXT, "arguments": _TEXT, "description": _TEXT}
)
DESCRIPTION: Final = pa.schema({"part": _TEXT, "name": _TEXT, "type": _TEXT, "required": pa.bool_(), "default": _TEXT})


@dataclass(frozen=True)
class FoundProcedure:
    """A procedure, and the catalog in which it was found; ``foreign`` is another engine's name by which it was."""

    catalog: str
    procedure: BaseProcedure
    foreign: str | None = None


class Procedures:
    """All procedures that can be called, in every catalog. A ``registry`` that is not given is built on first use."""

    def __init__(
        self,
        catalogs: Catalogs,
        settings: Settings,
        engine: Callable[[int], Engine],
        now_ms: Callable[[], int],
        sql: Callable[[str], pa.Table] | None = None,
        registry: Registry | None = None,
    ) -> None:
        if registry is not None:
            self.registry = registry
        self._catalogs = catalogs
        self._settings = settings
        self._engine = engine
        self._now_ms = now_ms
        self._sql = sql

    @cached_property
    def registry(self) -> Registry:
        """Providers by catalog and name: the built-in ones, and those of installed packages."""
        registry = Registry()
        names = self._catalogs.names()
        register_builtin(registry, names)
        register_installed(registry, names)
        return registry

    def register(self, catalog: str, procedure: BaseProcedure | Provider) -> None:
        """Add your own procedure to ``catalog``, for this session.

        Raises InvalidRequestError if the name is already registered there, NotFoundError if the catalog is unknown.
        """
        self.registry.register(self._catalogs.canonical(catalog), procedure)

    def find(self, name: str) -> FoundProcedure:
        """Returns the procedure ``catalog.schema.name``, or ``schema.name`` of the current catalog.

        Raises InvalidRequestError, NotFoundError.
        """
        name = ".".join(self._catalogs.full(name.split(".")))
        catalog, _, rest = name.partition(".")
        if rest.count(".") != 1 or not all(name.split(".")):
            raise InvalidRequestError(
                f"{name!r} does not name a procedure: catalog.schema.name is expected, such as "
                f"{self._catalogs.names()[-1]}.system.rollback_to_snapshot"
            )
        catalog = self._catalog(catalog)
        name = rest.lower()
        foreign = name if name in OURS and name not in self.registry.names(catalog) else None
        return FoundProcedure(catalog, self.registry.resolve(catalog, OURS[name] if foreign else rest), foreign)

    def call(self, name: str, /, *values: Any, on_progress: Progress | None = None, **named: Any) -> pa.Table:
        """Call ``catalog.schema.name`` with arguments by position or by name, and return its rows.

        ``on_progress`` is called with the number of finished work items and the total. Raises NotFoundError if the
        catalog or procedure is unknown, InvalidRequestError if the arguments do not fit, and the errors of the
        procedure itself.
        """
        return self.call_given(self.find(name), _arguments_of(values, named), on_progress=on_progress)

    def call_given(
        self,
        target: FoundProcedure,
        arguments: Sequence[GivenArgument],
        place: str | None = None,
        on_progress: Progress | None = None,
    ) -> pa.Table:
        """Call ``target`` with arguments from an SQL text. ``place`` is the position of the call in the text."""
        target, arguments = self._resolve_call(target, arguments)
        values = self._bind(target, arguments, place)
        tables, written = _tables_of(target.catalog, values)
        namespace = self._settings.iceberg.base_location if tables else ""
        with operation(target.procedure.qualified_name, namespace=namespace, reads=tables, writes=written):
            return run(target.procedure, self._context(target, on_progress), values)

    def explain(self, name: str, /, *values: Any, **named: Any) -> pa.Table:
        """Returns the plan of that call in column ``plan``, one row a line. Changes nothing; raises as :meth:`call`."""
        return self.explain_given(self.find(name), _arguments_of(values, named))

    def explain_given(
        self, target: FoundProcedure, arguments: Sequence[GivenArgument], place: str | None = None
    ) -> pa.Table:
        """Returns the plan of a call of ``target`` with arguments from an SQL text."""
        target, arguments = self._resolve_call(target, arguments)
        lines = explain(
            target.procedure,
            self._context(target, None),
            self._bind(target, arguments, place),
        )
        return pa.table({"plan": pa.array(lines, pa.string())})

    def _resolve_call(
        self, target: FoundProcedure, given: Sequence[GivenArgument]
    ) -> tuple[FoundProcedure, Sequence[GivenArgument]]:
        """Returns the procedure that a call means, and its arguments."""
        own = target.procedure.qualified_name
        name, arguments = other_name(own, with_defaults(target.foreign, given), target.catalog)
        if name == own:
            return target, arguments
        return FoundProcedure(target.catalog, self.registry.resolve(target.catalog, name)), arguments

    def _bind(self, target: FoundProcedure, arguments: Sequence[GivenArgument], place: str | None) -> dict[str, Any]:
        return bind(
            target.procedure,
            in_our_words(target.procedure, target.catalog, arguments, self._now_ms),
            place,
        )

    def list(self, catalog: str | None = None) -> pa.Table:
        """Returns one row a procedure: catalog, schema, name, kind (normal, distributed), arguments, description.

        One that cannot be loaded has the kind "unusable", and the error as its description.
        If ``catalog`` is None, all catalogs are listed. Raises NotFoundError if ``catalog`` is unknown.
        """
        chosen = self.registry.catalogs() if catalog is None else [self._catalog(catalog)]
        return pa.Table.from_pylist(list(self._listing(chosen)), schema=LISTING)

    def describe(self, name: str) -> pa.Table:
        """Returns one row for each argument and each result column: part, name, type, required, default."""
        procedure = self.find(name).procedure
        rows: list[dict[str, Any]] = [
            {
                "part": "argument",
                "name": argument.name,
                "type": argument.type,
                "required": argument.required,
                "default": None if argument.default is None else json.dumps(argument.default, default=str),
            }
            for argument in procedure.arguments
        ]
        rows += [{"part": "result", "name": field.name, "type": str(field.type)} for field in procedure.result]
        return pa.Table.from_pylist(rows, schema=DESCRIPTION)

    def _catalog(self, name: str) -> str:
        """Returns the registered or configured spelling of a catalog. Raises NotFoundError."""
        return self.registry.catalog(name) or self._catalogs.canonical(name)

    def _listing(self, catalogs: Sequence[str]) -> Iterator[dict[str, str]]:
        """A row for each name in ``catalogs``; a procedure that cannot be loaded has its error as the description."""
        for catalog in catalogs:
            for name in self.registry.names(catalog):
                row = dict(zip(("catalog", "schema", "name"), (catalog, *name.split(".")), strict=True))
                try:
                    procedure = self.registry.resolve(catalog, name)
                except MetastoreError as error:
                    yield {**row, "kind": "unusable", "arguments": "", "description": str(error)}
                    continue
                yield {
                    **row,
                    "schema": procedure.schema,
                    "name": procedure.name,
                    "kind": "distributed" if procedure.is_distributed else "normal",
                    "arguments": ", ".join(map(str, procedure.arguments)),
                    "description": procedure.description,
                }

    def _context(self, target: FoundProcedure, progress: Progress | None) -> CallContext:
        return CallContext(
            self._catalogs, target.catalog, self._engine, self._settings, self._now_ms, progress, self._sql
        )


def _tables_of(catalog: str, arguments: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Returns the tables that a call with these arguments reads and writes, by their names."""
    schema, name = arguments.get("schema"), arguments.get("table_name")
    own = f"{catalog}.{schema}.{name}" if schema and name else name
    read, written = arguments.get("source_table") or arguments.get("table") or own, arguments.get("to") or own
    return [str(each) for each in (read,) if each], [str(each) for each in (written or read,) if each]


def _arguments_of(values: Sequence[Any], named: Mapping[str, Any]) -> list[GivenArgument]:
    return [*(GivenArgument(value) for value in values), *(GivenArgument(value, name) for name, value in named.items())]
