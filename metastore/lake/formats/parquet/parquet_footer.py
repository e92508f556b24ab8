"""Checks the footer of a Parquet file before Arrow's objects are created from it.

Arrow parses a footer carefully, and reports damage as an error. But its Python objects of row groups and column chunks
throw exceptions that nothing catches, which ends the process. So this module decodes the parts that those objects use
once more, by thrift, and raises an error first for everything that they would refuse.

Promises: the checked bytes are those that Arrow parsed. Every row group, column chunk and statistic of a checked footer
can be read. A check takes longer than parsing, so tasks in separate processes skip it: there, a crash affects one task,
and the engine reports it. A footer that Arrow refuses because of one column is changed first
(:mod:`metastore.lake.formats.parquet.refused_footers`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import SEEK_END, FileIO
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from thrift.protocol import fastbinary
from thrift.protocol.TCompactProtocol import TCompactProtocol
from thrift.Thrift import TException, TType
from thrift.transport.TTransport import TMemoryBuffer

from metastore.lake.formats.arrow_reader import ParquetReader
from metastore.lake.formats.parquet.refused_footers import REFUSALS, AcceptedFooter, without_refusals

_TAIL, _LOCAL_TAIL = 64 << 10, 8 << 10
"""Bytes that are read first; most footers fit. Fewer from the local disk, where a second read is cheap."""
_END: Final = 8
"""The footer's length and the magic bytes, which follow the footer."""

_WIDTHS: Final = (1, 4, 8, 12, 4, 8, None, None)
"""Bytes of a value by physical type; None: any length, or the schema's."""
_TYPES: Final = ("BOOLEAN", "INT32", "INT64", "INT96", "FLOAT", "DOUBLE", "BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY")
_BYTE_ARRAY, _FIXED = 6, 7
_CODECS: Final = range(8)
_OPTIONAL, _REPEATED = 1, 2
_VERSION, _SCHEMA = 1, 2
_MAGIC: Final = b"PAR1"


class Footer(NamedTuple):
    """Arrow's objects of a footer, and the footer's bytes."""

    metadata: pq.FileMetaData
    content: bytes
    accepted: AcceptedFooter | None = None
    """The footer from which Arrow made its objects, if it refuses the file's own because of one of its columns."""


def read_footer(source: str | pa.NativeFile, *, judged: bool = True) -> Footer:
    """Read the footer of a local or open file. Raises ArrowInvalid or OSError if it is missing or damaged."""
    tail = _local_tail(source) if isinstance(source, str) else _tail(source, source.size(), _TAIL)
    length = int.from_bytes(tail[-_END : 4 - _END], "little")
    content = tail[-_END - length : -_END]
    try:
        footer = Footer(_parse_footer(tail), content)
    except REFUSALS:
        accepted = without_refusals(content, schema_in(content))
        if accepted is None:
            raise
        ending = len(accepted.content).to_bytes(_END - len(_MAGIC), "little") + _MAGIC
        footer = Footer(_parse_footer(accepted.content + ending), content, accepted)
    if judged:
        require_sound(footer.content if footer.accepted is None else footer.accepted.content)
    return footer


def _parse_footer(tail: bytes) -> pq.FileMetaData:
    reader = ParquetReader()
    reader.open(pa.BufferReader(tail))
    return reader.metadata


def schema_in(content: bytes) -> bytes | None:
    """Returns the beginning of a footer, up to the end of its schema; None if that cannot be determined.

    Footers with the same beginning have the same schema, including the parts that Arrow does not show.
    """
    buffer = TMemoryBuffer(content)
    protocol = TCompactProtocol(buffer)
    try:
        protocol.readStructBegin()
        for expected in (_VERSION, _SCHEMA):
            _, kind, number = protocol.readFieldBegin()
            if number != expected:  # no known writer puts anything before the schema, but it is allowed
                return None
            protocol.skip(kind)
            protocol.readFieldEnd()
    except (TException, AssertionError, EOFError, LookupError, ValueError, RecursionError):
        return None
    return content[: buffer.cstringio_buf.tell()]


def require_sound(footer: bytes) -> None:
    """Refuse a footer, parsed by Arrow, from which its objects could not be made. Raises ArrowInvalid."""
    try:
        decoded = fastbinary.decode_compact(_FooterStruct(), _Protocol(footer), [_FooterStruct, _FILE])
    except (TException, EOFError, ValueError, TypeError, OverflowError, MemoryError) as error:
        raise pa.ArrowInvalid(f"the footer is damaged: {error}") from error
    try:
        leaves = list(_leaves(decoded.schema))
        for number, group in enumerate(decoded.row_groups):
            if len(group.columns) != len(leaves):
                raise pa.ArrowInvalid(
                    f"row group {number} has {len(group.columns)} columns, and the schema {len(leaves)}"
                )
            for leaf, column in zip(leaves, group.columns, strict=True):
                if wrong := _wrong(leaf, column):
                    raise pa.ArrowInvalid(f"in row group {number}, {wrong}")
    except (AttributeError, IndexError) as error:
        raise pa.ArrowInvalid(f"the footer lacks a part that every Parquet file has: {error}") from error


class _Leaf(NamedTuple):
    """A column of the schema: its physical type, the bytes of a value, and its maximum levels."""

    type: int
    width: int | None
    definitions: int
    repetitions: int


