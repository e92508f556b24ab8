"""Delimited text as Arrow's parser takes it: in UTF-8, with doubled quotes in place of escapes, without comments.

Arrow knows one meaning of an escape character: it stands for the next character, wherever it is. Spark writes and reads
escapes within quotes only, and there before a quote or before itself. So escapes are resolved here, piece by piece; a
piece without any passes as it is. Memory is bounded by pieces, unless a quote is opened and never closed.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from io import RawIOBase
from typing import Any, Final

from metastore.errors import FormatError

_PIECE: Final = 4 << 20


class PlainText(RawIOBase):
    """A stream of the bytes that ``pieces`` yields, for Arrow to read; its last line ends with a line break."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = _with_last_break(pieces)
        self._rest = b""

    def readable(self) -> bool:
        """As for any file that is read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Up to ``size`` bytes, or all that follow; none at the end only."""
        if size < 0:
            self._rest = b"".join((self._rest, *self._pieces))
            size = len(self._rest)
        if not self._rest:
            self._rest = next(self._pieces, b"")
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken


def _with_last_break(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces that hold anything; the last one with a line break, which Arrow needs to see that a line is whole."""
    held = b""
    for piece in filter(None, pieces):
        if held:
            yield held
        held = piece
    if held:
        yield held if held.endswith((b"\n", b"\r")) else held + b"\n"


def plain_pieces(source: Any, encoding: str, delimiter: str, quote: str, escape: str, comment: str) -> Iterator[bytes]:
    """The text of ``source`` in UTF-8 without a byte order mark, without escapes, and without lines of comments.

    ``quote``, ``escape`` and ``comment`` may be empty for none. Each piece ends between records, but for the last.
    FormatError for bytes that are not of ``encoding``.
    """
    pieces = _decoded(source, encoding)
    if (escape and escape != quote and quote) or comment:
        cleaner = _Cleaner(delimiter, quote, escape, comment)
        pieces = cleaner.cleaned(pieces)
    yield from pieces


def _decoded(source: Any, encoding: str) -> Iterator[bytes]:
    if codecs.lookup(encoding).name == "utf-8":
        first = True
        while piece := source.read(_PIECE):
            yield piece.removeprefix(codecs.BOM_UTF8) if first else piece
            first = False
        return
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        while piece := source.read(_PIECE):
            yield decoder.decode(piece).removeprefix("\ufeff").encode()
        yield decoder.decode(b"", final=True).encode()
    except UnicodeError as error:
        raise FormatError(f"it is not text in {encoding}: {error}") from error


class _Cleaner:
    """Resolves escapes within quotes, and drops lines that begin with the comment character."""

    def __init__(self, delimiter: str, quote: str, escape: str, comment: str) -> None:
        self._escapes = escape.encode() if escape != quote else b""
        self._comment = comment.encode()
        ends = re.escape(delimiter.encode()) + rb"\r\n"
        tokens = [rb"\n"]
        if comment:
            tokens.append(rb"(?:\A|(?<=\n))" + re.escape(self._comment) + rb"[^\n]*(?:\n|\Z)")
        if quote:
            own = re.escape(quote.encode())
            held = rb"[^" + own + rb"]" if not self._escapes else rb"[^" + own + re.escape(self._escapes) + rb"]"
            escaped = rb"|" + re.escape(self._escapes) + rb"[\s\S]" if self._escapes else b""
            opening = rb"(?:\A|(?<=[" + ends + rb"]))" + own
            cut = re.escape(self._escapes) + rb"?\Z" if self._escapes else rb"\Z"
            tokens.append(opening + rb"(?:" + held + rb"|" + own * 2 + escaped + rb")*(?:" + own + rb"|" + cut + rb")")
        # Comments and quoted fields first: a line break within one ends no record.
        self._token = re.compile(b"|".join(reversed(tokens)))
        self._quote = quote.encode()
        self._escaped = re.compile(re.escape(self._escapes) + rb"([" + re.escape(self._escapes + self._quote) + rb"])")

    def cleaned(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """``pieces`` cleaned, each up to a line break that ends a record."""
        rest = b""
        for piece in pieces:
            text = rest + piece
            end = self._record_end(text)
            if end is not None:
                done, rest = text[:end], text[end:]
            else:
                done, rest = self._clean(text, whole=False)
            yield done
        yield self._clean(rest, whole=True)[0]

    def _record_end(self, text: bytes) -> int | None:
        """Where the last record of ``text`` ends if there is nothing to clean; None if its tokens must be looked at."""
        if (self._escapes and self._escapes in text) or (self._comment and self._comment in text):
            return None
        end = text.rfind(b"\n") + 1
        return end if end and not (self._quote and text.count(self._quote, 0, end) % 2) else None

    def _clean(self, text: bytes, *, whole: bool) -> tuple[bytes, bytes]:
        """The clean beginning of ``text``, and the rest, which goes on in the next piece; ``whole``: there is none."""
        done: list[bytes] = []
        copied = record_end = kept = 0
        for match in self._token.finditer(text):
            token = match.group()
            at_end = match.end() == len(text) and not whole
            if token == b"\n":
                done.append(text[copied : match.end()])
            elif self._comment and token.startswith(self._comment):
                if at_end:
                    break
                done.append(text[copied : match.start()])
            elif at_end:  # it may go on
                break
            else:
                done += (text[copied : match.start()], self._escaped.sub(self._doubled, token))
                copied = match.end()
                continue
            copied = record_end = match.end()
            kept = len(done)
        if whole:
            return b"".join((*done, text[copied:])), b""
        return b"".join(done[:kept]), text[record_end:]

    @property
    def _doubled(self) -> Callable[[re.Match[bytes]], bytes]:
        return lambda match: match.group(1) * 2 if match.group(1) == self._quote else match.group(1)
