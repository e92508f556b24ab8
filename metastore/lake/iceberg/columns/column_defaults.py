"""Default values of columns, set through PyIceberg's updates of a schema, and compared by its evaluators.

A column has two (specification, "Default values"): rows of files without the column have the initial default, which is
set when the column is added and never changes; new rows without a value get the write default.

PyIceberg alone does not set defaults of timestamps in nanoseconds, and drops all defaults when a new table gets its
column ids. Here its updates take every value, and new tables keep the defaults of their columns, for the whole process.
This uses private names of PyIceberg; a test fails when one changes.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, time
from typing import Any, Final
from uuid import UUID

import numpy as np
from pyiceberg.expressions.literals import literal
from pyiceberg.schema import _SetFreshIDs
from pyiceberg.table.update.schema import UpdateSchema
from pyiceberg.types import FloatType, IcebergType, NestedField, StructType

VERSION_OF_DEFAULTS: Final = 3
"""The first format version with default values."""


def add_with_default(
    update: UpdateSchema, path: tuple[str, ...], kind: IcebergType, doc: str | None, *, required: bool, default: object
) -> None:
    """Add the column at ``path`` with ``default`` as both its defaults; None for a column without defaults.

    Raises ValueError if the column exists.
    """
    update.add_column(path, kind, doc, required=required)
    added = update._added_name_to_id[".".join(path)]  # noqa: SLF001 - PyIceberg has no public way
    for fields in update._adds.values():  # noqa: SLF001 - as above
        fields[:] = [
            _with(field, initial_default=default, write_default=default) if field.field_id == added else field
            for field in fields
        ]


def set_write_default(update: UpdateSchema, field: NestedField, default: object) -> None:
    """Let new rows have ``default`` in the column ``field``; None for no default. Old rows keep their values."""
    update._updates[field.field_id] = _with(field, write_default=default)  # noqa: SLF001 - as above


def compared_default(field: NestedField) -> Any:
    """Return the initial default as PyIceberg compares values: days, microseconds, bytes of UUIDs, rounded floats."""
    value: Any = field.initial_default
    kind = field.field_type
    if isinstance(kind, FloatType):
        return float(np.float32(value))
    has_other_form = isinstance(value, (date, time, UUID))
    return literal(value).to(kind).value if has_other_form else value


def _with(field: NestedField, **defaults: object) -> NestedField:
    return field.model_copy(update=defaults)


_without_defaults: Final[Any] = _SetFreshIDs.struct


def _fresh(self: Any, struct: StructType, field_results: list[Callable[[], IcebergType]]) -> StructType:
    made = _without_defaults(self, struct, field_results)
    pairs = zip(struct.fields, made.fields, strict=True)
    return StructType(
        *(_with(new, initial_default=old.initial_default, write_default=old.write_default) for old, new in pairs)
    )


_SetFreshIDs.struct = _fresh  # type: ignore[method-assign] # no registry there
