"""Runs one procedure with bound arguments: a function in this process, or begin, tasks on an engine, and finish.

Place in the flow: ``calls`` resolves and binds, then this module runs the call, for SQL and Python alike. Promises: the
result has exactly the declared columns. If a task fails, or finish certainly committed nothing, the run is aborted. If
the outcome is unknown, nothing is removed. An exception that is not a MetastoreError becomes a ProcedureError that
names the procedure.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from metastore.errors import MetastoreError, OutcomeUnknownError, ProcedureError
from metastore.procedures.framework.model import BaseProcedure, CallContext, DistributedProcedure, Plan, Procedure, Rows

_log: Final = logging.getLogger(__name__)


def run(procedure: BaseProcedure, context: CallContext, arguments: Mapping[str, Any]) -> pa.Table:
    """Returns the rows of ``procedure``. ``arguments`` has every declared argument by name, cast to its type.

    Raises each MetastoreError of the procedure as it is, and ProcedureError for any other exception.
    """
    with _foreign_errors_named(procedure, context):
        return _table(procedure, _rows(procedure, context, arguments))


def explain(procedure: BaseProcedure, context: CallContext, arguments: Mapping[str, Any]) -> list[str]:
    """Returns the lines of the plan tree, output first. A distributed procedure only begins, which changes nothing."""
    name = f"{context.catalog}.{procedure.qualified_name}"
    given = ", ".join(f"{key} => {value!r}" for key, value in arguments.items() if value is not None)
    output = f"Output[{', '.join(procedure.result.names)}]"
    if not isinstance(procedure, DistributedProcedure):
        return [output, f"└─ Call[{name}]", f"     {given}"]
    with _foreign_errors_named(procedure, context):
        plan = procedure.begin(procedure.create_context(context, arguments))
    pinned = "" if plan.pinned is None else f"snapshot {plan.pinned}, "
    details = {
        "Output": [],
        "TableFinish": [plan.describe] if plan.describe else [],
        "CallDistributedProcedure": [name, given],
        "Filter": [str(arguments.get("filter") or "TRUE")],
    }
    source = [f"{pinned}{len(plan.chunks)} work items"]
    lines = []
    for depth, node in enumerate(reversed(procedure.type.nodes)):
        first, *more = details.get(node, source if node == procedure.type.nodes[0] else []) or [""]
        title = output if node == "Output" else f"{node}[{first}]" if first else node
        lines.append(f"{'   ' * (depth - 1)}└─ {title}" if depth else title)
        lines += [f"{'   ' * depth}  {line}" for line in more]
    return lines


def _rows(procedure: BaseProcedure, context: CallContext, arguments: Mapping[str, Any]) -> Rows:
    if isinstance(procedure, Procedure):
        return procedure.function(context, **arguments)
    if isinstance(procedure, DistributedProcedure):
        return _run_distributed(procedure, context, arguments)
    raise ProcedureError(f"{procedure} is neither a normal nor a distributed procedure")


def _run_distributed(procedure: DistributedProcedure[Any], context: CallContext, arguments: Mapping[str, Any]) -> Rows:
    """Run tasks between begin and finish. Written files go unless the commit may have happened."""
    own = procedure.create_context(context, arguments)
    plan = procedure.begin(own)
    fragments: list[pa.RecordBatch] = []
    arriving = _arriving(context, plan, fragments)
    if plan.wave is None:
        try:
            deque(arriving, maxlen=0)
        except BaseException:
            _abort(procedure, own, plan, fragments)
            raise
        arriving = iter(fragments)
    try:
        return procedure.finish(own, plan, arriving)
    except OutcomeUnknownError:
        raise
    except MetastoreError:
        # Only these errors say that nothing was committed. After any other, the written files may be in use.
        _abort(procedure, own, plan, fragments)
        raise


def _arriving(context: CallContext, plan: Plan, fragments: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Run the tasks, wave by wave. Yields their fragments as they arrive, and appends them to ``fragments``."""
    total = len(plan.chunks)
    if not total:
        return
    engine, size = context.engine(total if plan.files is None else plan.files), plan.wave or total
    for first in range(0, total, size):
        for fragment in engine.run(plan.chunks[first : first + size], plan.task, plan.fragment_schema):
            fragments.append(fragment)
            if context.progress is not None:
                context.progress(min(len(fragments), total), total)
            yield fragment


def _abort(procedure: DistributedProcedure[Any], own: Any, plan: Plan, fragments: list[pa.RecordBatch]) -> None:
    """Remove the files that the tasks wrote. Errors are only logged, so that the first error is the one raised."""
    try:
        procedure.abort(own, plan, fragments)
    except Exception:  # noqa: BLE001 - whatever it is, the first error is the one to raise
        _log.exception("%s failed, and some of what its tasks wrote could not be removed", procedure.qualified_name)


def _table(procedure: BaseProcedure, rows: Rows) -> pa.Table:
    listed = [rows] if isinstance(rows, Mapping) else list(rows)
    for row in listed:
        if set(row) != set(procedure.result.names):
            raise ProcedureError(
                f"{procedure.qualified_name} declares columns {procedure.result.names}, and returned {list(row)}"
            )
    return pa.Table.from_pylist([dict(row) for row in listed], schema=procedure.result)


@contextmanager
def _foreign_errors_named(procedure: BaseProcedure, context: CallContext) -> Iterator[None]:
    try:
        yield
    except MetastoreError:
        raise
    except Exception as error:
        raise ProcedureError(
            f"{context.catalog}.{procedure.qualified_name} failed: {type(error).__name__}: {error}"
        ) from error
