"""The only user of pyhocon: turns HOCON text into nodes for ``resolution``, with the place of every key.

It uses only pyhocon's grammar. Promises beyond pyhocon:

- No network access: pyhocon sees no ``include``. Includes are inserted here, from local files only; any other include
  is refused before a byte of it is read.
- ``512m`` stays the text ``512m``. pyhocon would read 512 minutes, in a class that depends on installed packages.
- A number keeps its spelling if that matters: ``0042`` and ``1.10`` stay these texts.
- A quoted string has JSON's escapes and no others, as in Typesafe's library. pyhocon replaces some escapes one after
  the other, so that a Windows path with doubled backslashes would get tabs.
- ``a."b.c".d = 1`` and ``a += 1`` work; pyhocon supports neither.
- Errors can name a key's file and line, through includes too, unless several lines are possible.
- Text that is nested too deeply is a ConfigError, not a stack overflow.
- pyparsing's global whitespace setting is restored, also after a syntax error; other parsers in the process use it.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pyhocon import ConfigFactory, ConfigTree
from pyhocon.config_parser import NO_SUBSTITUTION
from pyhocon.config_tree import ConfigQuotedString, ConfigSubstitution, ConfigValues, NoneValue
from pyhocon.exceptions import ConfigException
from pyparsing import ParseBaseException, ParserElement

from metastore.config.collisions import Assignment, assignments, assignments_in, collisions, said_of_lost
from metastore.config.resolution import ABSENT, Concatenation, KeyPath, Node, Substitution
from metastore.errors import ConfigError

_QUOTED = r'"(?:[^"\\\n]|\\.)*"'
_SEGMENT = r'(?:[\w-]+|"[^"\\\n]*")'
_TOKEN = re.compile(
    rf"""
      (?P<comment> \#[^\n]* | (?<![^\s,{{}}\[\]"])//[^\n]* )
    | (?P<path> (?<![\w."-]) {_SEGMENT}(?:\.{_SEGMENT})+ (?=[ \t]*(?:[:={{]|\+=)) )
    | (?P<literal> \$\{{[^}}]+\}} | \"\"\"(?s:.*?)\"\"\"+ | {_QUOTED} | \\. )
    | (?P<include> (?<![\w$."-]) (?i:include) [ \t]* (?=["(]|(?:required|url|file|classpath|package)\b)
        (?: (?P<required>required[ \t]*\()? [ \t]* (?:(?P<kind>[a-z]+)[ \t]*\()? [ \t]* (?P<name>{_QUOTED})[ \t)]* )? )
    | (?P<append> \+=[ \t]* (?P<element> {_QUOTED} | (?![\s\[{{"$]) (?:(?!(?i:\binclude\b))[^\n}},\#])+ ) )
    | (?P<number> (?<![^\s=:,\[\]}}"]) [+-]?(?:\d*\.\d+|\d+)(?:[eE][+-]?\d+)? (?=$|[ \t]*(?:[$}}\],\#\n\r]|//)) )
    | (?P<period> (?<![^\s=:,\[]) \d+[ ]*[a-z]+ (?![\w.-]|[ \t]*[:={{]) )
    """,
    re.VERBOSE,
)
_DOT_IN_NAME = "ÿþ"  # stands for a quoted dot while pyhocon looks at a key path; its grammar takes these two letters
_INCLUDED_HERE = "\0"
_MARK = "\x02"  # before the number of a character that pyhocon would take for something else, in a quoted string
_MARKED = re.compile(rf"{_MARK}(\d+);")
_ESCAPE = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}|(?P<unknown>.))')
_DEEPEST = 100
"""Maximum nesting of objects and lists, so that later recursive functions do not exceed Python's stack."""

_PARSER_STATE = threading.Lock()


@dataclass(frozen=True)
class Place:
    """A file and a line in it; ``path`` is None for text that came from no file."""

    path: Path | None
    line: int

    def __str__(self) -> str:
        return f"{self.path or 'the given text'}:{self.line}"


@dataclass(frozen=True)
class Document:
    """One parsed text; its substitutions are not resolved yet."""

    root: dict[str, Node]
    lines: Sequence[str] = ()
    places: Sequence[Place] = ()
    given: Mapping[str, Any] = field(default_factory=dict)
    """The original mapping of a tier that was given in code."""
    below: KeyPath = ()
    """The key in ``root`` at which the keys of this file begin."""

    @cached_property
    def is_of_files(self) -> bool:
        """Whether some of its lines come from a file: the text's own, or an included one."""
        return any(place.path is not None for place in self.places)

    @cached_property
    def assigned(self) -> Sequence[Assignment]:
        """Returns every statement, in order."""
        found = (*assignments(self.lines), *assignments_in(self.given))
        return [replace(each, key=(*self.below, *map(_name, each.key))) for each in found]

    @cached_property
    def _plain_lines(self) -> Sequence[str]:
        return [_unmarked(line.replace(_DOT_IN_NAME, ".")) for line in self.lines]

    def node(self, key: KeyPath) -> Node:
        """Returns the node of ``key``, or of an object around it; ABSENT if the document does not mention it."""
        node: Node = self.root
        for name in key:
            if not isinstance(node, dict):
                return node
            node = node.get(name, ABSENT)
        return node

    def place(self, key: KeyPath) -> Place | None:
        """Returns the line that sets ``key`` or an object around it; None if several lines are possible."""
        depth = next((depth for depth in range(len(key)) if not isinstance(self.node(key[:depth]), dict)), len(key))
        tails = "|".join(r'"?\."?'.join(map(re.escape, key[start:depth])) for start in range(depth))
        ends = (
            r"[:={.]|\+=" if isinstance(self.node(key), dict) else r"[:={]|\+="
        )  # several statements may set parts of an object
        statement = re.compile(rf'(?:^|[{{,])\s*"?(?:{tails})"?\s*(?:{ends})')
        found = [place for line, place in zip(self._plain_lines, self.places, strict=True) if statement.search(line)]
        return found[0] if len(found) == 1 else None


def is_file(path: Path) -> bool:
    """Returns whether the file exists. Raises ConfigError if that is unknown, as in a folder without permission."""
    try:
        return path.is_file()
    except OSError as error:
        raise ConfigError(f"the configuration file {path} cannot be looked up: {error.strerror}") from error


def is_present(path: Path) -> bool:
    """Returns whether the file exists. Raises ConfigError also for a directory or a broken link of that name.

    Ignoring these would hide a mistake: containers create such directories for files that are missing when mounted.
    """
    if is_file(path):
        return True
    if path.is_dir():
        raise ConfigError(f"the configuration file {path} is a directory")
    if path.is_symlink() and not path.exists():
        raise ConfigError(f"the configuration file {path} is a symbolic link whose target does not exist")
    return False


def read_document(path: Path) -> Document:
    """Parse a file and its includes. Raises ConfigError with file and line."""
    return parse_document(read_text(path), path)


def parse_document(text: str, path: Path | None = None) -> Document:
    """Parse HOCON; includes are relative to the folder of ``path``. Raises ConfigError with file and line."""
    lines: list[str] = []
    places: list[Place] = []
    for line, place in _prepared(text.removeprefix("\ufeff"), path, () if path is None else (path.resolve(),)):
        lines.append(line)
        places.append(place)
    try:
        with _pyparsing_restored():
            tree = ConfigFactory.parse_string("\n".join(lines), resolve=False, unresolved_value=NO_SUBSTITUTION)
        if not isinstance(tree, ConfigTree):
            raise ConfigError(f"{path or 'the given text'} holds a list; a configuration is an object of keys")
        return Document(_node(tree), lines, places)
    except RecursionError as error:
        raise ConfigError(f"{path or 'the given text'} nests objects or lists too deep") from error
    except ParseBaseException as error:
        place = places[min(error.lineno, len(places)) - 1]
        key = re.split(r"[:=]", error.line)[0].strip()  # without the value, which may be a secret
        raise ConfigError(f"{place} is not HOCON, at or before {key!r}") from error
    except ConfigException:
        # The message and traceback of pyhocon repeat values, which may be secrets.
        raise _unjoinable(path, Document({}, lines, places)) from None


def _unjoinable(path: Path | None, document: Document) -> ConfigError:
    """Returns the error for a document that gives one key a value and an object, or concatenates them."""
    for found in collisions((each, None) for each in document.assigned):
        lost, other = (
            f"{'.'.join(each.key)} ({document.places[each.line]})"
            for each in (found.lost, found.other)
            if each.line is not None
        )
        return ConfigError(said_of_lost(lost, other))
    return ConfigError(
        f"{path or 'the given text'} is not HOCON: it joins an object or a list with a value of another kind"
    )


def document_of(mapping: Mapping[str, Any]) -> Document:
    """Returns the document of a tier given in code: nested mappings, whose keys may be dotted paths."""
    return Document(_node(ConfigFactory.from_dict(dict(mapping))), given=mapping)


def read_text(path: Path) -> str:
    """Returns the text of a configuration file. Raises ConfigError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8-sig")  # Windows editors write a byte order mark
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file {path} cannot be read: {error}") from error


@contextmanager
def _pyparsing_restored() -> Iterator[None]:
    with _PARSER_STATE:
        before = ParserElement.DEFAULT_WHITE_CHARS
        try:
            yield
        finally:
            ParserElement.set_default_whitespace_chars(before)


def _prepared(text: str, path: Path | None, including: tuple[Path, ...]) -> Iterator[tuple[str, Place]]:
    """Returns the lines for pyhocon, with included files inserted; each line has its origin."""
    if _INCLUDED_HERE in text or _MARK in text:
        raise ConfigError(f"{path or 'the given text'} is not HOCON: it contains the character U+0000 or U+0002")
    included: list[Path | None] = []

    def rewrite(token: re.Match[str]) -> str:
        if token["include"] is not None:
            included.append(_included(token, path, including))
            return _INCLUDED_HERE
        return _rewritten(token, _place(token, path))

    files = iter(included)
    for number, line in enumerate(_TOKEN.sub(rewrite, text).split("\n"), start=1):
        first, *after_includes = line.split(_INCLUDED_HERE)
        yield first, Place(path, number)
        for rest in after_includes:
            file = next(files)
            if file is not None:
                yield from _prepared(_without_braces(read_text(file)), file, (*including, file))
            yield rest, Place(path, number)


def _place(token: re.Match[str], path: Path | None) -> Place:
    return Place(path, token.string.count("\n", 0, token.start()) + 1)


def _rewritten(token: re.Match[str], place: Place) -> str:
    if token["comment"] is not None:
        return ""
    if token["period"] is not None:
        return f'"{token["period"]}"'
    if token["number"] is not None:
        return token["number"] if _counts_as_spelled(token["number"]) else f'"{token["number"]}"'
    if token["literal"] is not None and token[0][0] == '"' and not token[0].startswith('"""'):
        return f'"{_marked(_text_of(token[0], place))}"'
    if token["append"] is not None:
        return f"+= [{_TOKEN.sub(lambda inner: _rewritten(inner, place), token['element'].rstrip())}]"
    if token["path"] is not None and '"' in token["path"]:
        segments = re.findall(_SEGMENT, token["path"])
        return ".".join(part.strip('"').replace(".", _DOT_IN_NAME) if part[0] == '"' else part for part in segments)
    return token[0]


def _counts_as_spelled(number: str) -> bool:
    """Returns whether Python writes the number in the same way, so that converting the text loses nothing."""
    read = int(number) if number.lstrip("+-").isdecimal() else float(number)
    return number == str(read)


def _text_of(quoted: str, place: Place) -> str:
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


def _marked(text: str) -> str:
    return re.sub(rf'[\\"\0\t\n\r{_MARK}]', lambda character: f"{_MARK}{ord(character[0])};", text)


def _unmarked(text: str) -> str:
    return _MARKED.sub(lambda mark: chr(int(mark[1])), text)


def _included(token: re.Match[str], path: Path | None, including: tuple[Path, ...]) -> Path | None:
    """Returns the local file of an include; None if it is absent and not required."""
    statement = f"{_place(token, path)}: {token[0].strip()!r}"
    before = token.string[: token.start()].rstrip(" \t")
    if before and before[-1] not in "\n\r{},":
        raise ConfigError(f"{statement} is inside a value; write include as a separate statement")
    if token["name"] is None or token["kind"] not in {None, "file"} or "://" in token["name"]:
        raise ConfigError(f'{statement} is refused: only local files are included, as in include "common.conf"')
    file = Path(path.parent if path else "", token["name"][1:-1]).resolve()
    if file in including:
        raise ConfigError(f"{statement} is circular: {file} is being read already")
    if is_present(file):
        return file
    if token["required"]:
        raise ConfigError(f"{statement} is required, and {file} does not exist")
    return None


def _without_braces(text: str) -> str:
    """Returns the body of an included file; its outermost braces are optional."""
    bare = _TOKEN.sub(lambda token: " " * len(token[0]) if token["comment"] else token[0].replace("{", "x"), text)
    opened, closed = len(bare) - len(bare.lstrip()), len(bare.rstrip()) - 1
    if not bare.lstrip().startswith("{"):
        return text
    return f"{text[:opened]} {text[opened + 1 : closed]} {text[closed + 1 :]}"


def _node(parsed: Any, level: int = 0) -> Node:
    """Converts pyhocon's result into own nodes. Raises RecursionError if it is nested too deeply."""
    if level > _DEEPEST:
        raise RecursionError
    if isinstance(parsed, ConfigTree):
        return {_name(name): _node(value, level + 1) for name, value in parsed.items()}
    if isinstance(parsed, list):
        return [_node(value, level + 1) for value in parsed]
    if isinstance(parsed, ConfigValues):
        below = ABSENT if parsed.overridden_value is None else _node(parsed.overridden_value, level)
        return Concatenation([(_node(token, level), getattr(token, "ws", "")) for token in parsed.tokens], below)
    if isinstance(parsed, ConfigSubstitution):
        appends = isinstance(parsed.instring, bool)  # pyhocon's mark of the substitution that it makes for a +=
        path = None if appends else tuple(_name(part) for part in ConfigTree.parse_key(parsed.variable))
        return Substitution(parsed.variable, path, parsed.optional)
    if isinstance(parsed, ConfigQuotedString):
        return _unmarked(parsed.value)
    if isinstance(parsed, NoneValue):
        return None
    return _unmarked(parsed) if isinstance(parsed, str) else parsed


def _name(key: str) -> str:
    return _unmarked(key.strip('"').replace(_DOT_IN_NAME, "."))
