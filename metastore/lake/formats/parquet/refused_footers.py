"""Changes Parquet footers that Arrow refuses because of one column, so that Arrow reads all other columns.

Arrow refuses a file with a map whose key is optional (written by Presto, Athena, Flink and Hive), a file with decimals
of more than 76 digits, and a file with LIST or MAP at a group of another shape. It refuses only the annotation: the
storage of values does not depend on it.

Promises: only annotations and names of groups change, so every column chunk keeps its place. A map is read as a list of
structs whose repeated group is called :data:`ENTRIES`. A column whose values would change is named, with the reason,
and must not be read. Spark refuses the same columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from metastore.errors import FormatError
from metastore.lake.formats.parquet.thrift_structs import DAMAGED, Struct, decode_struct, encode_struct

ENTRIES: Final = "metastore:entries"
"""The repeated group of a map that is read as a list. Arrow reads a map of keys only as a list of keys in any case."""

MOST_DIGITS: Final = 76
"""Digits of Arrow's widest decimals."""

REFUSALS: Final = (pa.ArrowInvalid, OSError)
"""Arrow's exceptions for a footer that it refuses; OSError for an annotation that does not fit one value."""

_SCHEMA: Final = 2
_PHYSICAL, _REPETITION, _NAME, _CHILDREN, _CONVERTED, _SCALE, _PRECISION, _LOGICAL = 1, 3, 4, 5, 6, 7, 8, 10
"""Fields of a footer, and of a schema element."""
_OPTIONAL, _REPEATED = 1, 2
_MAPS, _LIST, _DECIMAL = (1, 2), 3, 5
"""Converted types; in files of Hive, the map itself has the type for key and value."""
_LOGICAL_MAP, _LOGICAL_LIST, _LOGICAL_DECIMAL = 2, 3, 5
_STOP: Final = b"\0"


class WideDecimal(NamedTuple):
    """A decimal that is read as its bytes."""

    digits: int
    scale: int


class AcceptedFooter(NamedTuple):
    """A footer that Arrow accepts, and the data that it lacks."""

    content: bytes
    decimals: Mapping[int, WideDecimal]
    """By the number of the leaf."""
    unread: Mapping[str, str]
    """Columns that must not be read, each with the reason."""


def without_refusals(footer: bytes, schema: bytes | None) -> AcceptedFooter | None:
    """Returns ``footer``, which Arrow refused, without the refused annotations; None if it has none of them.

    ``schema`` is the beginning of the footer, up to the end of its schema, if that is known.
    """
    if schema is None:
        return None
    try:
        beginning = decode_struct(schema + _STOP)
        tree = _Tree(beginning[_SCHEMA][1][1])
        tree.change()
        if not tree.is_changed:
            return None
        return AcceptedFooter(encode_struct(beginning)[:-1] + footer[len(schema) :], tree.decimals, tree.unread)
    except (*DAMAGED, TypeError, AttributeError):
        return None


def require_no_unread(unread: Mapping[str, str], columns: Sequence[str], path: str = "it") -> None:
    """Raises FormatError if one of ``columns`` of the file at ``path`` is in ``unread``.

    It names both, and the reason.
    """
    found = [f"column {name} is {unread[name]}" for name in columns if name in unread]
    if found:
        raise FormatError(f"{path} cannot be read whole: {'; '.join(found)}: select the other columns")


