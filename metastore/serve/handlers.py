"""The routes of the REST catalog, and what answers each: one function from a catalog and a request to an answer.

The same table makes the routes and the ``endpoints`` of ``/v1/config``, by which clients refuse writes themselves.
"""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import quote

from pyiceberg.typedef import Identifier

from metastore.config.serve import ServeSettings
from metastore.errors import NotFoundError
from metastore.lake.iceberg.catalogs.pointers import Pointer
from metastore.serve import answers
from metastore.serve.answers import DONE, RestAnswer
from metastore.serve.reports import kept_of
from metastore.serve.requests import CatalogRequest, Page, Refusal, bad_request
from metastore.serve.scan_requests import PlanPart, ScanRequest, part_request, scan_request
from metastore.serve.served_catalog import ServedCatalog
from metastore.serve.virtual_catalog import PLANNED_HERE, VirtualCatalog

_log: Final = logging.getLogger(__name__)
_KEY: Final = secrets.token_bytes(32)

READ_ONLY: Final = (
    "this catalog is read-only: it makes, changes and drops nothing, and deletes no file. Change a table through the "
    "metastore or through its own catalog"
)


def config(settings: ServeSettings, request: CatalogRequest) -> RestAnswer:
    """Choose the served catalog by ``warehouse``. Raises Refusal if it is not served, or has to be named."""
    names, name = settings.warehouses, request.query.get("warehouse")
    if not name and len(names) > 1:
        raise bad_request(f"name the warehouse, one of {', '.join(names)}")
    if name and name not in names:
        raise unknown_catalog(settings)
    chosen = name or names[0]
    plans = chosen in settings.virtual_tables
    endpoints = [f"{method} {path}" for method, path, handler in ROUTES if plans or handler not in _OF_PLANS]
    overrides = {"prefix": quote(chosen), **(PLANNED_HERE if plans else {})}
    return answers.ok_answer({"defaults": {}, "overrides": overrides, "endpoints": endpoints})


def unknown_catalog(settings: ServeSettings) -> Refusal:
    """Return the refusal of a catalog that is not served."""
    text = f"no such catalog is served; there are {', '.join(settings.warehouses)}"
    return Refusal(HTTPStatus.NOT_FOUND, "NoSuchWarehouseException", text)


def _list_namespaces(catalog: ServedCatalog, request: CatalogRequest, settings: ServeSettings) -> RestAnswer:
    page = request.page(settings.limits.page)
    for above in request.parents or [()]:
        names = catalog.namespaces(above, page)
        if names is not None:
            part, following = answers.part_of(names, page)
            return answers.list_answer("namespaces", [[*above, name] for name in part], following)
    raise _no_namespace(request.parents[0])


def _namespace(catalog: ServedCatalog, request: CatalogRequest, _: ServeSettings) -> RestAnswer:
    properties = catalog.properties(request.namespace)
    if properties is None:
        raise _no_namespace(request.namespace)
    return answers.ok_answer({"namespace": list(request.namespace), "properties": answers.open_properties(properties)})


def _has_namespace(catalog: ServedCatalog, request: CatalogRequest, settings: ServeSettings) -> RestAnswer:
    _namespace(catalog, request, settings)
    return DONE


def _list_tables(catalog: ServedCatalog, request: CatalogRequest, settings: ServeSettings) -> RestAnswer:
    return _answer_list(catalog.tables, request, settings)


def _list_views(catalog: ServedCatalog, request: CatalogRequest, settings: ServeSettings) -> RestAnswer:
    return _answer_list(catalog.views, request, settings)


def _answer_list(
    names_of: Callable[[Identifier, Page | None], Sequence[str] | None],
    request: CatalogRequest,
    settings: ServeSettings,
) -> RestAnswer:
    page = request.page(settings.limits.page)
    names = names_of(request.namespace, page)
    if names is None:
        raise _no_namespace(request.namespace)
    part, following = answers.part_of(names, page)
    return answers.list_answer("identifiers", answers.identifiers(request.namespace, part), following)


