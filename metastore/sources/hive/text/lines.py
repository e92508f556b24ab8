"""Splits the bytes of text files into batches of lines, at line feeds, carriage returns, or both, as Hadoop does.

A byte order mark at the beginning is dropped, and so are lines of a header and a footer. As in Hadoop, the suffix of
the name decides the compression.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from metastore.errors import FormatError

_BLOCK: Final = 8 << 20
_BYTE_ORDER: Final = b"\xef\xbb\xbf"
_CODECS: Final[Mapping[str, Any]] = {"gz": "gzip", "bz2": "bz2", "zst": "zstd"}
_OTHERS: Final = frozenset({"deflate", "snappy", "lz4", "lzo", "lzo_deflate"})

Lines = list[bytes]


def decompress(source: pa.NativeFile, name: str) -> pa.NativeFile:
    """Returns ``source`` decompressed. Raises FormatError for a compression that only Hadoop supports."""
    suffix = name.rpartition(".")[2].lower()
    if suffix in _OTHERS:
        raise FormatError(f"it is compressed by Hadoop's {suffix}, which is not read here; gzip, bzip2 and zstd are")
    return pa.CompressedInputStream(source, _CODECS[suffix]) if suffix in _CODECS else source


def lines(source: pa.NativeFile, header: int, footer: int, block: int = _BLOCK) -> Iterator[Lines]:
    """Yields the lines of ``source`` in batches, without header and footer lines; reads ``block`` bytes at once."""
    held: deque[bytes] = deque()
    for batch in _all(source, block):
        skipped = min(header, len(batch))
        header -= skipped
        held.extend(batch[skipped:])
        if (ready := len(held) - footer) > 0:
            yield [held.popleft() for _ in range(ready)]


def _all(source: pa.NativeFile, size: int) -> Iterator[Lines]:
    rest = b""
    first = True
    while read := bytes(source.read(size)):
        block = rest + read
        if first:
            block, first = block.removeprefix(_BYTE_ORDER), False
        # The next byte decides what a carriage return means, so one at the end waits.
        end = max(block.rfind(b"\n"), block.rfind(b"\r", 0, -1)) + 1
        rest = block[end:]
        if end:
            yield _cut(block[:end])
    if rest:
        yield _cut(rest)


def _cut(text: bytes) -> Lines:
    if b"\r" in text:
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    found = text.split(b"\n")
    if not found[-1]:
        found.pop()
    return found
