"""What a procedure is: a name, declared arguments, the columns of its rows, and what it does.

The hierarchy::

    BaseProcedure                                schema, name, arguments, result
    ├── Procedure                                runs in this process: a function
    └── DistributedProcedure                     begin here, tasks anywhere, finish here
        ├── TableDataRewriteDistributedProcedure     TableScan -> Filter -> CallDistributedProcedure -> TableFinish -> Output
        └── TableImportDistributedProcedure          FileListing -> Filter -> CallDistributedProcedure -> TableFinish -> Output

A type of distributed procedures has one shape of plan; a concrete one implements ``create_context``, ``begin``,
``finish`` and ``abort``. What is wrong with a declaration is an InvalidRequestError of the constructor, never of a call.
"""  # noqa: E501 - the tree is one picture

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeVar

import pyarrow as pa

from metastore.catalogs import Catalogs
from metastore.config import Settings
from metastore.engine import Engine
from metastore.errors import InvalidRequestError
from metastore.iceberg.target import TargetTable
from metastore.procedures.framework.arguments import Argument

Rows = Mapping[str, Any] | Iterable[Mapping[str, Any]]
"""What a procedure returns: one row, or any number of them, by column."""

SCHEMA_ARGUMENT: Final = "schema"
TABLE_ARGUMENT: Final = "table_name"
FILTER_ARGUMENT: Final = "filter"
SORTED_BY_ARGUMENT: Final = "sorted_by"

C = TypeVar("C")


@dataclass(frozen=True)
class CallContext:
    """What a call knows beside its arguments.

    ``catalog`` is the one that the procedure was called in. ``engine`` returns the engine for a number of work items.
    ``now_ms`` is the time; ``progress`` is called with the number of work items that are done, and the total.
    """

    catalogs: Catalogs
    catalog: str
    engine: Callable[[int], Engine]
    settings: Settings
    now_ms: Callable[[], int]
    progress: Callable[[int, int], None] | None = None

    def table(self, schema: str, name: str) -> TargetTable:
        """The existing table of that name in the catalog of the call. Raises as :meth:`Catalogs.table`."""
        return self.catalogs.table(self.catalog, schema, name)


def columns(**types: pa.DataType) -> pa.Schema:
    """The columns of a result by their names, each of which may be NULL."""
    return pa.schema(list(types.items()))


class BaseProcedure:
    """Name, arguments and result of any procedure.

    Schema and name are kept in lower case; ``result`` has the columns of its rows, ``description`` is one sentence.
    """

    def __init__(
        self,
        schema: str,
        name: str,
        arguments: Sequence[Argument] = (),
        *,
        result: pa.Schema,
        description: str = "",
    ) -> None:
        self.schema: Final = _name(schema, "schema")
        self.name: Final = _name(name, "name")
        self.arguments: Final = tuple(arguments)
        self.result: Final = result
        self.description: Final = description
        seen: set[str] = set()
        for argument in self.arguments:
            if argument.name.lower() in seen:
                raise InvalidRequestError(f"Duplicate argument name: '{argument.name}'")
            seen.add(argument.name.lower())
        needs = [argument.required for argument in self.arguments]
        if needs != sorted(needs, reverse=True):
            raise InvalidRequestError("Optional arguments should follow required ones")
        if len(set(result.names)) < len(result.names):
            raise InvalidRequestError(f"Duplicate column of the result: {result.names}")
        self._require_sound()

    def _require_sound(self) -> None:
        """Raise InvalidRequestError for a declaration that is none of this kind."""

    @property
    def qualified_name(self) -> str:
        """Name with its schema, as ``system.expire_snapshots``."""
        return f"{self.schema}.{self.name}"

    @property
    def is_distributed(self) -> bool:
        """Whether its work is spread over an engine's tasks."""
        return False

    def argument(self, name: str) -> Argument | None:
        """The declared argument of exactly that name."""
        return next((argument for argument in self.arguments if argument.name == name), None)

    def __str__(self) -> str:
        """The signature, as ``system.rollback_to_snapshot(schema varchar, table_name varchar, snapshot_id bigint)``."""
        return f"{self.qualified_name}({', '.join(map(str, self.arguments))})"


