"""Binds given arguments to the arguments of a procedure: by position or by name, with defaults filled in, and cast.

Place in the flow: SQL text and Python calls deliver their arguments in one form, so rules and messages are the same.
Pure functions. For SQL text, an error names the position of the argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from metastore.errors import InvalidRequestError
from metastore.procedures.framework.arguments import Argument
from metastore.procedures.framework.model import BaseProcedure
from metastore.procedures.framework.types import cast_to


@dataclass(frozen=True)
class GivenArgument:
    """One argument as the caller gave it.

    ``name`` is None for a positional argument. ``exact`` marks a quoted name, which is compared with case. ``place`` is
    the position in the SQL text, such as ``line 1, column 7``.
    """

    value: Any
    name: str | None = None
    exact: bool = False
    place: str | None = None


def bind(procedure: BaseProcedure, arguments: Sequence[GivenArgument], place: str | None = None) -> dict[str, Any]:
    """Returns every declared argument of ``procedure`` by name, in declared order, cast to its type.

    ``place`` is the position of the call itself, for errors about missing arguments. Raises InvalidRequestError if
    named and positional arguments are mixed, a name is unknown or given twice, there are too many arguments, a required
    one is missing, a value that must not be NULL is NULL, or a value does not fit its declared type.
    """
    declared = procedure.arguments
    names = {each.name is not None for each in arguments}
    if len(names) > 1:
        second = next(each for each in arguments if (each.name is None) != (arguments[0].name is None))
        raise _error(second.place, "Named and positional arguments cannot be mixed")
    if names == {True}:
        found = _by_name(procedure, arguments)
    else:
        if len(arguments) > len(declared):
            raise _error(arguments[len(declared)].place, f"Too many arguments for procedure: {procedure}")
        found = {argument.name: each for argument, each in zip(declared, arguments, strict=False)}
    return {argument.name: _value(argument, found.get(argument.name), place) for argument in declared}


def _by_name(procedure: BaseProcedure, arguments: Sequence[GivenArgument]) -> Mapping[str, GivenArgument]:
    found: dict[str, GivenArgument] = {}
    for each in arguments:
        argument = next((argument for argument in procedure.arguments if _is_called(argument, each)), None)
        if argument is None:
            raise _error(each.place, f"Unknown argument name: {each.name}; the procedure is {procedure}")
        if argument.name in found:
            raise _error(each.place, f"Duplicate procedure argument: {each.name}")
        found[argument.name] = each
    return found


def _is_called(argument: Argument, given: GivenArgument) -> bool:
    assert given.name is not None
    return argument.name == given.name or (not given.exact and argument.name.lower() == given.name.lower())


def _value(argument: Argument, given: GivenArgument | None, place: str | None) -> Any:
    if given is None:
        if argument.required:
            raise _error(place, f"Required procedure argument '{argument.name}' is missing")
        return argument.default
    if given.value is None and not argument.nullable:
        raise _error(given.place, f"Procedure argument cannot be null: {argument.name}")
    try:
        return cast_to(argument.type, given.value)
    except InvalidRequestError as error:
        raise _error(given.place, f"argument '{argument.name}': {error}") from error


def _error(place: str | None, message: str) -> InvalidRequestError:
    return InvalidRequestError(f"{place}: {message}" if place else message)
