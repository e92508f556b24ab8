"""A procedure is declared by its function: types, defaults, description, and what is refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any

import pyarrow as pa
import pytest

from metastore.errors import InvalidRequestError
from metastore.procedures import CallContext, Integer, columns, procedure
from metastore.procedures.framework.declaration import sql_type


@pytest.mark.parametrize(
    ("hint", "sql"),
    [
        (str, "VARCHAR"),
        (bool, "BOOLEAN"),
        (int, "BIGINT"),
        (Integer, "INTEGER"),
        (float, "DOUBLE"),
        (date, "DATE"),
        (datetime, "TIMESTAMP"),
        (Annotated[Decimal, "DECIMAL(10, 2)"], "DECIMAL(10, 2)"),
        (list[str], "ARRAY(VARCHAR)"),
        (Sequence[Integer], "ARRAY(INTEGER)"),
        (dict[str, int], "MAP(VARCHAR, BIGINT)"),
        (Mapping[str, list[bool]], "MAP(VARCHAR, ARRAY(BOOLEAN))"),
        (int | None, "BIGINT"),
        (Integer | None, "INTEGER"),
        (Annotated[int, 7] | None, "BIGINT"),
        (int | str, None),
        (Decimal, None),
        (list[Decimal], None),
        (None, None),
        (Any, None),
    ],
)
def test_a_type_of_python_is_one_of_sql(hint: object, sql: str | None) -> None:
    """Optional or not; what could be two types is none."""
    assert sql_type(hint) == sql


def test_a_function_says_everything() -> None:
    """Name, arguments in their order, types, defaults, and the first paragraph of the docstring."""

    @procedure(result=columns(x=pa.int64()), schema="Shop")
    def restock(
        context: CallContext, *, item: str, count: Integer = 1, note: str | None = None, tags: list[str] | None = None
    ) -> dict[str, Any]:
        """Orders more of an item.

        Nobody reads on.
        """
        return {"x": (context, item, count, note, tags)}

    assert str(restock) == "shop.restock(item varchar, count integer, note varchar, tags array(varchar))"
    assert [(each.required, each.default) for each in restock.arguments] == [
        (True, None),
        (False, 1),
        (False, None),
        (False, None),
    ]
    assert restock.description == "Orders more of an item."


def test_a_parameter_without_a_type_is_refused() -> None:
    """By its name, with what would do."""
    with pytest.raises(InvalidRequestError, match=r"^restock: parameter item needs a type that SQL has"):

        @procedure(result=columns(x=pa.int64()))
        def restock(context: CallContext, item) -> dict[str, Any]:  # type: ignore[no-untyped-def] # noqa: ANN001 - what is refused
            return {"x": (context, item)}