class Procedure(BaseProcedure):
    """A function that runs in this process: ``function(context, **arguments)``.

    It gets a :class:`CallContext` and every declared argument by its name, with defaults filled in, and returns one row
    or rows, as mappings by the columns of ``result``.
    """

    def __init__(
        self,
        schema: str,
        name: str,
        arguments: Sequence[Argument] = (),
        *,
        function: Callable[..., Rows],
        result: pa.Schema,
        description: str = "",
    ) -> None:
        super().__init__(schema, name, arguments, result=result, description=description)
        self.function: Final = function
        _require_fit(function, [argument.name for argument in self.arguments])


@dataclass(frozen=True)
class DistributedProcedureType:
    """A kind of distributed procedures: its ``name``, and the ``nodes`` of its plan, the source first.

    Two kinds are here. A package that brings procedures of another kind makes its own, whose nodes EXPLAIN shows.
    """

    name: str
    nodes: tuple[str, ...]

    TABLE_DATA_REWRITE: ClassVar[DistributedProcedureType]
    TABLE_IMPORT: ClassVar[DistributedProcedureType]


_AFTER_SOURCE: Final = ("Filter", "CallDistributedProcedure", "TableFinish", "Output")
DistributedProcedureType.TABLE_DATA_REWRITE = DistributedProcedureType(
    "TABLE_DATA_REWRITE", ("TableScan", *_AFTER_SOURCE)
)
DistributedProcedureType.TABLE_IMPORT = DistributedProcedureType("TABLE_IMPORT", ("FileListing", *_AFTER_SOURCE))


@dataclass(frozen=True)
class Plan:
    """What ``begin`` decided: work for the tasks, and the version that it holds for.

    ``task`` is an importable function (or a partial of one) that makes Arrow batches of ``fragment_schema`` from one of
    the ``chunks``, which pickle; progress counts a batch as a work item done. ``pinned`` is the snapshot that the plan
    is for. ``describe`` tells people what will be done. ``files`` is how many files the chunks stand for, by which the
    engine is chosen; None: one each. With a ``wave`` the engine is given this number of chunks at a time, and
    ``finish`` gets fragments as they come, so that it may commit several times: what is committed then, ``abort`` must
    know itself.
    """

    chunks: Sequence[Any]
    task: Callable[[Any], Iterable[pa.RecordBatch]]
    fragment_schema: pa.Schema
    pinned: int | None = None
    describe: str = ""
    files: int | None = None
    wave: int | None = None


