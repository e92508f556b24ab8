"""The types of procedures: a name, declared arguments, result columns, and the code that runs.

The hierarchy::

    BaseProcedure                                schema, name, arguments, result
    ├── Procedure                                runs in this process: a function
    └── DistributedProcedure                     begin here, tasks anywhere, finish here
        ├── TableDataRewriteDistributedProcedure     TableScan -> Filter -> CallDistributedProcedure -> TableFinish -> Output
        └── TableImportDistributedProcedure          FileListing -> Filter -> CallDistributedProcedure -> TableFinish -> Output

Each type of distributed procedure has one plan shape. A concrete procedure implements ``create_context``, ``begin``,
``finish`` and ``abort``. Errors in a declaration are raised by the constructor as InvalidRequestError, never by a call.
"""  # noqa: E501 - the tree is one picture

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Generic, TypeVar

import pyarrow as pa

from metastore.components.catalogs import Catalogs
from metastore.config import Settings
from metastore.engines.engine import Engine
from metastore.errors import InvalidRequestError
from metastore.ground.quoting import double_quoted
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.procedures.framework.arguments import Argument

Rows = Mapping[str, Any] | Iterable[Mapping[str, Any]]
"""The result of a procedure: one row, or any number of rows, each a mapping by column name."""

SCHEMA_ARGUMENT: Final = "schema"
TABLE_ARGUMENT: Final = "table_name"
FILTER_ARGUMENT: Final = "filter"
SORTED_BY_ARGUMENT: Final = "sorted_by"

C = TypeVar("C")


@dataclass(frozen=True)
class CallContext:
    """The context of a call: everything that a procedure gets besides its arguments.

    ``catalog`` is the catalog of the call. ``engine`` returns the engine for a number of work items. ``now_ms`` returns
    the time in epoch milliseconds. ``progress`` is called with the number of finished work items and the total.
    ``sql`` runs a query of the session.
    """

    catalogs: Catalogs
    catalog: str
    engine: Callable[[int], Engine]
    settings: Settings
    now_ms: Callable[[], int]
    progress: Callable[[int, int], None] | None = None
    sql: Callable[[str], pa.Table] | None = None

    def rows_of(self, view: str) -> pa.Table:
        """Returns the rows of a table or view by its name. Raises InvalidRequestError, NotFoundError."""
        if self.sql is None:
            raise InvalidRequestError(f"{view} can be read in a session only, and not by the daemon")
        name = ".".join(map(double_quoted, view.split(".")))
        return self.sql(f"SELECT * FROM {name}")  # noqa: S608 - every part is quoted

    def table(self, schema: str, name: str) -> TargetTable:
        """Returns the existing table in the catalog of the call. Raises what :meth:`Catalogs.table` raises."""
        return self.catalogs.table(self.catalog, schema, name)


def columns(**types: pa.DataType) -> pa.Schema:
    """Returns the schema of a result. Every column may be NULL."""
    return pa.schema(list(types.items()))


def tasks_at_once(parallelism: int | None) -> int | None:
    """Returns the argument ``parallelism``: tasks that run at the same time. Raises InvalidRequestError below 1."""
    if parallelism is not None and parallelism < 1:
        raise InvalidRequestError(f"parallelism must be at least 1, not {parallelism}")
    return parallelism