def _leaves(schema: Sequence[Any]) -> Iterator[_Leaf]:
    """Returns the leaves in order; ``schema`` is a tree in preorder, in which each node has its number of children."""
    # For every node above: the number of remaining children, and the levels inside it.
    above = [(schema[0].children, 1, 1)]
    for node in schema[1:]:
        while not above[-1][0]:
            above.pop()
        left, definitions, repetitions = above[-1]
        above[-1] = (left - 1, definitions, repetitions)
        definitions += node.repetition in (_OPTIONAL, _REPEATED)
        repetitions += node.repetition == _REPEATED
        if node.children:
            above.append((node.children, definitions, repetitions))
        elif node.type is not None:  # a node with neither children nor a type is a group without fields
            width = node.width if node.type == _FIXED else _WIDTHS[node.type]
            yield _Leaf(node.type, width, definitions, repetitions)


def _wrong(leaf: _Leaf, column: Any) -> str:
    """Returns what Arrow's object of this column chunk would refuse; empty for nothing."""
    chunk = column.metadata
    if chunk.type != leaf.type:
        return f"a column is {_type_name(leaf.type)}, and its chunk {_type_name(chunk.type)}"
    if chunk.codec not in _CODECS:
        return f"the codec {chunk.codec} is unknown"
    if column.crypto is not None and column.crypto.key is not None:
        return "a column is encrypted with a key of its own"
    sizes = chunk.sizes
    if sizes is not None:
        if sizes.definitions and len(sizes.definitions) != leaf.definitions:
            return "the histogram of definition levels does not fit the column"
        if sizes.repetitions and len(sizes.repetitions) != leaf.repetitions:
            return "the histogram of repetition levels does not fit the column"
        if sizes.text_bytes is not None and leaf.type != _BYTE_ARRAY:
            return "a size of text is recorded for a column of numbers"
    bounds = chunk.statistics
    if bounds is not None and leaf.width is not None:
        for bound in (bounds.max, bounds.min, bounds.max_value, bounds.min_value):
            if bound is not None and len(bound) < leaf.width:
                return f"a bound has {len(bound)} bytes, and values have {leaf.width}"
    return ""


def _type_name(number: int | None) -> str:
    return _TYPES[number] if number is not None and 0 <= number < len(_TYPES) else f"of no type ({number})"


def _local_tail(path: str) -> bytes:
    with FileIO(path) as file:
        return _tail(file, file.seek(0, SEEK_END), _LOCAL_TAIL)


def _tail(file: Any, size: int, first: int) -> bytes:
    """Returns the footer and the bytes after it, and possibly some before; ``first`` bytes are read at first."""
    file.seek(max(0, size - first))
    tail: bytes = file.read(first)
    wanted = int.from_bytes(tail[-_END : 4 - _END], "little") + _END
    if len(tail) < wanted <= size:
        file.seek(size - wanted)
        tail = file.read(wanted)
    return tail


class _FooterStruct:
    """A struct of the footer. Fields that no specification names are skipped."""

    children: int | None = None
    codec: int | None = None
    columns: Sequence[Any] = ()
    crypto: Any = None
    definitions: Sequence[int] | None = None
    key: Any = None
    max: bytes | None = None
    max_value: bytes | None = None
    metadata: Any = None
    min: bytes | None = None
    min_value: bytes | None = None
    repetition: int | None = None
    repetitions: Sequence[int] | None = None
    row_groups: Sequence[Any] = ()
    schema: Sequence[Any] = ()
    sizes: Any = None
    statistics: Any = None
    text_bytes: int | None = None
    type: int | None = None
    width: int | None = None

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class _Protocol:
    """The interface that thrift's decoder requires: the bytes, and length limits, which only the bytes set here."""

    def __init__(self, content: bytes) -> None:
        self.trans = TMemoryBuffer(content)
        self.string_length_limit = self.container_length_limit = len(content)


def _struct(**fields: tuple[int, int, Any]) -> tuple[Any, ...]:
    """Returns thrift's specification, in which a number is a position, from number, type and details of each field."""
    made: list[Any] = [None] * (1 + max(number for number, _, _ in fields.values()))
    for name, (number, kind, details) in fields.items():
        made[number] = (number, kind, name, details, None)
    return tuple(made)


def _many(struct: tuple[Any, ...]) -> tuple[Any, ...]:
    return (TType.STRUCT, [_FooterStruct, struct], False)


_LEVELS: Final = (TType.I64, None, False)
_ELEMENT: Final = _struct(
    type=(1, TType.I32, None),
    width=(2, TType.I32, None),
    repetition=(3, TType.I32, None),
    children=(5, TType.I32, None),
)
_BOUNDS: Final = _struct(
    max=(1, TType.STRING, "BINARY"),
    min=(2, TType.STRING, "BINARY"),
    max_value=(5, TType.STRING, "BINARY"),
    min_value=(6, TType.STRING, "BINARY"),
)
_SIZES: Final = _struct(
    text_bytes=(1, TType.I64, None), repetitions=(2, TType.LIST, _LEVELS), definitions=(3, TType.LIST, _LEVELS)
)
_CHUNK: Final = _struct(
    type=(1, TType.I32, None),
    codec=(4, TType.I32, None),
    statistics=(12, TType.STRUCT, [_FooterStruct, _BOUNDS]),
    sizes=(16, TType.STRUCT, [_FooterStruct, _SIZES]),
)
_CRYPTO: Final = _struct(key=(2, TType.STRUCT, [_FooterStruct, (None,)]))
_COLUMN: Final = _struct(
    metadata=(3, TType.STRUCT, [_FooterStruct, _CHUNK]), crypto=(8, TType.STRUCT, [_FooterStruct, _CRYPTO])
)
_GROUP: Final = _struct(columns=(1, TType.LIST, _many(_COLUMN)))
_FILE: Final = _struct(schema=(2, TType.LIST, _many(_ELEMENT)), row_groups=(4, TType.LIST, _many(_GROUP)))
"""The parts of parquet.thrift that are checked."""
