"""The procedures of a session: found by name, described, explained, called. ``ms.procedures``.

Place in the flow: the SQL door and Python programs both come here with a name and arguments as they were given; the
registry resolves, ``binding`` matches and casts, ``run`` runs on the session's engine.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from metastore.catalogs import Catalogs
from metastore.config import Settings
from metastore.engine import Engine
from metastore.errors import InvalidRequestError
from metastore.procedures.framework.binding import GivenArgument, bind
from metastore.procedures.framework.builtin import register_builtin, register_installed
from metastore.procedures.framework.model import BaseProcedure, CallContext
from metastore.procedures.framework.registry import Provider, Registry
from metastore.procedures.framework.run import explain, run
from metastore.procedures.framework.spellings import in_our_words

Progress = Callable[[int, int], None]
"""Called with the number of work items that are done, and of all."""

_TEXT: Final[pa.DataType] = pa.string()
LISTING: Final = pa.schema(
    {"catalog": _TEXT, "schema": _TEXT, "name": _TEXT, "kind": _TEXT, "arguments": _TEXT, "description": _TEXT}
)
DESCRIPTION: Final = pa.schema({"part": _TEXT, "name": _TEXT, "type": _TEXT, "required": pa.bool_(), "default": _TEXT})


@dataclass(frozen=True)
class FoundProcedure:
    """A procedure, and the catalog that it was found in."""

    catalog: str
    procedure: BaseProcedure


class Procedures:
    """All procedures that can be called, in every catalog. Built when it is first used."""

    def __init__(
        self, catalogs: Catalogs, settings: Settings, engine: Callable[[int], Engine], now_ms: Callable[[], int]
    ) -> None:
        self._catalogs = catalogs
        self._settings = settings
        self._engine = engine
        self._now_ms = now_ms

    @cached_property
    def registry(self) -> Registry:
        """Providers by catalog and name: the built-in ones, and those of installed packages."""
        registry = Registry()
        names = self._catalogs.names()
        register_builtin(registry, names)
        register_installed(registry, names)
        return registry

    def register(self, catalog: str, procedure: BaseProcedure | Provider) -> None:
        """Add a procedure of one's own to ``catalog``, for this session.

        Raises InvalidRequestError when the name is taken there, NotFoundError for an unknown catalog.
        """
        self.registry.register(self._catalogs.canonical(catalog), procedure)

    def find(self, name: str) -> FoundProcedure:
        """The procedure ``catalog.schema.name``. Raises InvalidRequestError, NotFoundError."""
        catalog, _, rest = name.partition(".")
        if rest.count(".") != 1 or not all(name.split(".")):
            raise InvalidRequestError(
                f"{name!r} does not name a procedure: catalog.schema.name is expected, such as "
                f"{self._catalogs.names()[-1]}.system.rollback_to_snapshot"
            )
        catalog = self._catalog(catalog)
        return FoundProcedure(catalog, self.registry.resolve(catalog, rest))

    def call(self, name: str, /, *values: Any, on_progress: Progress | None = None, **named: Any) -> pa.Table:
        """Call ``catalog.schema.name`` with arguments by position or by name; the rows that it returns.

        ``on_progress`` is called with the number of work items done, and of all. Raises NotFoundError for an unknown
        catalog or procedure, InvalidRequestError for arguments that do not fit, and what the procedure raises.
        """
        return self.call_given(self.find(name), _given(values, named), on_progress=on_progress)

    def call_given(
        self,
        found: FoundProcedure,
        given: Sequence[GivenArgument],
        place: str | None = None,
        on_progress: Progress | None = None,
    ) -> pa.Table:
        """Call what was found, with arguments from a text; ``place`` is that of the call in it."""
        return run(found.procedure, self._context(found, on_progress), self._bound(found, given, place))

    def explain(self, name: str, /, *values: Any, **named: Any) -> pa.Table:
        """The plan of that call, one row a line, in column ``plan``. Nothing is changed; raises as :meth:`call`."""
        return self.explain_given(self.find(name), _given(values, named))

    def explain_given(
        self, found: FoundProcedure, given: Sequence[GivenArgument], place: str | None = None
    ) -> pa.Table:
        """The plan of a call of what was found, with arguments from a text."""
        lines = explain(found.procedure, self._context(found, None), self._bound(found, given, place))
        return pa.table({"plan": pa.array(lines, pa.string())})

    def _bound(self, found: FoundProcedure, given: Sequence[GivenArgument], place: str | None) -> dict[str, Any]:
        return bind(found.procedure, in_our_words(found.procedure, found.catalog, given, self._now_ms), place)

    def list(self, catalog: str | None = None) -> pa.Table:
        """One row a procedure: catalog, schema, name, kind (normal, distributed), arguments, description.

        Raises NotFoundError for an unknown ``catalog``; None lists all catalogs.
        """
        chosen = self.registry.catalogs() if catalog is None else [self._catalog(catalog)]
        return pa.Table.from_pylist(list(self._listing(chosen)), schema=LISTING)

    def describe(self, name: str) -> pa.Table:
        """One row for each argument and each column of the result: part, name, type, required, default."""
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
        """The spelling of a catalog that has procedures, or at least is configured. Raises NotFoundError."""
        return self.registry.catalog(name) or self._catalogs.canonical(name)

    def _listing(self, catalogs: Sequence[str]) -> Iterator[dict[str, str]]:
        for catalog in catalogs:
            for name in self.registry.names(catalog):
                procedure = self.registry.resolve(catalog, name)
                yield {
                    "catalog": catalog,
                    "schema": procedure.schema,
                    "name": procedure.name,
                    "kind": "distributed" if procedure.is_distributed else "normal",
                    "arguments": ", ".join(map(str, procedure.arguments)),
                    "description": procedure.description,
                }

    def _context(self, found: FoundProcedure, progress: Progress | None) -> CallContext:
        return CallContext(self._catalogs, found.catalog, self._engine, self._settings, self._now_ms, progress)


def _given(values: Sequence[Any], named: Mapping[str, Any]) -> list[GivenArgument]:
    return [*(GivenArgument(value) for value in values), *(GivenArgument(value, name) for name, value in named.items())]
