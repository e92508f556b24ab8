"""Facts of ORC footers: structure and statistics from the file's tail, in one read.

The register of writers' faults determines which bounds are trusted
(:mod:`metastore.lake.formats.parquet.writer_faults`). Bounds of floating-point columns are never trusted; bounds of
texts and timestamps by the first writers are not either. Only the UTC fields of timestamps are used, which writers
truncate to milliseconds.

Counts must add up (:mod:`metastore.lake.formats.claims`): a file without row indexes (``orc.row.index.stride=0``,
Hive's ACID deltas) counts 0 values in every column, its rows included, and then says nothing. A column below a struct
has no more values than the struct, and exactly as many if it says that it has no nulls.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from metastore.errors import FormatError
from metastore.ground.epoch import EPOCH, EPOCH_DAY
from metastore.lake.formats.claims import Limits, check_claims, decimal_limits, limits_of
from metastore.lake.formats.facts import ElementFacts, FileFacts, LeafFacts, without_old_calendar
from metastore.lake.formats.orc.protobuf import Message, varint
from metastore.lake.formats.parquet.writer_faults import ORC, Doubt, Writer, WrittenColumn

_MAGIC: Final = b"ORC"
_TAIL_BYTES: Final = 16 * 1024
"""Bytes that are first read from the end of a file; enough for most footers."""

_NOT_COMPRESSED: Final = 0
_FIRST, _LAST = datetime(1677, 9, 22), datetime(2262, 4, 11)
"""Midnights within the range of 64 bits of nanoseconds."""
_TOP: Final = timedelta(microseconds=999)

_HAS_NULL: Final = 10
_LIST, _MAP, _STRUCT, _UNION, _DECIMAL, _CHAR = 10, 11, 12, 13, 14, 17
_TYPES: Final[dict[int, pa.DataType]] = {
    0: pa.bool_(),
    1: pa.int8(),
    2: pa.int16(),
    3: pa.int32(),
    4: pa.int64(),
    5: pa.float32(),
    6: pa.float64(),
    7: pa.string(),
    8: pa.binary(),
    9: pa.timestamp("us"),
    15: pa.date32(),
    16: pa.string(),
    _CHAR: pa.string(),
    18: pa.timestamp("us", "UTC"),
}
_WHOLE: Final = {1: "TINYINT", 2: "SMALLINT", 3: "INT", 4: "BIGINT"}
_TEXTS: Final = frozenset({7, 16, _CHAR})
_EXACT: Final = frozenset({0, *_WHOLE, 7, _DECIMAL, 15, 16})
"""Types whose bounds are values of the file. CHAR is not: some writers pad its bounds, others its values."""


def read_orc(source: pa.NativeFile, size: int) -> FileFacts:
    """Returns the facts of one file of ``size`` bytes. Raises FormatError if it is not an ORC file."""
    tail = _read_tail(source, size, min(size, _TAIL_BYTES))
    length = tail[-1] if tail else 0
    if len(tail) <= length or not tail[:-1].endswith(_MAGIC):
        raise FormatError("it does not end as an ORC file does")
    postscript = Message(tail[-1 - length : -1])
    footer_length = postscript.number(1)
    needed = footer_length + length + 1
    if needed > size:
        raise FormatError("its footer would be longer than the file")
    if needed > len(tail):
        tail = _read_tail(source, size, needed)
    packed = tail[len(tail) - needed : len(tail) - length - 1]
    footer = Message(_decompress_footer(packed, postscript.number(2)))
    try:
        return _Footer(footer, Writer.of_orc(footer.number(9, 0), postscript.number(6))).facts()
    except (IndexError, RecursionError) as error:
        raise FormatError(f"its footer refers to columns that do not exist: {error}") from error


def require_readable_times(facts: FileFacts) -> None:
    """Raises FormatError for a column whose statistics contain times that Arrow's reader of ORC refuses.

    Unlike all other code here, it counts nanoseconds, so its range is the years from 1677 to 2262.
    """
    leaves = [leaf for column in facts.schema for leaf in _leaves_of(column.name, column.type)]
    for (name, type_), leaf in zip(leaves, facts.leaves, strict=True):
        if not pa.types.is_timestamp(type_) or leaf.high is None:
            continue
        # Bounds come in pairs; a pair with a day before 1582 is left out.
        if leaf.low is None or leaf.low < _FIRST or leaf.high > _LAST:
            raise FormatError(
                f"column {name} has times before {_FIRST:%Y-%m-%d} or after {_LAST:%Y-%m-%d}, which Arrow does not "
                "read from ORC; write the file as Parquet first"
            )


def _leaves_of(name: str, type_: Any) -> Iterator[tuple[str, Any]]:
    if not pa.types.is_nested(type_):
        yield name, type_
        return
    for index in range(type_.num_fields):
        inner = type_.field(index)
        yield from _leaves_of(f"{name}.{inner.name}", inner.type)


class _Footer:
    def __init__(self, footer: Message, writer: Writer) -> None:
        self._footer = footer
        self._writer = writer
        self._types = footer.messages(4)
        self._statistics = footer.messages(7)
        self._rows = footer.count(6)

    def facts(self) -> FileFacts:
        if not self._types or self._types[0].number(1) != _STRUCT:
            raise FormatError("its rows are no structs")
        schema = pa.schema(self._fields(0))
        stripes = self._footer.messages(3)
        if (held := sum(stripe.count(5) for stripe in stripes)) != self._rows:
            raise FormatError(f"its footer has {self._rows} rows, and its stripes have {held}")
        known = self._is_counted
        leaves = [self._leaf(column, above, is_known=known) for column, above in self._leaves(0, ())]
        return FileFacts(self._rows, schema, leaves, [stripe.count(1) for stripe in stripes])

    @property
    def _is_counted(self) -> bool:
        """Whether the footer has statistics of the columns: those of the root count the rows."""
        # Statistics of an encrypted file are stored elsewhere; those here are masked.
        if len(self._statistics) != len(self._types) or 10 in self._footer:
            return False
        return self._statistics[0].count(1) == self._rows

    def _fields(self, column: int) -> list[pa.Field[Any]]:
        type_ = self._types[column]
        names, children = type_.texts(3), type_.numbers(2)
        own = [_attributes(self._types[child]) for child in children]
        return [
            pa.field(name, self._type(child), metadata=attributes)
            for name, child, attributes in zip(names, children, own, strict=True)
        ]

    def _type(self, column: int) -> Any:
        """The Arrow type at ``column``. FormatError for what Iceberg has not, and for decimals that Arrow would cut."""
        type_ = self._types[column]
        kind, children = type_.number(1), type_.numbers(2)
        match kind:
            case _ if kind == _STRUCT:
                return pa.struct(self._fields(column))
            case _ if kind == _LIST:
                return pa.list_(self._type(children[0]))
            case _ if kind == _MAP:
                return pa.map_(self._type(children[0]), self._type(children[1]))
            case _ if kind == _DECIMAL:
                if not type_.number(5):
                    raise FormatError(
                        "it has decimals without a precision, as Hive 0.11 wrote them, and Arrow cuts them after six "
                        "digits; write the file anew"
                    )
                return pa.decimal128(type_.number(5), type_.number(6))
            case _ if kind in _TYPES:
                return _TYPES[kind]
            case _:
                raise FormatError("it has a union, which Iceberg has no counterpart for")

    def _leaves(self, column: int, above: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yields the leaves at ``column`` and below it, each with the columns ``above`` it, the root left out."""
        if self._kind(column) not in (_STRUCT, _LIST, _MAP):
            yield column, above
            return
        for child in self._types[column].numbers(2):
            yield from self._leaves(child, (*above, column) if column else ())

    def _kind(self, column: int) -> int:
        return self._types[column].number(1)

    def _leaf(self, column: int, above: tuple[int, ...], *, is_known: bool) -> LeafFacts:
        """Facts of a leaf. Nothing but its size is believed inside lists and maps, or of a writer in doubt."""
        if not is_known:
            return LeafFacts()
        statistics, kind = self._statistics[column], self._kind(column)
        size = statistics.count(11) if 11 in statistics else None
        if any(self._kind(each) != _STRUCT for each in above) or 1 not in statistics:
            return LeafFacts(size, elements=self._elements(column, above))
        doubt = self._writer.doubts(WrittenColumn(_MINOR_TYPES.get(kind, ""), in_struct=len(above) > 1), ORC)
        counted = Doubt.NULLS not in doubt and self._agrees_with(above[-1] if above else 0, statistics)
        nulls = self._rows - statistics.count(1) if counted else None
        low, high = (None, None) if Doubt.BOUNDS in doubt else _bounds(kind, statistics)
        low, high, nulls, values = check_claims(low, high, nulls, self._rows, self._limits(column))
        is_exact = kind in _EXACT and not (kind in _TEXTS and _is_shortened(statistics))
        return LeafFacts(
            size,
            None if values is None else self._rows,
            nulls,
            without_old_calendar(low),
            without_old_calendar(high),
            is_exact and counted,
        )

    def _agrees_with(self, struct: int, statistics: Message) -> bool:
        """Whether the values of a column and of the struct that it is in can be true together."""
        values, most = statistics.count(1), self._statistics[struct].count(1)
        is_full = _HAS_NULL in statistics and not statistics.number(_HAS_NULL)
        return values == most or (values < most and not is_full)

    def _limits(self, column: int) -> Limits | None:
        type_, kind = self._types[column], self._kind(column)
        if kind == _DECIMAL:
            return decimal_limits(type_.number(5), type_.number(6))
        return limits_of(_WHOLE[kind]) if kind in _WHOLE else None

    def _elements(self, column: int, above: tuple[int, ...]) -> ElementFacts | None:
        """Returns what is known of plain values directly in a list or map that is in no other."""
        statistics, kind = self._statistics[column], self._kind(column)
        kinds = [self._kind(each) for each in above]
        if not kinds or kinds[-1] == _STRUCT or any(one != _STRUCT for one in kinds[:-1]) or 1 not in statistics:
            return None
        doubt = self._writer.doubts(WrittenColumn(_MINOR_TYPES.get(kind, ""), in_struct=True), ORC)
        count = statistics.count(1)
        low, high = _bounds(kind, statistics) if kind in _EXACT and Doubt.BOUNDS not in doubt else (None, None)
        low, high, nulls, _ = check_claims(low, high, 0, count, self._limits(column))
        if count == 0:
            return ElementFacts(nulls is not None and Doubt.NULLS not in doubt)
        low, high = without_old_calendar(low), without_old_calendar(high)
        return ElementFacts(False) if low is None or high is None else ElementFacts(False, low, high)


