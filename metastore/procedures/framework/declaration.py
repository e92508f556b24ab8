"""Declares a procedure by the function that implements it.

Place in the flow: :func:`procedure` reads name, arguments, types, defaults and description from a function, and makes
the :class:`~metastore.procedures.framework.model.Procedure` for the registry. The function is the only declaration, so
signature and implementation cannot differ.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Annotated, Any, Final

import pyarrow as pa

from metastore.errors import InvalidRequestError
from metastore.procedures.framework.arguments import Argument
from metastore.procedures.framework.model import Procedure, Rows

Integer = Annotated[int, "INTEGER"]
"""An argument of 32 bits; ``int`` alone is a BIGINT. Any type can be annotated with the name of its SQL type."""

_SQL_TYPES: Final[Mapping[Any, str]] = {
    str: "VARCHAR",
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    date: "DATE",
    datetime: "TIMESTAMP",
}


def procedure(
    *, result: pa.Schema, schema: str = "system", name: str | None = None
) -> Callable[[Callable[..., Rows]], Procedure]:
    """Make a procedure from a function ``function(context, **arguments)``.

    Its parameters after the context are the arguments. Each Python type stands for an SQL type (``str``, ``bool``,
    ``int``, ``float``, ``date``, ``datetime``, ``list[…]``, ``dict[…, …]``, or ``Annotated[…, "DECIMAL(10, 2)"]``). A
    default makes an argument optional. ``name`` defaults to the name of the function. The first paragraph of the
    docstring is the description. ``result`` is the schema of the rows that the function returns.

    Raises InvalidRequestError if a parameter has no type, or one without an SQL type.
    """

    def declare(function: Callable[..., Rows]) -> Procedure:
        hints = typing.get_type_hints(function, include_extras=True)
        _, *parameters = inspect.signature(function).parameters.values()
        text = inspect.getdoc(function) or ""
        return Procedure(
            schema,
            name or function.__name__,
            [_argument(function, parameter, hints) for parameter in parameters],
            function=function,
            result=result,
            description=" ".join(text.split("\n\n")[0].split()),
        )

    return declare


def _argument(function: Callable[..., Rows], parameter: inspect.Parameter, hints: Mapping[str, Any]) -> Argument:
    type_ = sql_type(hints.get(parameter.name))
    if type_ is None:
        raise InvalidRequestError(
            f"{function.__name__}: parameter {parameter.name} needs a type that SQL has, such as str, int, bool, "
            'datetime, list[str], or Annotated[Decimal, "DECIMAL(10, 2)"]'
        )
    if parameter.default is parameter.empty:
        return Argument(parameter.name, type_)
    return Argument(parameter.name, type_, required=False, default=parameter.default)


def sql_type(hint: Any) -> str | None:
    """Returns the SQL type for the annotation ``hint``; None if there is not exactly one."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return next((extra for extra in hint.__metadata__ if isinstance(extra, str)), None) or sql_type(inner[0])
    if origin in (typing.Union, types.UnionType):
        known = [one for one in inner if one is not type(None)]
        return sql_type(known[0]) if len(known) == 1 else None
    elements = [sql_type(one) for one in inner]
    if None in elements:
        return None
    if origin in (list, Sequence) and len(elements) == 1:
        return f"ARRAY({elements[0]})"
    if origin in (dict, Mapping):
        return f"MAP({elements[0]}, {elements[1]})"
    return _SQL_TYPES.get(hint)
