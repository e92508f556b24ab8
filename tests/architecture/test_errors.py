"""The error tree is a promise to handlers: its shape, its codes, and that it travels between processes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from metastore import errors
from metastore.errors import MetastoreError

CODES = {
    "MetastoreError": "metastore",
    "ConfigError": "config.invalid",
    "NotFoundError": "not_found",
    "InvalidRequestError": "request.invalid",
    "ConflictError": "commit.conflict",
    "OutcomeUnknownError": "commit.unknown",
    "StorageError": "storage.failed",
    "EngineError": "engine.failed",
    "FormatError": "format.invalid",
    "DamageError": "table.damaged",
    "StaleRowIdError": "row_id.stale",
    "ProcedureError": "procedure.failed",
}
"""Only ever added to: programs and logs compare these texts."""


def tree(root: type[MetastoreError]) -> Iterator[type[MetastoreError]]:
    """An error class and all below it that the module defines."""
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from tree(child)


def test_the_codes_are_pinned_and_unique() -> None:
    """No code changes, and none is used twice."""
    assert {error.__name__: error.code for error in tree(MetastoreError)} == CODES
    assert len(set(CODES.values())) == len(CODES)


def test_every_error_of_the_module_is_in_the_tree() -> None:
    """One ``except MetastoreError`` catches everything that is raised on purpose."""
    defined = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
    assert defined == set(CODES)


@pytest.mark.parametrize("name", CODES)
def test_an_error_survives_pickling(name: str) -> None:
    """Class, text and code arrive whole, as Spark carries them from a worker."""
    sent = getattr(errors, name)("what, where, what to do")
    arrived = pickle.loads(pickle.dumps(sent))  # noqa: S301 - our own bytes
    assert type(arrived) is type(sent)
    assert (str(arrived), arrived.code) == ("what, where, what to do", CODES[name])


def test_an_invalid_request_is_also_a_value_error() -> None:
    """Callers who know nothing of this package catch the builtin; no other error pretends to be one."""
    assert [error.__name__ for error in tree(MetastoreError) if issubclass(error, ValueError)] == [
        "InvalidRequestError"
    ]


@pytest.mark.parametrize("name", CODES)
def test_the_drawing_shows_every_error_with_its_code(name: str) -> None:
    """The tree at the top of the module is what people read; it may not lag behind."""
    drawn = [
        line.split() for line in (errors.__doc__ or "").splitlines() if name in line.split() or f"── {name}" in line
    ]
    assert len(drawn) == 1
    assert CODES[name] in drawn[0] or name == "MetastoreError"
