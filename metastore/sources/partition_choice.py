"""The partitions that a request names in a table of directories: ``day = '2026-11-24'``, ``day = '2026-11-*'``.

Place in the flow: ANALYZE of named partitions lists only directories that :meth:`PartitionChoice.may_hold` accepts, and
uses the files that :meth:`PartitionChoice.holds` accepts. Pure functions.

A value is compared with the directory's name after its escapes are decoded: ``04`` is not ``4``. ``*`` stands for any
text, ``?`` for any character. ``>=`` compares numbers if both sides are numbers, else texts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final
from urllib.parse import unquote

from metastore.errors import InvalidRequestError
from metastore.sources.directories import Directories, key_of, named_values

_LEVEL: Final = re.compile(r"dir(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class PartitionCondition:
    """``column = value``, or ``column >= value`` if ``at_least``; ``column`` comes from directories, such as dir0."""

    column: str
    value: str
    at_least: bool = False

    def is_met(self, value: str) -> bool:
        """Returns whether the value ``value`` meets the condition."""
        if self.at_least:
            return _is_at_least(value, self.value)
        pattern = re.escape(self.value).replace(r"\*", ".*").replace(r"\?", ".")
        return re.fullmatch(pattern, value, re.DOTALL) is not None

    def __str__(self) -> str:
        return f"{self.column} {'>=' if self.at_least else '='} {self.value!r}"


@dataclass(frozen=True)
class PartitionChoice:
    """The partitions that meet all conditions of one of ``groups``; each group has at least one."""

    groups: tuple[tuple[PartitionCondition, ...], ...]
    case_sensitive: bool = False

    @classmethod
    def of(
        cls,
        partitions: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None,
        since: Mapping[str, Any] | None,
        *,
        case_sensitive: bool = False,
    ) -> PartitionChoice | None:
        """Returns the partitions with the values of one of ``partitions``, and values of at least ``since``, by column.

        Returns None if both are None. Raises InvalidRequestError if one of them names no column.
        """
        if partitions is None and since is None:
            return None
        named = [partitions] if isinstance(partitions, Mapping) else list(partitions or [{}])
        later = [PartitionCondition(name, str(value), at_least=True) for name, value in (since or {}).items()]
        groups = tuple(
            (*(PartitionCondition(name, str(value)) for name, value in group.items()), *later) for group in named
        )
        if not groups or not all(groups):
            raise InvalidRequestError("name partitions by their columns, such as {'day': '2026-11-24'}")
        return cls(groups, case_sensitive)

    @property
    def is_open(self) -> bool:
        """Whether it has only lower limits (``since``); then it is no error if no partition is found."""
        return all(condition.at_least for group in self.groups for condition in group)

    def may_hold(self, top: str) -> bool:
        """Returns whether partitions below the first-level directory ``top`` may be chosen."""
        return any(all(self._meets(condition, (top,)) is not False for condition in group) for group in self.groups)

    def holds(self, directories: Directories) -> bool:
        """Returns whether files in ``directories`` are chosen."""
        return any(all(self._meets(condition, directories) for condition in group) for group in self.groups)

    def _meets(self, condition: PartitionCondition, directories: Directories) -> bool | None:
        """Returns whether the condition is met; None if no directory has the column."""
        named = named_values(directories, case_sensitive=self.case_sensitive)
        found = named.get(key_of(condition.column, case_sensitive=self.case_sensitive))
        if found is None and (level := _LEVEL.fullmatch(condition.column)) and int(level[1]) < len(directories):
            found = directories[int(level[1])]
        return None if found is None else condition.is_met(unquote(found))

    def __str__(self) -> str:
        return " or ".join(" and ".join(map(str, group)) for group in self.groups)


def _is_at_least(value: str, bound: str) -> bool:
    try:
        return Decimal(value) >= Decimal(bound)
    except InvalidOperation:
        return value >= bound
