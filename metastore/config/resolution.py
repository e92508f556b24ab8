"""Merging HOCON documents and resolving their substitutions, after all of them are merged; pure.

Place in the flow: ``hocon`` parses a text into nodes, ``loader`` lays them over one another here and asks for keys.
Promises: a later value wins whatever it is (false, 0, "" and null too); objects merge; ``${name}`` sees the final value
of the name in any document; ``${name}`` inside ``name`` and ``+=`` see the value below; ``${?name}`` without a value
leaves the value below; only what is asked for is resolved, so a foreign key may stay unresolvable. Of an object that is
asked for, what cannot be resolved is :class:`Unresolvable`: it stops who reads that key, and nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, TypeAlias

from metastore.errors import ConfigError

KeyPath: TypeAlias = tuple[str, ...]
Node: TypeAlias = Any  # dict[str, Node], list[Node], Concatenation, Substitution, a scalar, None for HOCON's null


class _Absence(Enum):
    ABSENT = auto()


ABSENT = _Absence.ABSENT
"""No value at all, unlike null, which is one."""


@dataclass(frozen=True)
class Substitution:
    """``${name}``; without a path it is the value below, which is what ``+=`` appends to."""

    name: str
    path: KeyPath | None
    optional: bool


@dataclass(frozen=True)
class Concatenation:
    """Parts side by side, each with the blanks that follow it, and the value they were laid over."""

    parts: Sequence[tuple[Node, str]]
    below: Node = ABSENT


@dataclass(frozen=True)
class Unresolvable:
    """In place of a value within an object: the error that reading it raises."""

    error: ConfigError


def overlay(below: Node, above: Node) -> Node:
    """``above`` laid over ``below``; neither is changed."""
    if isinstance(above, dict):
        merged = dict(below) if isinstance(below, dict) else {}
        for name, node in above.items():
            merged[name] = overlay(merged.get(name, ABSENT), node)
        return merged
    if isinstance(above, Concatenation):
        return replace(above, below=below if above.below is ABSENT else overlay(below, above.below))
    return above


class Resolution:
    """Looks keys up in merged documents, and names that are no keys in the environment."""

    def __init__(self, root: Node, environ: Mapping[str, str], locate: Callable[[KeyPath], str]) -> None:
        """``environ`` has the variables of the environment, and what else is there beside keys.

        ``locate`` says for an error where a key was written.
        """
        self._root = root
        self._environ = environ
        self._locate = locate
        self._active: list[KeyPath] = []

    def get(self, key: KeyPath) -> Any:
        """The resolved value of ``key``: plain dicts, lists and scalars, or ABSENT.

        Raises ConfigError for a substitution that has no value or goes round in a circle.
        """
        if key in self._active:
            circle = " -> ".join(".".join(path) for path in (*self._active[self._active.index(key) :], key))
            raise ConfigError(f"{self._key_and_place(key)} refers to itself: {circle}")
        self._active.append(key)
        try:
            node = self._root
            for depth, name in enumerate(key):
                if isinstance(node, Concatenation):
                    node = self._resolved(node, key[:depth])
                if not isinstance(node, dict) or name not in node:
                    return ABSENT
                node = node[name]
            return self._resolved(node, key)
        finally:
            self._active.pop()

    def readable(self) -> dict[str, Any]:
        """All values, as far as they can be resolved."""
        found: dict[str, Any] = self.get(())
        return found

    def says_nothing(self, node: Node) -> bool:
        """Whether one document's node, all of it ``${?name}``, leaves the value below it as it is."""
        return isinstance(node, Concatenation) and all(
            isinstance(part, Substitution) and part.optional and self._substituted(part, node.below, ()) is ABSENT
            for part, _ in node.parts
        )

    def _key_and_place(self, key: KeyPath) -> str:
        return f"{'.'.join(key)} ({self._locate(key)})"

    def _resolved(self, node: Node, key: KeyPath) -> Any:
        if isinstance(node, dict):
            values = {name: self._resolved_within(child, (*key, name)) for name, child in node.items()}
            return {name: value for name, value in values.items() if value is not ABSENT}
        if isinstance(node, list):
            return [value for child in node if (value := self._resolved(child, key)) is not ABSENT]
        if isinstance(node, Concatenation):
            return self._joined(node, key)
        return node

    def _resolved_within(self, node: Node, key: KeyPath) -> Any:
        try:
            return self._resolved(node, key)
        except ConfigError as error:
            return Unresolvable(error)

    def _joined(self, node: Concatenation, key: KeyPath) -> Any:
        resolved = [
            (self._substituted(part, node.below, key) if isinstance(part, Substitution) else part, blanks)
            for part, blanks in node.parts
        ]
        parts = [(self._resolved(part, key), blanks) for part, blanks in resolved if part is not ABSENT]
        values = [part for part, _ in parts]
        if not values:
            return self._resolved(node.below, key)
        if all(isinstance(value, dict) for value in values):
            below = self._resolved(node.below, key)
            whole: Node = below if isinstance(below, dict) else {}
            for value in values:
                whole = overlay(whole, value)
            return whole
        if all(isinstance(value, list) for value in values):
            return [item for value in values for item in value]
        if len(values) == 1:
            return values[0]
        if any(isinstance(value, dict | list) for value in values):
            raise ConfigError(f"{self._key_and_place(key)} puts an object or a list beside something else")
        text = "".join(_spelled(value) + blanks for value, blanks in parts[:-1])
        return text + _spelled(values[-1])

    def _substituted(self, part: Substitution, below: Node, key: KeyPath) -> Any:
        path = part.path or key
        value = self._resolved(below, key) if path == key else self.get(path)
        if value is ABSENT:
            value = self._environ.get(part.name, ABSENT)
        if value is ABSENT and not part.optional:
            raise ConfigError(
                f"{self._key_and_place(key)} refers to ${{{part.name}}}, which is neither a key nor an environment "
                "variable nor a system property of Java that is known here"
            )
        return value


def _spelled(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