def _is_shortened(statistics: Message) -> bool:
    """Whether a bound of a text stands for longer texts."""
    found = statistics.message(4)
    return found is None or 4 in found or 5 in found


_MINOR_TYPES: Final = {
    5: "FLOAT4",
    6: "FLOAT8",
    7: "VARCHAR",
    9: "TIMESTAMP",
    _DECIMAL: "VARDECIMAL",
    16: "VARCHAR",
    _CHAR: "VARCHAR",
}
"""Types that occur in the register of writers' faults."""


def _bounds(kind: int, statistics: Message) -> tuple[Any, Any]:
    """Both bounds by the kind's own statistics message; (None, None) if it is absent or cannot be read."""
    try:
        if kind in _WHOLE and (found := statistics.message(2)):
            return found.signed_number(1), found.signed_number(2)
        if kind in _TEXTS and (found := statistics.message(4)):
            low = found.text(1) if 1 in found else found.text(4)
            return low, found.text(2) if 2 in found else found.text(5)
        if kind == _DECIMAL and (found := statistics.message(6)):
            low, high = found.text(1), found.text(2)
            return (Decimal(low), Decimal(high)) if low and high else (None, None)
        if kind == 15 and (found := statistics.message(7)):
            return _day(found.signed_number(1)), _day(found.signed_number(2))
        if kind == 9 and (found := statistics.message(9)):
            return _timestamps(found.signed_number(3), found.signed_number(4))
        if kind == 0 and (found := statistics.message(5)):
            true, values = found.numbers(1)[0], statistics.number(1)
            return (true == values, true > 0) if true <= values else (None, None)
    except (ArithmeticError, UnicodeDecodeError, IndexError):
        pass
    return None, None


