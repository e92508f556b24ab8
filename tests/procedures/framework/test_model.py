"""Declarations: what is wrong with one is said when it is made, not when it is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from metastore.errors import InvalidRequestError
from metastore.procedures import (
    Argument,
    CallContext,
    DistributedProcedure,
    DistributedProcedureType,
    Plan,
    Procedure,
    TableDataRewriteDistributedProcedure,
    TableImportDistributedProcedure,
    columns,
)

RESULT = columns(x=pa.int64())
TARGET = (Argument("schema"), Argument("table_name"))


def nothing(context: CallContext) -> dict[str, Any]:
    """Takes no arguments."""
    return {"x": context.now_ms()}


def two(context: CallContext, a: str, b: int) -> dict[str, Any]:
    """Takes two."""
    return {"x": b + len(a) + context.now_ms()}


class Rewrite(TableDataRewriteDistributedProcedure[None]):
    """Has nothing to do."""

    def create_context(self, call: CallContext, arguments: Mapping[str, Any]) -> None:
        """Needs none."""

    def begin(self, context: None) -> Plan:
        """Plan no work."""
        return Plan((), iter, RESULT)

    def finish(self, context: None, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> list[dict[str, Any]]:
        """Commit nothing."""
        return []

    def abort(self, context: None, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> None:
        """Nothing was written."""


class Import(Rewrite, TableImportDistributedProcedure[None]):
    """The same, with the other shape."""

    type = DistributedProcedureType.TABLE_IMPORT


def test_names_are_lower_case_and_the_signature_tells_all() -> None:
    """Arguments keep their names as they are declared, types are written in lower case."""
    procedure = Procedure("System", "Do_It", (Argument("a"), Argument("b", "BigInt")), function=two, result=RESULT)
    assert str(procedure) == "system.do_it(a varchar, b bigint)"
    assert procedure.qualified_name == "system.do_it"
    assert not procedure.is_distributed


def procedure(*arguments: Argument, schema: Any = "system", name: Any = "p", function: Any = nothing) -> Procedure:
    """A procedure with something wrong."""
    return Procedure(schema, name, arguments, function=function, result=RESULT)


def other(context: CallContext, a: str) -> dict[str, Any]:  # noqa: ARG001 - what counts is what it takes
    """Takes one."""
    return {}


def without_context() -> dict[str, Any]:
    """Takes nothing at all."""
    return {}


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "no schema": (lambda: procedure(schema=None), "schema is null"),
    "empty schema": (lambda: procedure(schema=""), "schema is empty"),
    "no name": (lambda: procedure(name=None), "name is null"),
    "empty name": (lambda: procedure(name=""), "name is empty"),
    "an argument twice": (lambda: procedure(Argument("a"), Argument("A")), "Duplicate argument name: 'A'"),
    "optional first": (
        lambda: procedure(Argument("a", required=False), Argument("b")),
        "Optional arguments should follow required ones",
    ),
    "no function": (lambda: procedure(function=None), "function is null"),
    "any number": (lambda: procedure(function=lambda *given: given), "Function must have fixed arity"),
    "any names": (lambda: procedure(function=lambda _, **given: given), "Function must have fixed arity"),
    "other names": (
        lambda: procedure(Argument("b"), function=other),
        "Function parameters must match arguments: it takes a context and ['a'], declared are ['b']",
    ),
    "too few": (
        lambda: procedure(Argument("a"), Argument("b"), function=other),
        "Function parameters must match arguments: it takes a context and ['a'], declared are ['a', 'b']",
    ),
    "no context": (
        lambda: procedure(function=without_context),
        "Function parameters must match arguments: it takes a context and [], declared are []",
    ),
    "a column twice": (
        lambda: Procedure("s", "p", function=nothing, result=pa.schema([("x", pa.int64()), ("x", pa.int64())])),
        "Duplicate column of the result: ['x', 'x']",
    ),
    "empty argument": (lambda: Argument(""), "name is empty"),
    "unknown type": (lambda: Argument("a", "int4"), "Unknown procedure argument type: int4"),
    "a default of another type": (
        lambda: Argument("a", "BIGINT", required=False, default="x"),
        "Cannot cast type varchar to bigint",
    ),
    "a default of what must be given": (
        lambda: Argument("a", default="x"),
        "Required argument 'a' cannot have a default",
    ),
    "no table": (
        lambda: Rewrite("system", "p", (Argument("schema"),), result=RESULT),
        "A distributed procedure need at least 2 arguments: `schema` and `table_name` for the target table",
    ),
    "no table to import into": (
        lambda: Import("system", "p", result=RESULT),
        "A distributed procedure need at least 2 arguments: `schema` and `table_name` for the target table",
    ),
    "a table that is no name": (
        lambda: Rewrite("system", "p", (Argument("schema"), Argument("table_name", "BIGINT")), result=RESULT),
        "Argument `table_name` must be string type",
    ),
    "a filter that is no text": (
        lambda: Rewrite("system", "p", (*TARGET, Argument("filter", "BOOLEAN")), result=RESULT),
        "Argument `filter` must be string type",
    ),
    "an order that is no list": (
        lambda: Rewrite("system", "p", (*TARGET, Argument("sorted_by")), result=RESULT),
        "sorted_by must be an array(varchar)",
    ),
}


@pytest.mark.parametrize(("make", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_declaration(make: Callable[[], object], said: str) -> None:
    """Each rule of the constructors, in the words that Presto has for it where it has some."""
    with pytest.raises(InvalidRequestError) as raised:
        make()
    assert str(raised.value).startswith(said)


def test_a_step_that_is_missing() -> None:
    """A distributed procedure without its steps cannot be made."""
    with pytest.raises(TypeError, match="abstract"):
        TableDataRewriteDistributedProcedure("system", "p", TARGET, result=RESULT)  # type: ignore[abstract]


def test_partials_are_functions_too() -> None:
    """What is bound is no argument any more."""
    made = Procedure("system", "p", (Argument("a"),), function=partial(two, b=1), result=RESULT)
    assert str(made) == "system.p(a varchar)"


def test_the_types_have_plans_of_their_own_shapes() -> None:
    """Both end alike; what they begin with differs."""
    kinds = (DistributedProcedureType.TABLE_DATA_REWRITE, DistributedProcedureType.TABLE_IMPORT)
    rewrite, taking_in = (kind.nodes for kind in kinds)
    assert rewrite == ("TableScan", "Filter", "CallDistributedProcedure", "TableFinish", "Output")
    assert taking_in == ("FileListing", *rewrite[1:])
    assert issubclass(Import, DistributedProcedure)
    assert Rewrite("system", "p", TARGET, result=RESULT).is_distributed


class Shapeless(DistributedProcedure[None]):
    """Derives from the base itself, and says nothing of its plan."""

    def create_context(self, call: CallContext, arguments: Mapping[str, Any]) -> None:
        """Nothing is needed."""

    def begin(self, context: None) -> Plan:
        """Nothing to do."""
        return Plan((), iter, RESULT)

    def finish(self, context: None, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> dict[str, Any]:
        """One row."""
        return {"x": 1}

    def abort(self, context: None, plan: Plan, fragments: Iterable[pa.RecordBatch]) -> None:
        """Nothing was written."""


class OfItsOwnKind(Shapeless):
    """With a kind that no module here knows."""

    type = DistributedProcedureType("SWEEP", ("Listing", "CallDistributedProcedure", "Output"))


def test_a_distributed_procedure_without_a_type_is_refused() -> None:
    """When it is made, with the way on; one with a type of its own is like any other."""
    with pytest.raises(InvalidRequestError, match="Shapeless has no type.*set the class attribute type"):
        Shapeless("system", "p", (), result=RESULT)
    assert OfItsOwnKind("system", "p", (), result=RESULT).type.nodes[0] == "Listing"


def test_well_known_arguments_have_their_defaults() -> None:
    """Without a filter every file is meant, without an order none."""
    made = Rewrite("system", "p", TARGET, result=RESULT)
    assert (made.filter_of({}), made.sorted_by_of({})) == ("TRUE", [])
    assert (made.filter_of({"filter": "a > 1"}), made.sorted_by_of({"sorted_by": ["a"]})) == ("a > 1", ["a"])


@pytest.mark.parametrize(
    ("argument", "nullable"),
    [
        (Argument("a"), False),
        (Argument("a", required=False), True),
        (Argument("a", required=False, default="x"), False),
    ],
)
def test_null_is_given_only_where_it_is_what_there_is_otherwise(argument: Argument, nullable: bool) -> None:
    """So a procedure never meets a NULL that it did not declare."""
    assert argument.nullable is nullable
