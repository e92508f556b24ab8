"""Merges HOCON documents, then resolves their substitutions. Pure functions.

Place in the flow: ``hocon`` parses a text into nodes; ``loader`` merges them here and reads keys. Promises:

- A later value overrides an earlier one, whatever it is (also false, 0, "" and null); objects are merged.
- ``${name}`` is the final value of the name over all documents; inside ``name`` itself, and for ``+=``, it is the
  overridden value. ``${?name}`` without a value keeps the overridden value.
- Only keys that are read are resolved, so a key of another program may be unresolvable. Inside an object that is read,
  such a value is :class:`Unresolvable`: only reading that key fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from pathlib import Path
from typing import Any, TypeAlias

from metastore.errors import ConfigError

KeyPath: TypeAlias = tuple[str, ...]
Node: TypeAlias = Any  # dict[str, Node], list[Node], Concatenation, Substitution, a scalar, None for HOCON's null


class _Absence(Enum):
    ABSENT = auto()


ABSENT = _Absence.ABSENT
"""No value at all; null is a value."""


@dataclass(frozen=True)
class ConfigPlace:
    """A file and a line in it; ``path`` is None for text that came from no file."""

    path: Path | None
    line: int

    def __str__(self) -> str:
        return f"{self.path or 'the given text'}:{self.line}"


@dataclass(frozen=True)
class Substitution:
    """``${name}``; without a path it is the overridden value, to which ``+=`` appends.

    In a file that the object ``within`` includes, the name is looked up there first.
    """

    name: str
    path: KeyPath | None
    optional: bool
    within: KeyPath = ()


@dataclass(frozen=True)
class Concatenation:
    """Concatenated parts, each with the blanks that follow it, and the value that they override."""

    parts: Sequence[tuple[Node, str]]
    below: Node = ABSENT


class Whole(dict[str, Node]):
    """An object over a value of another kind, which hides all objects below that value."""


class _CircleError(ConfigError):
    """A value refers to itself; an optional substitution has no value then."""


@dataclass(frozen=True)
class Unresolvable:
    """Stands for a value inside an object; reading the value raises this error."""

    error: ConfigError


def overlay(below: Node, above: Node) -> Node:
    """Returns ``above`` merged over ``below``; neither is changed."""
    if isinstance(above, Whole):
        return above
    if isinstance(above, dict):
        if isinstance(below, Concatenation):  # it may be an object, whose names are then kept
            return Concatenation([(above, "")], below)
        merged: dict[str, Node] = {} if below is ABSENT else Whole()
        if isinstance(below, dict):
            merged = type(below)(below)
        for name, node in above.items():
            merged[name] = overlay(merged.get(name, ABSENT), node)
        return merged
    if isinstance(above, Concatenation):
        return replace(above, below=below if above.below is ABSENT else overlay(below, above.below))
    return above


class Resolution:
    """Looks up keys in merged documents, and other names in the environment."""

    def __init__(self, root: Node, environ: Mapping[str, str], locate: Callable[[KeyPath], str]) -> None:
        """``environ`` has the environment variables and other names beside keys.

        ``locate`` returns the place of a key for errors.
        """
        self._root = root
        self._environ = environ
        self._locate = locate
        self._active: list[KeyPath] = []

    def get(self, key: KeyPath) -> Any:
        """Returns the resolved value of ``key``: plain dicts, lists and scalars, or ABSENT.

        Raises ConfigError for a substitution without a value, or one that refers to itself in a cycle.
        """
        node = self._root
        for depth, name in enumerate(key):
            node = self._child(node, name, key[:depth])
            if node is ABSENT:
                return ABSENT
        return self._resolved_at(node, key)

    def _child(self, node: Node, name: str, key: KeyPath) -> Node:
        """Returns the node of ``name`` in the node of ``key``, without resolving the others in it."""
        if isinstance(node, dict):
            return node.get(name, ABSENT)
        if not isinstance(node, Concatenation):
            return ABSENT
        found = self._child(node.below, name, key)
        for part, _ in node.parts:
            value = self._substitute(part, node.below, key) if isinstance(part, Substitution) else part
            if isinstance(value, dict):
                found = overlay(found, self._child(value, name, key)) if name in value else found
            elif value is not ABSENT:
                found = ABSENT
        return found

    def _resolved_at(self, node: Node, key: KeyPath) -> Any:
        """Returns the value of the node at ``key``. Raises _CircleError if that is being resolved already."""
        if key in self._active:
            circle = " -> ".join(".".join(path) for path in (*self._active[self._active.index(key) :], key))
            raise _CircleError(f"{self._key_and_place(key)} refers to itself: {circle}")
        self._active.append(key)
        try:
            return self._resolve_node(node, key)
        finally:
            self._active.pop()

    def readable(self) -> dict[str, Any]:
        """Returns all values that can be resolved."""
        found: dict[str, Any] = self.get(())
        return found

    def says_nothing(self, node: Node) -> bool:
        """Returns whether a node, being only ``${?name}`` without a value, keeps the value that it would override."""
        return isinstance(node, Concatenation) and all(
            isinstance(part, Substitution) and part.optional and self._substitute(part, node.below, ()) is ABSENT
            for part, _ in node.parts
        )

    def _key_and_place(self, key: KeyPath) -> str:
        return f"{'.'.join(key)} ({self._locate(key)})"

    def _resolve_node(self, node: Node, key: KeyPath) -> Any:
        if isinstance(node, dict):
            values = {name: self._resolved_within(child, (*key, name)) for name, child in node.items()}
            kept = {name: value for name, value in values.items() if value is not ABSENT}
            return Whole(kept) if isinstance(node, Whole) else kept
        if isinstance(node, list):
            return [value for child in node if (value := self._resolve_node(child, key)) is not ABSENT]
        if isinstance(node, Concatenation):
            return self._join_parts(node, key)
        return node

    def _resolved_within(self, node: Node, key: KeyPath) -> Any:
        try:
            return self._resolved_at(node, key)
        except ConfigError as error:
            return Unresolvable(error)

    def _join_parts(self, node: Concatenation, key: KeyPath) -> Any:
        """The concatenation, its substitutions resolved. Absent parts do not count; objects extend what lies below."""
        resolved = [
            (self._substitute(part, node.below, key) if isinstance(part, Substitution) else part, blanks)
            for part, blanks in node.parts
        ]
        parts = [(ABSENT if part is ABSENT else self._resolve_node(part, key), blanks) for part, blanks in resolved]
        values = [part for part, _ in parts if part is not ABSENT]
        is_blank = not any(blanks for _, blanks in parts[:-1])
        if not values and is_blank:
            return self._resolve_node(node.below, key)
        if values and all(isinstance(value, dict) for value in values):
            below = self._resolve_node(node.below, key)
            whole: Node = below if isinstance(below, dict) else {} if below is ABSENT else Whole()
            for value in values:
                whole = overlay(whole, value)
            return whole
        if values and all(isinstance(value, list) for value in values):
            return [item for value in values for item in value]
        if len(values) == 1 and is_blank:
            return values[0]
        if any(isinstance(value, dict | list) for value in values):
            raise ConfigError(f"{self._key_and_place(key)} joins an object or a list with a value of another kind")
        text = "".join(_text_of(value) + blanks for value, blanks in parts[:-1])
        return text + _text_of(parts[-1][0])

    def _substitute(self, part: Substitution, below: Node, key: KeyPath) -> Any:
        """The value of ``${name}``: by its place in the including file, else globally, else in the environment."""
        path = part.path or key
        value: Any = ABSENT
        for wanted in dict.fromkeys(((*part.within, *path), path)) if part.path else (key,):
            try:
                if value is ABSENT:
                    value = self._resolve_node(below, key) if wanted == key else self.get(wanted)
            except _CircleError:  # noqa: PERF203 - two names at most
                if not part.optional:
                    raise
        if value is ABSENT:
            value = self._environ.get(part.name, ABSENT)
        if value is ABSENT and not part.optional:
            raise ConfigError(
                f"{self._key_and_place(key)} refers to ${{{part.name}}}, which is neither a key nor an environment "
                "variable nor a system property of Java that is known here"
            )
        return value


def _text_of(value: Any) -> str:
    if value is ABSENT:
        return ""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
