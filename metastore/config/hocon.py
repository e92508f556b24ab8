"""Parses HOCON text into nodes for ``resolution``, with the place of every statement.

The grammar is that of Typesafe's library, which a test compares. It is wider in two ways: the characters ``: = + *``
may stand in unquoted text, and a backslash keeps the character behind it. Promises:

- No network access. Only local files are included; any other include is refused before a byte of it is read.
- ``512m`` stays the text ``512m``. A number keeps its spelling if that matters: ``0042`` and ``1.10`` stay these texts.
- A quoted string has JSON's escapes and no others.
- Errors name a key's file and line, through includes too, and no value, which may be a secret.
- Text that is nested too deeply is a ConfigError, not a stack overflow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import chain
from pathlib import Path
from typing import Any, Final, NoReturn

from metastore.config.collisions import Assignment, ValueForm, assignments_in, segments
from metastore.config.included_files import candidates, is_present, properties_in, read_text
from metastore.config.resolution import ABSENT, Concatenation, ConfigPlace, KeyPath, Node, Substitution, overlay
from metastore.errors import ConfigError

_QUOTED: Final = r'"(?:[^"\\\n]|\\.)*"'
_CHARACTER: Final = r'(?:\\.|\$(?!\{)|[^\s,{}\[\]"\#$\\])'
_BLANKS: Final = re.compile(r"[^\S\n]*")
_SKIPPED: Final = re.compile(r"(?:[\s,\ufeff]|(?:\#|//)[^\n]*)*")
_COMMENT: Final = re.compile(r"\#|//")
_TOKEN: Final = re.compile(
    rf"""
      \"\"\"(?P<raw>(?s:.*?)\"\"\"\"*) | (?P<quoted>{_QUOTED}) | \$\{{(?P<optional>\??)(?P<name>[^}}]*)\}}
    | (?P<word>(?:(?!//){_CHARACTER})*://{_CHARACTER}* | (?:(?!//){_CHARACTER})+)
    """,
    re.VERBOSE,
)
_KEY: Final = re.compile(rf'(?P<quoted>{_QUOTED})|(?P<word>(?:\\.|\+(?!=)|[^\s:={{}}\[\],"\#$\\+])+)')
_PATH: Final = re.compile(rf"(?P<quoted>{_QUOTED})|(?P<word>[^.]+)")
_ASSIGNS: Final = re.compile(r"\+=|[:=]|(?=\{)")
_INCLUDE: Final = re.compile(
    rf"""(?i:include)[ \t]*(?=["(]|(?:required|url|file|classpath|package)\b)
    (?:(?P<required>required[ \t]*\()?[ \t]*(?:(?P<kind>[a-z]+)[ \t]*\()?[ \t]*(?P<name>{_QUOTED})[ \t)]*)?""",
    re.VERBOSE,
)
_NUMBER: Final = re.compile(r"[+-]?(?:\d*\.\d+|\d+)(?:[eE][+-]?\d+)?")
_ESCAPE: Final = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}|(?P<unknown>.))')
_WORDS: Final[Mapping[str, bool | None]] = {"true": True, "false": False, "null": None}
_DEEPEST: Final = 100
"""Maximum nesting of objects and lists, so that recursive functions do not exceed Python's stack."""


@dataclass(frozen=True)
class Document:
    """One parsed text; its substitutions are not resolved yet."""

    root: dict[str, Node]
    statements: Sequence[Assignment] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    """The original mapping of a tier that was given in code."""
    below: KeyPath = ()
    """The key in ``root`` at which the keys of this file begin."""

    @cached_property
    def is_of_files(self) -> bool:
        """Whether some of its statements come from a file: the text's own, or an included one."""
        return any(each.place is not None and each.place.path is not None for each in self.statements)

    @cached_property
    def assignments(self) -> Sequence[Assignment]:
        """Returns every statement, in order."""
        return [replace(each, key=(*self.below, *each.key)) for each in (*self.statements, *assignments_in(self.given))]

    def node(self, key: KeyPath) -> Node:
        """Returns the node of ``key``, or of an object around it; ABSENT if the document does not mention it."""
        node: Node = self.root
        for name in key:
            if not isinstance(node, dict):
                return node
            node = node.get(name, ABSENT)
        return node

    def place(self, key: KeyPath) -> ConfigPlace | None:
        """Returns the line that sets ``key`` or an object around it; None if several lines are possible."""
        depth = next((depth for depth in range(len(key)) if not isinstance(self.node(key[:depth]), dict)), len(key))
        own = [each.place for each in self.assignments if each.key == key[:depth]]
        parts = own or [each.place for each in self.assignments if each.key[:depth] == key[:depth]]
        return parts[0] if len(set(parts)) == 1 else None


def read_document(path: Path) -> Document:
    """Parse a file and its includes. Raises ConfigError with file and line."""
    return parse_document(read_text(path), path)


def parse_document(text: str, path: Path | None = None) -> Document:
    """Parse HOCON; includes are relative to the folder of ``path``. Raises ConfigError with file and line."""
    parser = _Parser(text.removeprefix("\ufeff"), path, () if path is None else (path.resolve(),))
    return Document(parser.document(), parser.statements)


def document_of(mapping: Mapping[str, Any]) -> Document:
    """Returns the document of a tier given in code: nested mappings, whose keys may be dotted paths."""
    return Document(_of_mapping(mapping), given=mapping)


def _of_mapping(mapping: Any) -> Node:
    if isinstance(mapping, Mapping):
        parts = (_nest_value(segments(str(name)), _of_mapping(value)) for name, value in mapping.items())
        return reduce(overlay, parts, {})
    return [_of_mapping(each) for each in mapping] if isinstance(mapping, list | tuple) else mapping


def _nest_value(key: KeyPath, value: Node) -> Node:
    for name in reversed(key):
        value = {name: value}
    return value


class _Parser:
    """Reads one text from its start to its end; ``above`` is the key of the object that includes it."""

    def __init__(self, text: str, path: Path | None, including: tuple[Path, ...], above: KeyPath = ()) -> None:
        self.statements: list[Assignment] = []
        self._text = text
        self._path = path
        self._including = including
        self._above = above
        self._at = 0

    def document(self) -> dict[str, Node]:
        self._skip()
        if self._text.startswith("[", self._at):
            raise ConfigError(f"{self._path or 'the given text'} holds a list; a configuration is an object of keys")
        is_braced = self._accept("{")
        root = self._fields(self._above, is_braced=is_braced)
        self._skip()
        if self._at < len(self._text):
            self._fail()
        return root

    def _fields(self, above: KeyPath | None, *, is_braced: bool, depth: int = 0) -> dict[str, Node]:
        """Returns the fields up to the closing brace or the end; ``above`` is their object's key, None in a list."""
        found: dict[str, Node] = {}
        while True:
            self._skip()
            if self._at == len(self._text) and not is_braced:
                return found
            if is_braced and self._accept("}"):
                return found
            if include := _INCLUDE.match(self._text, self._at):
                self._at = include.end()
                for node in self._include_files(include, above or ()):
                    found = overlay(found, node)
            else:
                found = overlay(found, self._field(above, depth))

    def _field(self, above: KeyPath | None, depth: int) -> Node:
        """The value of ``key = value`` nested below its dotted key. Its assignment precedes those inside the value."""
        place = self._place()
        key = self._key()
        whole = None if above is None else (*above, *key)
        if depth + len(key) > _DEEPEST:
            raise ConfigError(f"{place} nests objects or lists too deep")
        _, assigns = self._blanks(), _ASSIGNS.match(self._text, self._at)
        if assigns is None:
            self._fail()
        self._at = assigns.end()
        position = len(self.statements)
        value = self._value(whole, depth + len(key))
        if assigns[0] == "+=":
            own = Substitution(".".join(key), None, optional=True)
            value = Concatenation([(own, ""), ([value], "")])
        if whole is not None:
            self.statements.insert(position, Assignment(whole, _form_of(value), place))
        return _nest_value(key, value)

    def _key(self) -> KeyPath:
        """Reads a key path: names with dots between them, which in quotes are part of a name."""
        names: list[str] = [""]
        blanks = ""
        while found := _KEY.match(self._text, self._at):
            self._at = found.end()
            first, *more = [self._text_of(found[0])] if found["quoted"] else found[0].split(".")
            names[-1] += (blanks if names[-1] else "") + first
            names += more
            blanks = self._blanks()
        if "" in names and '""' not in self._text[: self._at]:
            self._fail()
        return tuple(names)

    def _value(self, key: KeyPath | None, depth: int) -> Node:
        """Reads a value: its parts up to the end of the line, a comma, or a closing bracket."""
        while self._blanks() or self._accept("\n") or self._comment():
            pass
        parts: list[tuple[Node, str]] = []
        is_text = False
        while self._at < len(self._text) and self._text[self._at] not in "\n,}]" and not self._begins_comment():
            part, is_word = self._part(key, depth + 1)
            is_text = is_text or is_word
            parts.append((part, self._blanks()))
        if not parts:
            self._fail()
        return self._join_values(parts)

    def _part(self, key: KeyPath | None, depth: int) -> tuple[Node, bool]:
        """Reads a part of a value; True if it is unquoted text."""
        if depth > _DEEPEST:
            raise ConfigError(f"{self._place()} nests objects or lists too deep")
        if self._accept("{"):
            return self._fields(key, is_braced=True, depth=depth), False
        if self._accept("["):
            return self._elements(depth), False
        if (include := _INCLUDE.match(self._text, self._at)) is not None:
            statement = f"{self._place()}: {include[0].strip()!r}"
            raise ConfigError(f"{statement} is inside a value; write include as a separate statement")
        token = _TOKEN.match(self._text, self._at)
        if token is None:
            self._fail()
        place, self._at = self._place(), token.end()
        if token["raw"] is not None:
            return token["raw"][:-3], False
        if token["quoted"] is not None:
            return _QuotedText(_text_of(token[0], place)), False
        if token["name"] is not None:
            names = _PATH.finditer(token["name"])
            path = tuple(_text_of(each[0], place) if each["quoted"] else each[0].strip() for each in names)
            return Substitution(token["name"], path, bool(token["optional"]), self._above), False
        return _Word(token[0]), True

    def _elements(self, depth: int) -> list[Node]:
        found: list[Node] = []
        while True:
            self._skip()
            if self._accept("]"):
                return found
            if self._at == len(self._text):
                self._fail()
            found.append(self._value(None, depth))

    def _join_values(self, parts: list[tuple[Node, str]]) -> Node:
        """The values of one place as one value: objects merged, lists joined, texts with the blanks between them."""
        values = [value for value, _ in parts]
        kinds = {
            dict if isinstance(each, dict) else list if isinstance(each, list) else str
            for each in values
            if not isinstance(each, Substitution)
        }
        if len(kinds) > 1:
            raise ConfigError(
                f"{self._place()} is not HOCON: it joins an object or a list with a value of another kind"
            )
        if any(isinstance(each, Substitution) for each in values):
            return Concatenation([(str(each) if isinstance(each, str) else each, blanks) for each, blanks in parts])
        if kinds == {dict}:
            return reduce(overlay, values)
        if kinds == {list}:
            return list(chain.from_iterable(values))
        if len(values) == 1:
            return _scalar(values[0]) if isinstance(values[0], _Word) else str(values[0])
        return "".join(f"{value}{blanks}" for value, blanks in parts[:-1]) + values[-1]

    def _include_files(self, token: re.Match[str], above: KeyPath) -> Iterator[Node]:
        """Yields the objects of an include, the weakest first; none if the file is absent and not required."""
        statement = f"{self._place(token.start())}: {token[0].strip()!r}"
        if token["name"] is None or token["kind"] not in {None, "file"} or "://" in token["name"]:
            raise ConfigError(f'{statement} is refused: only local files are included, as in include "common.conf"')
        name = Path(self._path.parent if self._path else "", token["name"][1:-1]).resolve()
        found = [file for file in candidates(name) if is_present(file)]
        if not found and token["required"]:
            raise ConfigError(f"{statement} is required, and {name} does not exist")
        for file in found:
            if file in self._including:
                raise ConfigError(f"{statement} is circular: {file} is being read already")
            if file.suffix == ".properties":
                yield _of_mapping(properties_in(file))
                continue
            inner = _Parser(read_text(file), file, (*self._including, file), above)
            yield inner.document()
            self.statements += inner.statements

    def _skip(self) -> None:
        found = _SKIPPED.match(self._text, self._at)
        self._at = found.end() if found else self._at

    def _blanks(self) -> str:
        found = _BLANKS.match(self._text, self._at)
        self._at += len(found[0]) if found else 0
        return found[0] if found else ""

    def _begins_comment(self) -> bool:
        return _COMMENT.match(self._text, self._at) is not None

    def _comment(self) -> bool:
        """Passes over a comment, if one begins here."""
        if not self._begins_comment():
            return False
        end = self._text.find("\n", self._at)
        self._at = len(self._text) if end < 0 else end
        return True

    def _accept(self, character: str) -> bool:
        found = self._text.startswith(character, self._at)
        self._at += found
        return found

    def _text_of(self, quoted: str) -> str:
        return _text_of(quoted, self._place())

    def _place(self, position: int | None = None) -> ConfigPlace:
        return ConfigPlace(self._path, self._text.count("\n", 0, self._at if position is None else position) + 1)

    def _fail(self) -> NoReturn:
        if not self._text[self._at :].strip():
            raise ConfigError(f"{self._place()} is not HOCON: the file ends inside of an object or a list; close it")
        line = self._text[self._text.rfind("\n", 0, self._at) + 1 :].partition("\n")[0]
        key = re.split(r"[:=]", line)[0].strip()  # without the value, which may be a secret
        raise ConfigError(f"{self._place()} is not HOCON, at or before {key!r}")


class _Word(str):
    """Unquoted text, which alone may be a number, a boolean or null."""

    __slots__ = ()


class _QuotedText(str):
    """A text in quotes."""

    __slots__ = ()


def _scalar(word: str) -> Node:
    if word in _WORDS:
        return _WORDS[word]
    if not _NUMBER.fullmatch(word):
        return str(word)
    read = int(word) if word.lstrip("+-").isdecimal() else float(word)
    return read if word == str(read) else str(word)  # a number that Python would write in another way stays text


def _form_of(value: Node) -> ValueForm:
    if value is None:
        return ValueForm.NULL
    if isinstance(value, dict):
        return ValueForm.OBJECT
    is_reference = isinstance(value, Concatenation) and isinstance(value.parts[0][0], Substitution)
    return ValueForm.REFERENCE if is_reference else ValueForm.VALUE


def _text_of(quoted: str, place: ConfigPlace) -> str:
    """Returns the text of a quoted string. Raises ConfigError for an escape that JSON does not have."""
    try:
        text: str = json.loads(quoted, strict=False)
        text.encode()
    except ValueError as error:
        unknown = [escape["unknown"] for escape in _ESCAPE.finditer(quoted) if escape["unknown"]]
        what = f"the escape \\{unknown[0]}" if unknown else "half of a surrogate pair"
        raise ConfigError(
            f"{place}: a quoted string holds {what}, which is not an escape sequence; write each backslash twice"
        ) from error
    return text
