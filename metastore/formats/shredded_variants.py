"""Puts shredded variants together again: columns ``value`` and ``typed_value`` become one value of bytes. Pure.

A writer may store a part of a variant in typed columns, and each file in others. Place in the flow: rewriting reads
files of all kinds, and writes variants of ``metadata`` and ``value`` only. Promises: each variant is equal to the one
in the file, by the rules of Parquet's specification of shredding; what breaks these rules is a FormatError.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.errors import FormatError
from metastore.formats.variant_objects import field_names, merged_object
from metastore.formats.variant_values import (
    NULL,
    Numbers,
    Values,
    array_values,
    object_values,
    primitive_values,
)

METADATA: Final = "metadata"
VALUE: Final = "value"
TYPED: Final = "typed_value"


def unshredded(variants: Values) -> tuple[Values, Values]:
    """Returns ``metadata`` and ``value`` of a column of variants, both without NULL. Raises FormatError.

    What they are where the column is NULL has no meaning.
    """
    parts = _parts(variants, METADATA, VALUE, TYPED)
    metadata = pc.fill_null(parts[METADATA].cast(pa.binary()), b"\x01\x00\x00")
    if TYPED not in parts:
        return metadata, pc.fill_null(parts[VALUE].cast(pa.binary()), NULL)
    encoded = metadata.dictionary_encode()
    names = [field_names(each) for each in encoded.dictionary.to_pylist()]
    rows = _Rows(names, encoded.indices.to_numpy().astype(np.int64))
    return metadata, pc.fill_null(_values(rows, parts), NULL)


@dataclass(frozen=True)
class _Rows:
    """The dictionary of each row: ``names`` are the different ones, ``codes`` the number of each row's."""

    names: Sequence[list[str]]
    codes: Numbers

    def numbers(self, name: str, present: Values) -> Numbers:
        """Returns the number of the field ``name`` in each row's dictionary; any number where it is not present."""
        known = np.array([names.index(name) if name in names else -1 for names in self.names], dtype=np.int64)
        found: Numbers = known[self.codes]
        if (found[present.to_numpy(zero_copy_only=False)] < 0).any():
            raise FormatError(f"the metadata of a variant lacks the name of its shredded field {name!r}")
        return found


def _values(rows: _Rows, parts: dict[str, Values]) -> Values:
    """Returns one variant a row; NULL where it is missing."""
    value = parts.get(VALUE)
    if value is not None:
        value = value.cast(pa.binary())
    typed = parts.get(TYPED)
    if typed is None:
        return pa.nulls(len(rows.codes), pa.binary()) if value is None else value
    kind = typed.type
    if pa.types.is_struct(kind):
        made = _objects(rows, typed)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        made = _arrays(rows, typed)
    else:
        made = primitive_values(typed)
    if value is None:
        return made
    both = np.flatnonzero(pc.and_(value.is_valid(), made.is_valid()).to_numpy(zero_copy_only=False))
    if not len(both):
        return pc.coalesce(made, value)
    if not pa.types.is_struct(kind):
        raise FormatError(f"a variant has both a value and a typed value of {kind}, of which only one can be its value")
    merged = [
        merged_object(rows.names[code], old, new)
        for code, old, new in zip(
            rows.codes[both].tolist(), value.take(both).to_pylist(), made.take(both).to_pylist(), strict=True
        )
    ]
    places = np.arange(len(made))
    places[both] = len(made) + np.arange(len(both))
    return pc.coalesce(pa.concat_arrays([made, pa.array(merged, pa.binary())]).take(pa.array(places)), value)


def _objects(rows: _Rows, typed: Values) -> Values:
    fields = dict(zip((field.name for field in typed.type), typed.flatten(), strict=True))
    found = []
    for name in sorted(fields, key=str.encode):
        values = _values(rows, _parts(fields[name], VALUE, TYPED))
        found.append((rows.numbers(name, values.is_valid()), values))
    made = object_values(found, len(typed))
    return pc.if_else(typed.is_valid(), made, pa.scalar(None, pa.binary()))


def _arrays(rows: _Rows, typed: Values) -> Values:
    counts: Any = pc.list_value_length(typed)
    lengths = counts.fill_null(0).to_numpy().astype(np.int64)
    elements: Any = pc.list_flatten(typed)
    of_elements = _Rows(rows.names, np.repeat(rows.codes, lengths))
    made = array_values(_values(of_elements, _parts(elements, VALUE, TYPED)), lengths)
    return pc.if_else(typed.is_valid(), made, pa.scalar(None, pa.binary()))


def _parts(group: Values, *known: str) -> dict[str, Values]:
    """Returns the columns of a group, NULL where the group is. Raises FormatError for others than the ``known``."""
    names = [field.name for field in group.type] if pa.types.is_struct(group.type) else [str(group.type)]
    if not {*names} <= {*known}:
        raise FormatError(f"a part of a variant is shredded into {', '.join(names)}; expected are {', '.join(known)}")
    return dict(zip(names, group.flatten(), strict=True))
