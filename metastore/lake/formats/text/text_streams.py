"""Delimited text as Arrow's parser takes it: in UTF-8, with doubled quotes in place of escapes, only lines of records.

To Arrow, an escape character stands for the next character anywhere. Spark writes and reads escapes only within quotes,
and there only before a quote or another escape. So this module resolves escapes, piece by piece; a piece without
escapes passes unchanged. Memory is bounded by pieces, unless a quote is opened and never closed.

This module alone decides which lines are records, for names and rows alike: comments are none, and lines without
anything but blanks are none, as in Spark and DuckDB. Empty lines after the first record are left to Arrow, which
ignores them.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator
from io import RawIOBase
from typing import Any, Final

from metastore.errors import FormatError
from metastore.lake.formats.text.text_options import TextOptions

_PIECE: Final = 4 << 20
_BLANK_LINES: Final = rb"(?: *(?:\r\n?|\n))"
_BREAKS: Final = (b"\n", b"\r", b" ")
_BLANK_BEGINNING: Final = re.compile(rb" *[\r\n]")
_LINE_OF_SPACES: Final = re.compile(rb"\n +[\r\n]")


class PlainText(RawIOBase):
    """A stream of the bytes that ``pieces`` yields, for Arrow to read; its last line ends with a line break."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = _with_last_break(pieces)
        self._rest = b""

    def readable(self) -> bool:
        """True, as for any file that is read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """Returns up to ``size`` bytes, or all remaining ones; no bytes only at the end."""
        if size < 0:
            self._rest = b"".join((self._rest, *self._pieces))
            size = len(self._rest)
        if not self._rest:
            self._rest = next(self._pieces, b"")
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken


def _with_last_break(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yields the non-empty pieces.

    The last one ends with a line break, which Arrow needs to recognize a complete line.
    """
    held = b""
    for piece in filter(None, pieces):
        if held:
            yield held
        held = piece
    if held:
        yield held if held.endswith((b"\n", b"\r")) else held + b"\n"


def plain_pieces(source: Any, delimiter: str, options: TextOptions) -> Iterator[bytes]:
    """Yields the text of ``source`` in UTF-8 without a byte order mark, without escapes, and only lines of records.

    The lines that ``options`` skip are any lines. Each piece but the last ends between records. Raises FormatError for
    bytes that are not of the options' encoding.
    """
    pieces = _without_lines(_decode_pieces(source, options.encoding), options.skip_lines)
    yield from _Cleaner(delimiter, options.quote, options.escape, options.comment).clean_pieces(pieces)


def _without_lines(pieces: Iterator[bytes], count: int) -> Iterator[bytes]:
    """Yields ``pieces`` without their first ``count`` lines."""
    beginning = re.compile(rb"(?:[^\r\n]*(?:\r\n|\r(?!\Z)|\n)){%d}" % count)  # a line feed may follow in the next piece
    held = b""
    for piece in pieces:
        held += piece
        if (found := beginning.match(held)) is not None:
            yield held[found.end() :]
            yield from pieces


def _decode_pieces(source: Any, encoding: str) -> Iterator[bytes]:
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
    """Resolves escapes within quotes, and drops lines that are blank or begin with the comment character."""

    def __init__(self, delimiter: str, quote: str, escape: str, comment: str) -> None:
        self._escapes = escape.encode() if quote and escape != quote else b""
        self._comment = comment.encode()
        ends = re.escape(delimiter.encode()) + rb"\r\n"
        tokens = [rb"\n" + _BLANK_LINES + rb"*", rb"\A" + _BLANK_LINES + rb"+"]
        if comment:
            line = re.escape(self._comment) + rb"[^\n]*(?:\n|\Z)"
            tokens.append(rb"(?:\A|(?<=\n))" + line + _BLANK_LINES + rb"*")
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
        escapable = re.escape(self._escapes + self._quote)
        self._escaped = re.compile(re.escape(self._escapes) + rb"([" + escapable + rb"])") if self._escapes else None

    def clean_pieces(self, pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Yields ``pieces`` cleaned, each up to a line break that ends a record."""
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
        """Returns the end of the last record of ``text`` if nothing must be cleaned.

        Returns None if its tokens must be examined.
        """
        if (self._escapes and self._escapes in text) or (self._comment and self._comment in text):
            return None
        if _BLANK_BEGINNING.match(text) or _LINE_OF_SPACES.search(text):  # other blank lines are ignored by Arrow
            return None
        end = text.rfind(b"\n") + 1
        return end if end and not (self._quote and text.count(self._quote, 0, end) % 2) else None

    def _clean(self, text: bytes, *, whole: bool) -> tuple[bytes, bytes]:
        """Returns the cleaned beginning of ``text``, and the rest, which continues in the next piece.

        ``whole``: none follows.
        """
        done: list[bytes] = []
        copied = record_end = kept = 0
        for match in self._token.finditer(text):
            token = match.group()
            at_end = match.end() == len(text) and not whole
            if token.startswith(_BREAKS):
                done.append(text[copied : match.start() + (match.start() > 0)])
            elif self._comment and token.startswith(self._comment):
                if at_end:
                    break
                done.append(text[copied : match.start()])
            elif at_end:  # it may continue
                break
            else:
                whole_field = token if self._escaped is None else self._escaped.sub(self._quote_doubler, token)
                done += (text[copied : match.start()], whole_field)
                copied = match.end()
                continue
            copied = record_end = match.end()
            kept = len(done)
        if whole:
            return b"".join((*done, text[copied:])), b""
        return b"".join(done[:kept]), text[record_end:]

    @property
    def _quote_doubler(self) -> Callable[[re.Match[bytes]], bytes]:
        return lambda match: match.group(1) * 2 if match.group(1) == self._quote else match.group(1)