class BaseProcedure:
    """Name, arguments and result of any procedure.

    Schema and name are kept in lower case. ``result`` is the schema of the result rows; ``description`` is one
    sentence.
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
        """Raise InvalidRequestError if the declaration does not fit this type of procedure."""

    @property
    def qualified_name(self) -> str:
        """The name with its schema, such as ``system.expire_snapshots``."""
        return f"{self.schema}.{self.name}"

    @property
    def is_distributed(self) -> bool:
        """Whether the work is distributed over tasks of an engine."""
        return False

    def argument(self, name: str) -> Argument | None:
        """Returns the declared argument of exactly that name; None if there is none."""
        return next((argument for argument in self.arguments if argument.name == name), None)

    def __str__(self) -> str:
        """The signature: ``system.rollback_to_snapshot(schema varchar, table_name varchar, snapshot_id bigint)``."""
        return f"{self.qualified_name}({', '.join(map(str, self.arguments))})"


class Procedure(BaseProcedure):
    """A function that runs in this process: ``function(context, **arguments)``.

    It receives a :class:`CallContext` and every declared argument by name, with defaults filled in. It returns one row
    or several, as mappings by the columns of ``result``.
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
    """A type of distributed procedures: its ``name``, and the ``nodes`` of its plan, source first.

    Two types are predefined. A package can define further types; EXPLAIN shows their nodes.
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
    """The result of ``begin``: the work items of the tasks, and the snapshot that they apply to.

    ``task`` is an importable function (or a partial of one). It yields Arrow batches of ``fragment_schema`` for one of
    the ``chunks``, which must pickle. Progress counts each batch as one finished work item. ``pinned`` is the ID of the
    snapshot that the plan applies to. ``describe`` is a text for users about the planned work. ``files`` is the number
    of files in all chunks, which selects the engine; None means one file per chunk.

    With a ``wave``, the engine gets this number of chunks at a time, and ``finish`` receives fragments as they arrive.
    Then ``finish`` may commit several times, and ``abort`` must know which files are committed.
    """

    chunks: Sequence[Any]
    task: Callable[[Any], Iterable[pa.RecordBatch]]
    fragment_schema: pa.Schema
    pinned: int | None = None
    describe: str = ""
    files: int | None = None
    wave: int | None = None


class DistributedProcedure(BaseProcedure, ABC, Generic[C]):
    """A procedure that is planned in this process, executed by tasks of an engine, and finished in this process, once.

    ``begin`` changes nothing, because EXPLAIN runs it too. ``finish`` commits. It raises OutcomeUnknownError if the
    outcome of the commit is unknown; any other MetastoreError means that nothing was committed. In that case, and when
    a task fails, ``abort`` removes the files that the tasks wrote. ``type`` gives the plan shape; an instance of a
    class without ``type`` cannot be created.
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
        """Always True."""
        return True

    @abstractmethod
    def create_context(self, call: CallContext, arguments: Mapping[str, Any]) -> C:
        """Returns the state that the other steps share, such as table and options. Raises if a call is unsupported."""

    @abstractmethod
    def begin(self, context: C) -> Plan:
        """Pin the snapshot to work on, and split the work into chunks. Without work, the plan has no chunks."""

    @abstractmethod
    def finish(self, context: C, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> Rows:
        """Commit the results of the tasks, once unless the plan has a wave, and return the result.

        If the plan has no chunks, there are no fragments.
        """

    @abstractmethod
    def abort(self, context: C, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> None:
        """Remove the files that the tasks wrote. ``fragments`` has only those that arrived; there may be more."""


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
    """Replaces data files of one table with new files that hold the same rows.

    The arguments ``schema`` and ``table_name`` (both VARCHAR) are required. The arguments ``filter`` (VARCHAR), which
    chooses files, and ``sorted_by`` (ARRAY(VARCHAR)), which orders rows, are optional.
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
        """Returns the condition that chooses files; ``TRUE`` if none is declared or given.

        Raises InvalidRequestError if it is empty: that may be a mistake, and would choose all files.
        """
        given = arguments.get(FILTER_ARGUMENT)
        if given is None:
            return "TRUE"
        if not str(given).strip():
            raise InvalidRequestError(f"{FILTER_ARGUMENT} must not be empty when provided")
        return str(given)

    def sorted_by_of(self, arguments: Mapping[str, Any]) -> list[str]:
        """Returns the sort keys of the call; empty if none are given."""
        return list(arguments.get(SORTED_BY_ARGUMENT) or ())


class TableImportDistributedProcedure(_OnOneTable[C]):
    """Adds existing files to one table, named by ``schema`` and ``table_name`` (both VARCHAR)."""

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
