"""A procedure is declared once: by the function that carries it out.

Place in the flow: :func:`procedure` reads name, arguments, types, defaults and description off a function, and makes
the :class:`~metastore.procedures.framework.model.Procedure` that the registry knows. Nothing is said twice, so nothing
can differ.
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
    """Make a procedure of a function ``function(context, **arguments)``.

    Its parameters after the context are the arguments: a type of Python is one of SQL (``str``, ``bool``, ``int``,
    ``float``, ``date``, ``datetime``, ``list[…]``, ``dict[…, …]``, or ``Annotated[…, "DECIMAL(10, 2)"]``), a default
    makes an argument optional. ``name`` is the function's if it is not given, and the first paragraph of the docstring
    the description. ``result`` has the columns of the rows that it returns.

    InvalidRequestError for a parameter without a type, or of a type that is none of SQL's.
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
    """The SQL type of values that are annotated with ``hint``; None where there is no one such type."""
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
