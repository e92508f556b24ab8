"""One statement as tokens, each of which knows its line and column; and a cursor to read them with.

Place in the flow: ``door.execute`` parses the text into a :class:`Statement`, and a family's handler reads it with a
:class:`Cursor`. Promises: any text gives a statement, or an InvalidRequestError with ``line L, column C``. The case of
words does not matter; a name in double quotes or backquotes is never a keyword.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import ClassVar, Final, TypeVar

from sqlglot import Token, Tokenizer, TokenType
from sqlglot.errors import SqlglotError

from metastore.errors import InvalidRequestError, NotFoundError
from metastore.sql.target import Progress, QueryEngine

T = TypeVar("T")

_WORD: Final = re.compile(r"[^\W\d]\w*")


class _Tokenizer(Tokenizer):
    """A tokenizer without commands: otherwise sqlglot makes one string of the text after CALL or SHOW."""

    IDENTIFIERS: ClassVar = ['"', "`"]
    COMMANDS: ClassVar = set()


@dataclass(frozen=True)
class Name:
    """One part of a name; ``exact`` when it was in quotes."""

    text: str
    exact: bool
    token: Token


@dataclass(frozen=True)
class Statement:
    """A text that is one statement, without the semicolon at its end. Long work calls ``on_progress``.

    ``explains``: EXPLAIN stands before the statement, which does not run. ``engine`` runs its query; None: DuckDB.
    """

    text: str
    tokens: tuple[Token, ...]
    on_progress: Progress | None = None
    explains: bool = False
    engine: QueryEngine | None = None

    @classmethod
    def parse(cls, text: str, on_progress: Progress | None = None) -> Statement:
        """Raises InvalidRequestError for an empty text, a text that cannot be tokenized, and several statements."""
        try:
            tokens = _Tokenizer().tokenize(text)
            text.encode()
        except UnicodeEncodeError as error:
            raise InvalidRequestError(f"{_place(text, error.start)}: the character is not UTF-8") from error
        except (SqlglotError, ValueError) as error:
            raise InvalidRequestError(f"{_place(text, len(text))}: the text ends within a quote or comment") from error
        while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
            tokens.pop()
        statement = cls(text, tuple(tokens), on_progress)
        if not tokens:
            raise statement.error("a statement is expected")
        for token in tokens:
            if token.token_type is TokenType.SEMICOLON:
                raise statement.error("one statement at a time is expected, not several", token)
        return statement

    def without_explain(self) -> Statement:
        """Returns the statement after the word EXPLAIN, with its lines and columns."""
        word = self.tokens[0]
        text = self.text[: word.start] + " " * len("EXPLAIN") + self.text[word.end + 1 :]
        return replace(self, text=text, tokens=self.tokens[1:], explains=True)

    def with_short_explain(self) -> Statement:
        """Returns the statement with EXPLAIN in place of Drill's EXPLAIN PLAN FOR, at the same lines and columns."""
        if not self.begins_with(("EXPLAIN", "PLAN", "FOR")):
            return self
        start, end = self.tokens[1].start, self.tokens[2].end + 1
        text = self.text[:start] + re.sub(r"[^\n]", " ", self.text[start:end]) + self.text[end:]
        return replace(self, text=text, tokens=self.tokens[:1] + self.tokens[3:])

    def word(self, index: int) -> str:
        """Returns the token at ``index`` in upper case if it is a word; else an empty text."""
        if index >= len(self.tokens) or self.tokens[index].token_type is TokenType.IDENTIFIER:
            return ""
        source = self.source(self.tokens[index])
        return source.upper() if _WORD.fullmatch(source) else ""

    def begins_with(self, words: Sequence[str]) -> bool:
        """Whether the statement begins with these words."""
        return all(self.word(index) == word for index, word in enumerate(words))

    def source(self, token: Token) -> str:
        """Returns the token as it is written in the text."""
        return self.text[token.start : token.end + 1]

    def place(self, token: Token | None = None) -> str:
        """Returns ``line L, column C`` of the token's first character, both from 1; without a token, of the end."""
        return _place(self.text, len(self.text.rstrip()) if token is None else token.start)

    @contextmanager
    def at(self, token: Token) -> Iterator[None]:
        """Within this context, an error gets the place of ``token``."""
        try:
            yield
        except (InvalidRequestError, NotFoundError) as error:
            raise type(error)(f"{self.place(token)}: {error}") from error

    def error(self, message: str, token: Token | None = None) -> InvalidRequestError:
        """Returns the error for a fault at ``token``, or at the end."""
        return InvalidRequestError(f"{self.place(token)}: {message}")


