"""Parquet footers that Arrow refuses as a whole for one column, changed so that it reads all others.

Arrow opens no file with a map whose key is optional, as Presto, Athena, Flink and Hive wrote it, nor one with decimals
of more than 76 digits. Only the annotation is refused: how values are stored does not depend on it.

Promises: nothing but annotations and names of groups changes, so every column chunk stays where it was. A map comes as
a list of structs whose repeated group is called :data:`ENTRIES`; such a decimal comes as its bytes, and is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from metastore.formats.thrift_structs import DAMAGED, Struct, decoded, encoded

ENTRIES: Final = "metastore:entries"
"""The repeated group of a map that is read as a list. Of keys alone Arrow makes a list of keys in any case."""

MOST_DIGITS: Final = 76
"""Digits of Arrow's widest decimals."""

_SCHEMA: Final = 2
_PHYSICAL, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _SCALE, _PRECISION, _LOGICAL = 1, 3, 4, 5, 6, 7, 8, 10
"""Fields of a footer, and of a schema element."""
_OPTIONAL, _REPEATED = 1, 2
_MAPS, _LIST, _DECIMAL = (1, 2), 3, 5
"""Converted types; that of key and value stands at the map itself in files of Hive."""
_LOGICAL_MAP, _LOGICAL_DECIMAL = 2, 5
_STOP: Final = b"\0"


class WideDecimal(NamedTuple):
    """A decimal that comes as its bytes, in the column called ``column`` or in a part of it."""

    column: str
    digits: int
    scale: int


class Accepted(NamedTuple):
    """A footer that Arrow accepts; ``decimals`` stand by the numbers of their leaves."""

    content: bytes
    decimals: Mapping[int, WideDecimal]

    @property
    def columns_of_bytes(self) -> frozenset[str]:
        """The columns that are, or have inside, decimals which come as bytes."""
        return frozenset(each.column for each in self.decimals.values())


def without_refusals(footer: bytes, schema: bytes | None) -> Accepted | None:
    """``footer``, which Arrow refused, without what it refuses; None if nothing of that is there.

    ``schema`` is the beginning of the footer, up to where its schema ends, if that is to be told.
    """
    if schema is None:
        return None
    try:
        beginning = decoded(schema + _STOP)
        elements: list[Struct] = beginning[_SCHEMA][1][1]
        are_maps = [_read_as_list(elements, place) for place in range(len(elements))]
        found = [_read_as_bytes(leaf, column) for column, leaf in _leaves(elements)]
        decimals = {number: decimal for number, decimal in enumerate(found) if decimal is not None}
        changed = any(are_maps) or bool(decimals)
        return Accepted(encoded(beginning)[:-1] + footer[len(schema) :], decimals) if changed else None
    except (*DAMAGED, TypeError, AttributeError):
        return None


def _leaves(elements: Sequence[Struct]) -> Iterator[tuple[str, Struct]]:
    """Leaves in order, each with the name of its column; ``elements`` are a tree, written down from the top."""
    column = ""
    left = [_number(elements[0], _CHILDREN) or 0]  # children still to come, of every group above
    for each in elements[1:]:
        while not left[-1]:
            left.pop()
        left[-1] -= 1
        if len(left) == 1:
            column = each[_NAME][1].decode()
        if children := _number(each, _CHILDREN):
            left.append(children)
        elif _PHYSICAL in each:
            yield column, each


def _read_as_list(elements: Sequence[Struct], place: int) -> bool:
    """Whether the element at ``place`` is a map with optional keys, which is annotated as a list then."""
    outer = elements[place]
    if not (_number(outer, _CONVERTED) in _MAPS or _LOGICAL_MAP in outer.get(_LOGICAL, (0, {}))[1]):
        return False
    if _number(outer, _CHILDREN) != 1 or len(elements) < place + 3:
        return False
    entries, key = elements[place + 1 : place + 3]  # each group comes before its children
    if _number(entries, _REPETITION) != _REPEATED or _number(key, _REPETITION) != _OPTIONAL:
        return False
    outer.pop(_LOGICAL, None)
    outer[_CONVERTED] = (key[_REPETITION][0], _LIST)
    entries.pop(_CONVERTED, None)
    entries[_NAME] = (entries[_NAME][0], ENTRIES.encode())
    return True


def _read_as_bytes(leaf: Struct, column: str) -> WideDecimal | None:
    """``leaf`` if it is a decimal of too many digits, which loses its annotation then; None for anything else."""
    annotation = leaf.get(_LOGICAL, (0, {}))[1].get(_LOGICAL_DECIMAL)
    if annotation is not None:  # its fields are the scale and the digits
        scale, digits = _number(annotation[1], 1), _number(annotation[1], 2)
    elif _number(leaf, _CONVERTED) == _DECIMAL:
        scale, digits = _number(leaf, _SCALE), _number(leaf, _PRECISION)
    else:
        return None
    if digits is None or digits <= MOST_DIGITS:
        return None
    for field in (_CONVERTED, _SCALE, _PRECISION, _LOGICAL):
        leaf.pop(field, None)
    return WideDecimal(column, digits, scale or 0)


def _number(struct: Struct, field: int) -> int | None:
    found: int | None = struct.get(field, (0, None))[1]
    return found


def is_map_as_list(type_: Any) -> bool:
    """Whether an Arrow type is what a map with optional keys is read as."""
    return pa.types.is_list(type_) and type_.value_field.name == ENTRIES and pa.types.is_struct(type_.value_type)


def has_map_as_list(type_: Any) -> bool:
    """Whether such a map stands anywhere in an Arrow type."""
    return is_map_as_list(type_) or any(has_map_as_list(type_.field(place).type) for place in range(type_.num_fields))


def with_maps(field: Any) -> Any:
    """``field`` of Arrow, with maps where they are read as lists."""
    type_ = field.type
    if not has_map_as_list(type_):
        return field
    if is_map_as_list(type_):
        key, value = map(with_maps, type_.value_type.fields)
        return field.with_type(pa.map_(key.with_nullable(False), value))
    if pa.types.is_map(type_):
        return field.with_type(pa.map_(with_maps(type_.key_field), with_maps(type_.item_field), type_.keys_sorted))
    if pa.types.is_struct(type_):
        return field.with_type(pa.struct([with_maps(inner) for inner in type_.fields]))
    return field.with_type(pa.list_(with_maps(type_.value_field)))
