"""The scan that a client asks the server to plan: its snapshot, its condition, its parts. Pure; all else is a Refusal.

A condition comes as Iceberg's JSON. Literals get the types of their columns, as Iceberg for Java writes dates and times
as numbers. What is not understood is refused, since the client believes that the plan honours the whole condition.

The token of a part holds the whole request, so the server keeps nothing of a plan, and another server can answer. What
a token says is checked like a request for a plan.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from pyiceberg.catalog.rest.scan_planning import PlanTableScanRequest
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundPredicate,
    LiteralPredicate,
    Or,
    SetPredicate,
)
from pyiceberg.expressions.visitors import bind, rewrite_not
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, FixedType

from metastore.serve.requests import Refusal, bad_request, content_of, token_of

_LONGEST: Final = 16 << 10
"""Longest request in bytes that tokens repeat; the plan of a longer one has one part."""


@dataclass(frozen=True)
class ScanRequest:
    """What is asked for. ``snapshot_id`` None is the newest; names are in any case unless ``case_sensitive``."""

    condition: BooleanExpression
    snapshot_id: int | None
    case_sensitive: bool
    document: Mapping[str, Any] = field(default_factory=dict)
    """The request as it came."""

    @property
    def can_be_parted(self) -> bool:
        """Whether tokens of parts may repeat the request."""
        return len(json.dumps(self.document)) <= _LONGEST


@dataclass(frozen=True)
class PlanPart:
    """The files of a plan from the ``first`` to the ``last``, each by the key of its segment and its path."""

    first: tuple[str, str]
    last: tuple[str, str]

    def keys_among(self, segments: Sequence[str]) -> frozenset[str]:
        """Return the keys of the segments that have files of this part."""
        return frozenset(key for key in segments if self.first[0] <= key <= self.last[0])


@dataclass(frozen=True)
class PlannedScan:
    """The tasks of a scan of ``snapshot_id``, and the parts that have its other tasks."""

    tasks: Sequence[Mapping[str, Any]]
    snapshot_id: int
    parts: Sequence[PlanPart]

    def tokens(self, request: ScanRequest) -> list[str]:
        """Return the tokens by which a client fetches the other parts."""
        asked = {**request.document, "snapshot-id": self.snapshot_id}
        return [token_of({"request": asked, "part": (part.first, part.last)}) for part in self.parts]


def scan_request(document: Mapping[str, Any]) -> ScanRequest:
    """Return the request of a JSON object. Raises Refusal for one that is not well formed, or asks for changes."""
    try:
        found = PlanTableScanRequest.model_validate(document)
    except (ValueError, TypeError, RecursionError) as error:
        raise bad_request("the body is no request for the plan of a scan, or its filter is not supported") from error
    if found.start_snapshot_id is not None or found.end_snapshot_id is not None:
        raise bad_request("the changes between two snapshots cannot be planned here")
    return ScanRequest(found.filter or AlwaysTrue(), found.snapshot_id, found.case_sensitive, document)


def part_request(document: Mapping[str, Any]) -> tuple[ScanRequest, PlanPart]:
    """Return the request and the part of a JSON object with a ``plan-task``. Raises Refusal."""
    token = document.get("plan-task")
    if not isinstance(token, str):
        raise bad_request("the body names no plan-task")
    try:
        found = content_of(token)
        request, part = {**found["request"]}, PlanPart(*((str(key), str(path)) for key, path in found["part"]))
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        text = "plan-task is not one that this server has given"
        raise Refusal(HTTPStatus.NOT_FOUND, "NoSuchPlanTaskException", text) from error
    return scan_request(request), part


def typed_condition(request: ScanRequest, schema: Schema) -> BooleanExpression:
    """Return the condition over the names of ``schema``, with literals of its types. Raises Refusal."""
    try:
        return _typed_part(rewrite_not(request.condition), schema, request.case_sensitive)
    except (ValueError, TypeError, NotImplementedError, ArithmeticError, RecursionError) as error:
        raise bad_request(f"the filter does not fit the table's columns: {str(error)[:200]}") from error


def _typed_part(node: BooleanExpression, schema: Schema, is_case_sensitive: bool) -> BooleanExpression:
    """Return a condition without NOT over names of ``schema``."""
    if isinstance(node, (And, Or)):
        left, right = (_typed_part(each, schema, is_case_sensitive) for each in (node.left, node.right))
        return type(node)(left, right)
    if isinstance(node, (LiteralPredicate, SetPredicate)):
        field = node.term.bind(schema, is_case_sensitive).ref().field
        if isinstance(field.field_type, (BinaryType, FixedType)):
            # Java writes bytes as hexadecimal digits, PyIceberg otherwise; no directory has any: each file may match.
            return AlwaysTrue()
    bound: Any = bind(schema, node, is_case_sensitive)
    if not isinstance(bound, BoundPredicate):
        always: BooleanExpression = bound
        return always
    name: Any = schema.find_column_name(bound.term.ref().field.field_id)
    given = [getattr(bound, kind) for kind in ("literal", "literals") if hasattr(bound, kind)]
    found: BooleanExpression = bound.as_unbound(name, *given)
    return found