class DistributedProcedure(BaseProcedure, ABC, Generic[C]):
    """A procedure whose work is planned here, done by an engine's tasks, and finished here, once.

    ``begin`` changes nothing: EXPLAIN runs it, too. ``finish`` commits, and raises OutcomeUnknownError where it is open
    whether it did; any other of our errors says that nothing was committed, and then, as when a task fails, ``abort``
    removes what the tasks wrote. ``type`` gives the shape of the plan: a class without one is refused when it is made.
    """

    type: ClassVar[DistributedProcedureType]

    def _require_sound(self) -> None:
        super()._require_sound()
        if not isinstance(getattr(self, "type", None), DistributedProcedureType):
            raise InvalidRequestError(
                f"{type(self).__name__} has no type, so EXPLAIN cannot show its plan: derive from "
                "TableDataRewriteDistributedProcedure or TableImportDistributedProcedure, or set the class attribute "
                "type to a DistributedProcedureType with a name and the nodes of the plan"
            )

    @property
    def is_distributed(self) -> bool:
        """Always."""
        return True

    @abstractmethod
    def create_context(self, call: CallContext, arguments: Mapping[str, Any]) -> C:
        """What the other steps need of one call: tables, options; refuses what cannot be done."""

    @abstractmethod
    def begin(self, context: C) -> Plan:
        """Pin the version to work on, and cut the work. Nothing to do is a plan without chunks."""

    @abstractmethod
    def finish(self, context: C, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> Rows:
        """Commit what the tasks made, once unless the plan has a wave, and return the result.

        Without chunks there are no fragments.
        """

    @abstractmethod
    def abort(self, context: C, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> None:
        """Remove what the tasks wrote; ``fragments`` are those that arrived, not all that were made."""


class _OnOneTable(DistributedProcedure[C]):
    """Works on one table, named by its first arguments."""

    def _require_sound(self) -> None:
        super()._require_sound()
        for wanted in (SCHEMA_ARGUMENT, TABLE_ARGUMENT):
            argument = self.argument(wanted)
            if argument is None:
                raise InvalidRequestError(
                    f"A distributed procedure need at least 2 arguments: `{SCHEMA_ARGUMENT}` and `{TABLE_ARGUMENT}` "
                    "for the target table"
                )
            if argument.type != "VARCHAR":
                raise InvalidRequestError(f"Argument `{wanted}` must be string type")


class TableDataRewriteDistributedProcedure(_OnOneTable[C]):
    """Replaces data files of one table by others with the same rows.

    Declares ``schema`` and ``table_name``, both VARCHAR; ``filter`` (VARCHAR) and ``sorted_by`` (ARRAY(VARCHAR)), where
    declared, choose files and order rows.
    """

    type = DistributedProcedureType.TABLE_DATA_REWRITE

    def _require_sound(self) -> None:
        super()._require_sound()
        condition, order = self.argument(FILTER_ARGUMENT), self.argument(SORTED_BY_ARGUMENT)
        if condition is not None and condition.type != "VARCHAR":
            raise InvalidRequestError(f"Argument `{FILTER_ARGUMENT}` must be string type")
        if order is not None and order.type != "ARRAY(VARCHAR)":
            raise InvalidRequestError(f"{SORTED_BY_ARGUMENT} must be an array(varchar)")

    def filter_of(self, arguments: Mapping[str, Any]) -> str:
        """The condition of a call that chooses files; ``TRUE`` where none is declared or given.

        Raises InvalidRequestError for an empty one: it may be a mistake, and all files would be chosen.
        """
        given = arguments.get(FILTER_ARGUMENT)
        if given is None:
            return "TRUE"
        if not str(given).strip():
            raise InvalidRequestError(f"{FILTER_ARGUMENT} must not be empty when provided")
        return str(given)

    def sorted_by_of(self, arguments: Mapping[str, Any]) -> list[str]:
        """The order of rows that a call asks for; empty for none."""
        return list(arguments.get(SORTED_BY_ARGUMENT) or ())


class TableImportDistributedProcedure(_OnOneTable[C]):
    """Brings files that lie somewhere into one table, named by ``schema`` and ``table_name``, both VARCHAR."""

    type = DistributedProcedureType.TABLE_IMPORT


def _name(value: str, what: str) -> str:
    if value is None:
        raise InvalidRequestError(f"{what} is null")
    if not value:
        raise InvalidRequestError(f"{what} is empty")
    return value.lower()


def _require_fit(function: Callable[..., Rows], names: Sequence[str]) -> None:
    if function is None:
        raise InvalidRequestError("function is null")
    parameters = list(inspect.signature(function).parameters.values())
    if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in parameters):
        raise InvalidRequestError("Function must have fixed arity")
    taken = [each for each in parameters[1:] if each.kind is not each.POSITIONAL_ONLY]
    needed = {each.name for each in taken if each.default is each.empty}
    if not parameters or not needed <= set(names) <= {each.name for each in taken}:
        raise InvalidRequestError(
            "Function parameters must match arguments: it takes a context and "
            f"{[each.name for each in taken]}, declared are {list(names)}"
        )