def _day(days: int | None) -> date | None:
    known = days is not None and 1 <= days + EPOCH_DAY <= date.max.toordinal()
    return date.fromordinal(days + EPOCH_DAY) if known and days is not None else None


def _timestamps(first: int | None, last: int | None) -> tuple[datetime | None, datetime | None]:
    """Returns bounds of timestamps from milliseconds, which writers truncated: down or, before 1970, towards 1970."""
    if first is None or last is None:
        return None, None
    if -1000 <= last < 0:
        # The format itself moves the last second of 1969 into the first of 1970, where readers then find it.
        last += 1000
    low, high = _moment(first - (first < 0)), _moment(last)
    return low, None if high is None else high + _TOP


def _moment(millis: int) -> datetime | None:
    try:
        return EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        return None


def _attributes(type_: Message) -> dict[str, str] | None:
    pairs = {pair.text(1) or "": pair.text(2) or "" for pair in type_.messages(7)}
    return pairs or None


def _read_tail(source: pa.NativeFile, size: int, count: int) -> bytes:
    source.seek(size - count)
    taken = bytes(source.read(count))
    if len(taken) != count:
        raise FormatError("it is shorter than it was listed")
    return taken


def _decompress_footer(data: bytes, codec: int) -> bytes:
    """Returns a footer decompressed; it is compressed block by block."""
    if codec == _NOT_COMPRESSED:
        return data
    if codec not in _CODECS:
        raise FormatError("it is compressed by LZO, or by something newer than this reader")
    pieces: list[bytes] = []
    at = 0
    while at + 3 <= len(data):
        head = int.from_bytes(data[at : at + 3], "little")
        length, is_plain = head >> 1, head & 1
        block = data[at + 3 : at + 3 + length]
        at += 3 + length
        try:
            pieces.append(block if is_plain else _CODECS[codec](block))
        except (zlib.error, pa.ArrowException, OSError, IndexError) as error:
            raise FormatError(f"its footer cannot be decompressed: {error}") from error
    return b"".join(pieces)


