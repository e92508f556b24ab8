"""The bodies and headers of answers, in the models of Iceberg's REST catalog. Pure."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

from pyiceberg.typedef import Identifier

from metastore.errors import InvalidRequestError, MetastoreError, NotFoundError, StorageError
from metastore.ground.digests import digest
from metastore.lake.iceberg.catalogs.own_properties import OWN_PROPERTIES
from metastore.lake.iceberg.catalogs.pointers import Pointer
from metastore.redaction import redact_value
from metastore.serve.freshness import StalePublication
from metastore.serve.requests import Page, Refusal, Snapshots, token_of

_GC: Final = "gc.enabled"

AGE: Final = f"{OWN_PROPERTIES}published.age-seconds"
"""Property of a published table that may be behind its folder: the seconds since it was known not to be."""

STALE: Final = f"{OWN_PROPERTIES}published.stale"
"""Property beside it: why."""


@dataclass(frozen=True)
class RestAnswer:
    """One answer; ``body`` is JSON, or empty."""

    status: HTTPStatus
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)


DONE = RestAnswer(HTTPStatus.NO_CONTENT)
"""What was asked for exists, or was accepted; there is nothing more to say."""


def ok_answer(content: Mapping[str, Any], **headers: str) -> RestAnswer:
    """Return the answer with ``content``."""
    return RestAnswer(HTTPStatus.OK, json.dumps(content).encode(), headers)


def refusal_answer(refusal: Refusal) -> RestAnswer:
    """Return a refusal in Iceberg's model of errors."""
    error = {"message": refusal.text, "type": refusal.kind, "code": int(refusal.status)}
    return RestAnswer(refusal.status, json.dumps({"error": error}).encode(), refusal.headers)


def refusal_of(error: MetastoreError) -> Refusal:
    """Return how an error of this package is answered. Its text has no secrets."""
    match error:
        case NotFoundError():
            return Refusal(HTTPStatus.NOT_FOUND, "NotFoundException", str(error))
        case InvalidRequestError():
            return Refusal(HTTPStatus.BAD_REQUEST, "BadRequestException", str(error))
        case StorageError():
            return Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailableException", str(error))
        case _:
            return Refusal(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalServerError", str(error))


def list_answer(key: str, names: Sequence[Any], following: str | None) -> RestAnswer:
    """Return a list of names, or a page of it; ``following`` is its last name if more names follow."""
    page = {} if following is None else {"next-page-token": token_of([following])}
    return ok_answer({key: names, **page})


def part_of(names: Sequence[str], page: Page | None) -> tuple[Sequence[str], str | None]:
    """Return the names of a page, and the last of them if more follow. ``names`` are sorted."""
    if page is None:
        return names, None
    start = 0 if page.after is None else bisect_right(names, page.after)
    part = names[start : start + page.size]
    return part, part[-1] if start + page.size < len(names) else None


def identifiers(namespace: Identifier, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return the names of tables or views as the REST catalog lists them."""
    levels = list(namespace)
    return [{"namespace": levels, "name": name} for name in names]


def etag_of(pointer: Pointer, snapshots: Snapshots) -> str:
    """Return the tag of a table's answer: it changes with the metadata file, and with what of it is shown."""
    return digest(f"{snapshots} {pointer.identity!r} {pointer.location}").hex()


def loaded_table(
    location: str, metadata: Mapping[str, Any], snapshots: Snapshots, config: Mapping[str, str] = MappingProxyType({})
) -> bytes:
    """Return the body for a loaded table, with ``config`` for clients. It has no credentials: clients bring their own.

    Its properties say that nobody but the owner may delete files, which keeps engines from removing orphans.
    """
    visible = dict(metadata) if snapshots == "all" else _with_referenced(metadata)
    visible["properties"] = {**open_properties(metadata.get("properties")), _GC: "false"}
    return json.dumps({"metadata-location": location, "metadata": visible, "config": {**config}}).encode()


def add_age(body: bytes, stale: StalePublication, now_ms: int) -> bytes:
    """Return the body for a loaded table, with two properties: how old the publication may be, and why.

    Its age counts from when it was last known to be as the folder, or else from its snapshot. It changes with every
    answer, so such an answer has no tag.
    """
    document = json.loads(body)
    metadata = document["metadata"]
    current = metadata.get("current-snapshot-id")
    made = next((each["timestamp-ms"] for each in metadata["snapshots"] if each["snapshot-id"] == current), now_ms)
    age_ms = max(0, now_ms - max(made, stale.known_ms or 0))
    metadata["properties"] |= {AGE: str(age_ms // 1000), STALE: stale.reason}
    return json.dumps(document).encode()


def loaded_view(view: Mapping[str, Any]) -> RestAnswer:
    """Return the answer for a loaded view: its location and metadata, and nothing else of ``view``."""
    metadata = dict(view.get("metadata") or {})
    metadata["properties"] = open_properties(metadata.get("properties"))
    return ok_answer({"metadata-location": view.get("metadata-location"), "metadata": metadata, "config": {}})


def open_properties(properties: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the properties without those that hold a secret, by their names or values."""
    return {name: value for name, value in (properties or {}).items() if redact_value(name, value) == value}


def _with_referenced(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata with the snapshots of its branches and tags; version 1 may have only the current one."""
    needed = {ref["snapshot-id"] for ref in (metadata.get("refs") or {}).values()}
    needed.add(metadata.get("current-snapshot-id"))
    snapshots = [each for each in metadata.get("snapshots") or () if each["snapshot-id"] in needed]
    return {**metadata, "snapshots": snapshots}
