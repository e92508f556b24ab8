"""The declaration of one argument: its name, its type, whether it is required, and its default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from metastore.errors import InvalidRequestError
from metastore.procedures.framework.types import cast_to, parse_type


@dataclass(frozen=True)
class Argument:
    """One declared argument. ``type`` is the SQL name in upper case; ``default`` is cast to that type.

    A name without quotes in a call is matched regardless of case. Raises InvalidRequestError if the name is empty, the
    type unknown, the default not of the type, or a required argument has a default.
    """

    name: str
    type: str = "VARCHAR"
    required: bool = True
    default: Any = None

    def __post_init__(self) -> None:
        if not self.name:
            raise InvalidRequestError("name is empty")
        if self.required and self.default is not None:
            raise InvalidRequestError(f"Required argument '{self.name}' cannot have a default")
        # The dataclass is frozen; these two values are derived from the given ones.
        object.__setattr__(self, "type", str(parse_type(self.type)))
        object.__setattr__(self, "default", cast_to(self.type, self.default))

    @property
    def nullable(self) -> bool:
        """Whether NULL may be given: only if the argument is optional and its default is NULL."""
        return not self.required and self.default is None

    def __str__(self) -> str:
        """Name and type, as in signatures."""
        return f"{self.name} {self.type.lower()}"
