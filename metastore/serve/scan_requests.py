"""The scan that a client asks the server to plan: its snapshot and its condition. Pure; all else is a Refusal.

A condition comes as Iceberg's JSON. Literals get the types of their columns, as Iceberg for Java writes dates and times
as numbers. What is not understood is refused, since the client believes that the plan honours the whole condition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

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

from metastore.serve.requests import bad_request


@dataclass(frozen=True)
class ScanRequest:
    """What is asked for. ``snapshot_id`` None is the newest; names are in any case unless ``case_sensitive``."""

    condition: BooleanExpression
    snapshot_id: int | None
    case_sensitive: bool


def scan_request(document: Mapping[str, Any]) -> ScanRequest:
    """Return the request of a JSON object. Raises Refusal for one that is not well formed, or asks for changes."""
    try:
        found = PlanTableScanRequest.model_validate(document)
    except (ValueError, TypeError, RecursionError) as error:
        raise bad_request("the body is no request for the plan of a scan, or its filter is not supported") from error
    if found.start_snapshot_id is not None or found.end_snapshot_id is not None:
        raise bad_request("the changes between two snapshots cannot be planned here")
    return ScanRequest(found.filter or AlwaysTrue(), found.snapshot_id, found.case_sensitive)


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
