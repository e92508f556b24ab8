"""Operations as OpenTelemetry and OpenLineage see them, in programs and sites that use these libraries.

Place in the flow: ANALYZE, REFRESH, procedures and statements run inside of :func:`operation`.

- A program that has loaded OpenTelemetry gets a span of the tracer ``metastore`` for each operation. Its attributes are
  the tables, what the operation has counted, and the requests and bytes that this process sent meanwhile.
- OpenLineage's client gets the run events START and COMPLETE, or FAIL, if its own variables configure it, such as
  ``OPENLINEAGE_URL``. Its datasets are the tables by their names, in the namespace of the metastore's location. An
  operation within another one has no events of its own.

Neither library is required. If one fails, a warning is logged, and the operation goes on.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import cache
from importlib import import_module
from typing import Any, Final
from uuid import uuid4

from metastore.engines.traffic import traffic_so_far
from metastore.ground.distribution import VERSION, install_command
from metastore.redaction import without_secrets

_log: Final = logging.getLogger(__name__)

_TRACER: Final = "metastore"
_PRODUCER: Final = f"lake-metastore/{VERSION}"
_LINEAGE: Final = "OPENLINEAGE_"
_COUNTS: Final = {"rows": "rowCount", "files": "fileCount"}
"""What an operation counts, and the names in OpenLineage's metrics of an input."""


_within: Final[ContextVar[bool]] = ContextVar("within", default=False)


@dataclass
class Operation:
    """One operation: the names of the tables that it reads and writes, and what it has counted, by name.

    The caller may add tables and ``counts``, such as ``rows`` and ``files``, until the operation ends.
    """

    name: str
    reads: list[str]
    writes: list[str]
    counts: dict[str, int] = field(default_factory=dict)


@contextmanager
def operation(
    name: str, *, namespace: str = "", reads: Sequence[str] = (), writes: Sequence[str] = ()
) -> Iterator[Operation]:
    """Within, the operation ``name`` runs. Without a ``namespace`` there are no events of OpenLineage."""
    running = Operation(name, list(reads), list(writes))
    with ExitStack() as observers:
        if "opentelemetry.trace" in sys.modules:
            observers.enter_context(_span(running))
        if namespace and not _within.get() and any(key.startswith(_LINEAGE) for key in os.environ):
            observers.enter_context(_run_events(running, namespace))
        yield running


@contextmanager
def _span(running: Operation) -> Iterator[None]:
    """Within, a span is open, which records an error."""
    tracer = sys.modules["opentelemetry.trace"].get_tracer(_TRACER, VERSION)
    before = traffic_so_far()
    with tracer.start_as_current_span(f"metastore.{running.name}") as span:
        try:
            yield
        finally:
            counts = {**running.counts, **traffic_so_far().since(before)._asdict()}
            tables = {"reads": running.reads, "writes": running.writes}
            for key, value in (*counts.items(), *tables.items()):
                span.set_attribute(f"metastore.{key}", value)


@contextmanager
def _run_events(running: Operation, namespace: str) -> Iterator[None]:
    """Within, a run of OpenLineage is under way."""
    run_id = str(uuid4())
    _emit(running, namespace, run_id, "START")
    token = _within.set(True)
    try:
        yield
    except BaseException as error:  # an interrupt ends the run, too; it goes on to the caller
        _emit(running, namespace, run_id, "FAIL", error)
        raise
    finally:
        _within.reset(token)
    _emit(running, namespace, run_id, "COMPLETE")


def _emit(running: Operation, namespace: str, run_id: str, state: str, error: BaseException | None = None) -> None:
    """Send one event of a run. A failure is logged."""
    try:
        client, events = _lineage()
        metrics = _metrics(running) if state == "COMPLETE" else {}
        event = events.RunEvent(
            eventTime=datetime.now(timezone.utc).isoformat(),
            producer=_PRODUCER,
            run=events.Run(run_id, _failure(error)),
            job=events.Job(namespace, ".".join([running.name, *(running.writes or running.reads)[:1]])),
            eventType=events.RunState[state],
            inputs=[events.InputDataset(namespace, each, inputFacets=metrics) for each in running.reads],
            outputs=[events.OutputDataset(namespace, each) for each in running.writes],
        )
        client.emit(event)
    except Exception as failure:  # noqa: BLE001 - a transport may raise anything, and no operation fails because of it
        message = without_secrets(str(failure))
        _log.warning("OpenLineage did not get the %s event of %s: %s", state, running.name, message)


def _metrics(running: Operation) -> dict[str, Any]:
    """Returns the facet of an input that has been read."""
    counts = {given: running.counts[key] for key, given in _COUNTS.items() if key in running.counts}
    if not counts:
        return {}
    facet = import_module("openlineage.client.generated.data_quality_metrics_input_dataset")
    return {"dataQualityMetrics": facet.DataQualityMetricsInputDatasetFacet(columnMetrics={}, **counts)}


def _failure(error: BaseException | None) -> dict[str, Any]:
    """Returns the facet of a run that failed, without secrets."""
    if error is None:
        return {}
    facet = import_module("openlineage.client.generated.error_message_run")
    return {"errorMessage": facet.ErrorMessageRunFacet(without_secrets(str(error)), "python")}


@cache
def _lineage() -> tuple[Any, Any]:
    """Returns OpenLineage's client, as its variables configure it, and the module of its events."""
    try:
        client, events = import_module("openlineage.client"), import_module("openlineage.client.event_v2")
    except ModuleNotFoundError as error:
        raise RuntimeError(f"openlineage-python is missing: {install_command('openlineage')}") from error
    return client.OpenLineageClient(), events