def _inflate(block: bytes) -> bytes:
    return zlib.decompress(block, wbits=-15)


def _of_zstd(block: bytes) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(block), "zstd") as stream:
        return bytes(stream.read())


def _of_snappy(block: bytes) -> bytes:
    length, _ = varint(block, 0)  # a block begins with its length
    return bytes(pa.Codec("snappy").decompress(block, length, asbytes=True))


def _of_lz4(block: bytes) -> bytes:
    """Decompresses a block here: it does not contain its decompressed length, which Arrow would require."""
    out = bytearray()
    at = 0
    while at < len(block):
        token = block[at]
        literals, at = _lz4_length(block, at + 1, token >> 4)
        out += block[at : at + literals]
        at += literals
        if at >= len(block):
            break
        back = int.from_bytes(block[at : at + 2], "little")
        count, at = _lz4_length(block, at + 2, token & 15)
        start = len(out) - back
        for index in range(start, start + count + 4):  # a copy may overlap its own output
            out.append(out[index])
    return bytes(out)


def _lz4_length(block: bytes, at: int, first: int) -> tuple[int, int]:
    length = first
    while length >= 15 and first == 15:
        more = block[at]
        at += 1
        length += more
        if more != 255:
            break
    return length, at


_CODECS: Final[Mapping[int, Callable[[bytes], bytes]]] = {1: _inflate, 2: _of_snappy, 4: _of_lz4, 5: _of_zstd}