def split(text: str) -> list[str]:
    """Returns the statements of a script, with their lines and columns; none for blanks and comments only.

    Raises InvalidRequestError for a text that ends within a quote or comment.
    """
    try:
        tokens = _Tokenizer().tokenize(text)
    except (SqlglotError, ValueError) as error:
        raise InvalidRequestError(f"{_place(text, len(text))}: the text ends within a quote or comment") from error
    found, first = [], None
    for token in tokens:
        if token.token_type is not TokenType.SEMICOLON:
            first = token.start if first is None else first
        elif first is not None:
            found.append((first, token.start))
            first = None
    if first is not None:
        found.append((first, len(text)))
    return [re.sub(r"[^\n]", " ", text[:start]) + text[start:end] for start, end in found]


class Cursor:
    """Reads a statement from left to right."""

    def __init__(self, statement: Statement, start: int = 0) -> None:
        self.statement = statement
        self.notes: list[str] = []
        """What was read and cannot be kept as it was written, for the answer of the statement."""
        self._next = start

    def with_notes(self, answer: str) -> str:
        """Returns ``answer`` with the notes, each once."""
        return "; ".join((answer, *dict.fromkeys(self.notes)))

    @property
    def token(self) -> Token | None:
        """The next token; None at the end."""
        tokens = self.statement.tokens
        return tokens[self._next] if self._next < len(tokens) else None

    @property
    def index(self) -> int:
        """The place of the next token among those of the statement."""
        return self._next

    @property
    def word(self) -> str:
        """The next token in upper case if it is a word; else an empty text."""
        return self.statement.word(self._next)

    def word_ahead(self, by: int) -> str:
        """Return the token ``by`` places ahead as :attr:`word` does."""
        return self.statement.word(self._next + by)

    def ahead(self, kind: TokenType, by: int = 0) -> bool:
        """Whether the token ``by`` places ahead is of ``kind``."""
        index = self._next + by
        return index < len(self.statement.tokens) and self.statement.tokens[index].token_type is kind

    def advance(self) -> Token:
        """Read and return the next token."""
        token = self.token
        if token is None:
            raise self.expectation_error("more")
        self._next += 1
        return token

    def accept(self, kind: TokenType) -> bool:
        """Read the next token if it is of ``kind``."""
        found = self.ahead(kind)
        self._next += found
        return found

    def accept_word(self, word: str) -> bool:
        """Read the next token if it is that word."""
        found = self.word == word
        self._next += found
        return found

    def accept_words(self, first: str, *others: str) -> bool:
        """Read the words if the first is next; the others must follow it."""
        if not self.accept_word(first):
            return False
        for word in others:
            self.expect_word(word)
        return True

    def expect(self, kind: TokenType, sign: str) -> Token:
        """Read the next token, which must be ``sign``."""
        if not self.ahead(kind):
            raise self.expectation_error(sign)
        return self.advance()

    def expect_word(self, word: str) -> Token:
        """Read the next token, which must be that word."""
        if self.word != word:
            raise self.expectation_error(word)
        return self.advance()

    def name(self, what: str) -> Name:
        """Read one part of a name: a word (also a keyword), or anything in quotes."""
        token = self.token
        if token is not None and token.token_type is TokenType.IDENTIFIER and token.text:
            return Name(token.text, True, self.advance())
        if token is None or not self.word:
            raise self.expectation_error(what)
        return Name(self.statement.source(token), False, self.advance())

    def names(self, what: str) -> list[Name]:
        """Read a name of parts with dots between them."""
        found = [self.name(what)]
        while self.accept(TokenType.DOT):
            found.append(self.name(what))
        return found

    def list_of(self, read: Callable[[], T]) -> list[T]:
        """Read one thing or more, with commas between them."""
        found = [read()]
        while self.accept(TokenType.COMMA):
            found.append(read())
        return found

    def list_before(self, closing: TokenType, sign: str, read: Callable[[], T]) -> list[T]:
        """Read things with commas between them, and the ``closing`` sign; an empty list if only that is there."""
        if self.accept(closing):
            return []
        found = self.list_of(read)
        self.expect(closing, f", or {sign}")
        return found

    def table(self) -> list[Name]:
        """Read the name of a table, or a text in single quotes in its place: the path of a table."""
        if self.ahead(TokenType.STRING):
            token = self.advance()
            return [Name(token.text, True, token)]
        return self.names("the name of a table")

    def end(self) -> None:
        """Raises InvalidRequestError if any token is left."""
        if self.token is not None:
            raise self.expectation_error("the end of the statement")

    def expectation_error(self, expectation: str) -> InvalidRequestError:
        """Returns the error for a next token that is not ``expectation``."""
        token = self.token
        found = "the end" if token is None else self.statement.source(token)
        return self.statement.error(f"{expectation} is expected, not {found}", token)


def _place(text: str, position: int) -> str:
    before = text[:position]
    return f"line {before.count(chr(10)) + 1}, column {position - (before.rfind(chr(10)) + 1) + 1}"