class _Tree:
    """The elements of a schema in preorder, and the changes in them."""

    def __init__(self, elements: list[Struct]) -> None:
        self._elements = elements
        self._parents = _parents(elements)
        self.decimals: dict[int, WideDecimal] = {}
        self.unread: dict[str, str] = {}
        self.is_changed = False

    def change(self) -> None:
        """Change what Arrow refuses."""
        leaf = 0
        for place in range(1, len(self._elements)):
            each = self._elements[place]
            if _is_map(each) and not _is_map(self._parent(place)):  # an old map also names the group of its entries
                self._change_map(place)
            elif _is_list(each) and (why := self._wrong_list(place)):
                self._drop_annotation(place, why)
            if _PHYSICAL in each:
                if decimal := _read_as_bytes(each):
                    self.decimals[leaf] = decimal
                    self._note(
                        place, f"DECIMAL({decimal.digits}, {decimal.scale}), and Arrow holds {MOST_DIGITS} digits"
                    )
                leaf += 1

    def _change_map(self, place: int) -> None:
        """Annotate a map with optional keys as a list."""
        outer = self._elements[place]
        if why := self._wrong_map(place):
            self._drop_annotation(place, why)
            return
        entries, key = self._elements[place + 1 : place + 3]  # each group comes before its children
        if _number(key, _REPETITION) != _OPTIONAL:
            return
        outer.pop(_LOGICAL, None)
        outer[_CONVERTED] = (key[_REPETITION][0], _LIST)
        entries.pop(_CONVERTED, None)
        entries[_NAME] = (entries[_NAME][0], ENTRIES.encode())
        self.is_changed = True

    def _wrong_list(self, place: int) -> str:
        """Returns why the list at ``place`` is unreadable; empty if it is readable."""
        return self._wrong_group(place, "LIST", "its field does not repeat") or self._wrong_repetition(place, "LIST")

    def _wrong_map(self, place: int) -> str:
        """Returns why the map at ``place`` is unreadable; empty if it is readable."""
        if wrong := self._wrong_group(place, "MAP", "its entries do not repeat"):
            return wrong
        fields = _number(self._elements[place + 1], _CHILDREN) or 0
        if fields not in (1, 2):
            return f"annotated as MAP, and its entries have {fields} fields"
        if _number(self._elements[place + 2], _REPETITION) == _REPEATED:
            return "annotated as MAP, and its keys repeat"
        return self._wrong_repetition(place, "MAP")

    def _wrong_group(self, place: int, what: str, not_repeated: str) -> str:
        """Returns why the group at ``place`` holds not exactly one repeated field; empty if it does."""
        outer = self._elements[place]
        children = _number(outer, _CHILDREN) or 0
        if _PHYSICAL in outer:
            return f"a single value that is annotated as {what}"
        if children != 1:
            return f"annotated as {what}, and has {children} fields"
        is_repeated = _number(self._elements[place + 1], _REPETITION) == _REPEATED
        return "" if is_repeated else f"annotated as {what}, and {not_repeated}"

    def _wrong_repetition(self, place: int, what: str) -> str:
        is_repeated = _number(self._elements[place], _REPETITION) == _REPEATED
        return (
            f"annotated as {what}, and repeats outside of a list" if is_repeated and not self._is_in_list(place) else ""
        )

    def _is_in_list(self, place: int) -> bool:
        return _is_list(self._parent(place)) and _number(self._parent(place), _CHILDREN) == 1

    def _parent(self, place: int) -> Struct:
        return self._elements[self._parents[place]]

    def _drop_annotation(self, place: int, why: str) -> None:
        for field in (_CONVERTED, _LOGICAL):
            self._elements[place].pop(field, None)
        self._note(place, why)

    def _note(self, place: int, why: str) -> None:
        """Record that the column with the element at ``place`` must not be read."""
        while self._parents[place]:
            place = self._parents[place]
        self.unread.setdefault(self._elements[place][_NAME][1].decode(), why)
        self.is_changed = True


def _parents(elements: Sequence[Struct]) -> list[int]:
    """Returns the place of each element's group; the root is its own group."""
    found = [0]
    above = [(0, _number(elements[0], _CHILDREN) or 0)]  # groups, and their number of remaining children
    for place, each in enumerate(elements[1:], 1):
        while not above[-1][1]:
            above.pop()
        parent, left = above[-1]
        above[-1] = (parent, left - 1)
        found.append(parent)
        if children := _number(each, _CHILDREN):
            above.append((place, children))
    return found


def _is_map(element: Struct) -> bool:
    return _number(element, _CONVERTED) in _MAPS or _LOGICAL_MAP in element.get(_LOGICAL, (0, {}))[1]


def _is_list(element: Struct) -> bool:
    return _number(element, _CONVERTED) == _LIST or _LOGICAL_LIST in element.get(_LOGICAL, (0, {}))[1]


def _read_as_bytes(leaf: Struct) -> WideDecimal | None:
    """Returns ``leaf`` if it is a decimal of too many digits, and removes its annotation; None for anything else."""
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
    return WideDecimal(digits, scale or 0)


def _number(struct: Struct, field: int) -> int | None:
    found: int | None = struct.get(field, (0, None))[1]
    return found


def is_map_as_list(type_: Any) -> bool:
    """Whether an Arrow type is the one as which a map with optional keys is read."""
    return pa.types.is_list(type_) and type_.value_field.name == ENTRIES and pa.types.is_struct(type_.value_type)


def has_map_as_list(type_: Any) -> bool:
    """Whether such a map occurs anywhere in an Arrow type."""
    return is_map_as_list(type_) or any(has_map_as_list(type_.field(place).type) for place in range(type_.num_fields))


def with_maps(field: Any) -> Any:
    """Returns ``field`` of Arrow, with maps in place of the lists as which they are read."""
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
