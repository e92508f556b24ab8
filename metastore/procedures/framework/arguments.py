"""What a procedure declares of one argument: its name, its type, whether it must be given, and what it is otherwise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from metastore.errors import InvalidRequestError
from metastore.procedures.framework.types import cast_to, parse_type


@dataclass(frozen=True)
class Argument:
    """One declared argument. ``type`` is kept as SQL writes it, in upper case; ``default`` as the type's value.

    Names are found without regard to case when a call does not quote them. Raises InvalidRequestError for an empty
    name, a type that there is not, a default that is not of the type, and a default of what must be given.
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
        # The only values of a frozen object that are made from what was given.
        object.__setattr__(self, "type", str(parse_type(self.type)))
        object.__setattr__(self, "default", cast_to(self.type, self.default))

    @property
    def nullable(self) -> bool:
        """Whether NULL may be given: where it is what the procedure gets without the argument, too."""
        return not self.required and self.default is None

    def __str__(self) -> str:
        """Name and type, as signatures show them."""
        return f"{self.name} {self.type.lower()}"