def _load_table(catalog: ServedCatalog, request: CatalogRequest, settings: ServeSettings) -> RestAnswer:
    namespace, name, snapshots = request.namespace, request.name("table"), request.snapshots
    pointer, stale = _pointer(catalog, request), None
    if settings.freshness is not None:
        stale = catalog.renew_table(namespace, name, pointer, snapshots)
        pointer = _pointer(catalog, request)
    etag = answers.etag_of(pointer, snapshots)
    if stale is None and request.knows(etag):
        return RestAnswer(HTTPStatus.NOT_MODIFIED, headers={"ETag": f'"{etag}"'})
    loaded = catalog.load_table(namespace, name, pointer, snapshots)
    if loaded is None:
        raise _no_table(namespace, name)
    if stale is not None:
        return RestAnswer(HTTPStatus.OK, answers.add_age(loaded.body, stale, time.time_ns() // 1_000_000))
    return RestAnswer(HTTPStatus.OK, loaded.body, {"ETag": f'"{loaded.etag}"'})


def _has_table(catalog: ServedCatalog, request: CatalogRequest, _: ServeSettings) -> RestAnswer:
    _pointer(catalog, request)
    return DONE


def _take_report(catalog: ServedCatalog, request: CatalogRequest, settings: ServeSettings) -> RestAnswer:
    report = request.document()
    _pointer(catalog, request)
    if settings.reports == "log":
        table = ".".join((catalog.name, *request.namespace, request.name("table")))
        _log.info("report %s", json.dumps({"table": table, **kept_of(report, _KEY)}))
    return DONE


def _plan_scan(catalog: ServedCatalog, request: CatalogRequest, settings: ServeSettings) -> RestAnswer:
    planning = _planning(catalog, request)
    wanted = scan_request(request.document())
    return answers.ok_answer({"status": "completed", **_answer_plan(planning, request, settings, wanted, None)})


def _fetch_tasks(catalog: ServedCatalog, request: CatalogRequest, settings: ServeSettings) -> RestAnswer:
    planning = _planning(catalog, request)
    wanted, part = part_request(request.document())
    try:
        return answers.ok_answer(_answer_plan(planning, request, settings, wanted, part))
    except NotFoundError as error:
        raise Refusal(HTTPStatus.NOT_FOUND, "NoSuchPlanTaskException", str(error)) from error


def _no_plan(catalog: ServedCatalog, request: CatalogRequest, _: ServeSettings) -> RestAnswer:
    """Answer for a plan by its id: plans are complete at once and not kept, so no id was ever given."""
    _planning(catalog, request)
    raise Refusal(HTTPStatus.NOT_FOUND, "NoSuchPlanIdException", "no plan is kept here: a plan is answered at once")


def _planning(catalog: ServedCatalog, request: CatalogRequest) -> VirtualCatalog:
    """Return the catalog of a table that is there, if it plans scans. Raises Refusal."""
    if not isinstance(catalog, VirtualCatalog):  # As whatever else a catalog does not have.
        raise Refusal(HTTPStatus.FORBIDDEN, "ForbiddenException", READ_ONLY)
    _pointer(catalog, request)
    return catalog


def _answer_plan(
    catalog: VirtualCatalog,
    request: CatalogRequest,
    settings: ServeSettings,
    wanted: ScanRequest,
    part: PlanPart | None,
) -> dict[str, Any]:
    """The files of a plan, or of one ``part`` of it, and tokens of parts that follow. Refusal if the table is gone."""
    namespace, name = request.namespace, request.name("table")
    planned = catalog.plan(namespace, name, wanted, settings.limits.plan, part)
    if planned is None:
        raise _no_table(namespace, name)
    if settings.reports == "log":
        table = ".".join((catalog.name, *namespace, name))
        _log.info("plan %s", json.dumps({"table": table, "result-data-files": len(planned.tasks)}))
    tokens = {"plan-tasks": planned.tokens(wanted)} if planned.parts else {}
    return {"file-scan-tasks": planned.tasks, **tokens}


def _load_view(catalog: ServedCatalog, request: CatalogRequest, _: ServeSettings) -> RestAnswer:
    return answers.loaded_view(_view(catalog, request))


def _has_view(catalog: ServedCatalog, request: CatalogRequest, _: ServeSettings) -> RestAnswer:
    _view(catalog, request)
    return DONE


def _view(catalog: ServedCatalog, request: CatalogRequest) -> Any:
    name = request.name("view")
    view = catalog.view(request.namespace, name)
    if view is None:
        text = f"view {'.'.join((*request.namespace, name))} does not exist"
        raise Refusal(HTTPStatus.NOT_FOUND, "NoSuchViewException", text)
    return view


def _pointer(catalog: ServedCatalog, request: CatalogRequest) -> Pointer:
    namespace, name = request.namespace, request.name("table")
    found = catalog.pointer(namespace, name)
    if found is None:
        raise _no_table(namespace, name)
    return found


def _no_table(namespace: Identifier, name: str) -> Refusal:
    text = f"table {'.'.join((*namespace, name))} does not exist"
    return Refusal(HTTPStatus.NOT_FOUND, "NoSuchTableException", text)


def _no_namespace(namespace: Identifier) -> Refusal:
    text = f"namespace {'.'.join(namespace)} does not exist"
    return Refusal(HTTPStatus.NOT_FOUND, "NoSuchNamespaceException", text)


Handler = Callable[[ServedCatalog, CatalogRequest, ServeSettings], RestAnswer]

_NAMESPACES: Final = "/v1/{prefix}/namespaces"
_NAMESPACE: Final = f"{_NAMESPACES}/{{namespace}}"
_TABLE: Final = f"{_NAMESPACE}/tables/{{table}}"
_VIEW: Final = f"{_NAMESPACE}/views/{{view}}"

ROUTES: Final[Sequence[tuple[str, str, Handler]]] = (
    ("GET", _NAMESPACES, _list_namespaces),
    ("HEAD", _NAMESPACE, _has_namespace),
    ("GET", _NAMESPACE, _namespace),
    ("GET", f"{_NAMESPACE}/tables", _list_tables),
    ("HEAD", _TABLE, _has_table),
    ("GET", _TABLE, _load_table),
    ("POST", f"{_TABLE}/metrics", _take_report),
    ("POST", f"{_TABLE}/plan", _plan_scan),
    ("GET", f"{_TABLE}/plan/{{plan-id}}", _no_plan),
    ("DELETE", f"{_TABLE}/plan/{{plan-id}}", _no_plan),
    ("POST", f"{_TABLE}/tasks", _fetch_tasks),
    ("GET", f"{_NAMESPACE}/views", _list_views),
    ("HEAD", _VIEW, _has_view),
    ("GET", _VIEW, _load_view),
)
"""Method, path and handler, as they are routed: HEAD before the GET of the same path."""

_OF_PLANS: Final = (_plan_scan, _no_plan, _fetch_tasks)
"""What only virtual tables have."""
