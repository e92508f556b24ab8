"""``serve``: the read-only Iceberg REST catalog, until a signal ends it."""

from __future__ import annotations

from metastore.cli.invocation import Invocation
from metastore.daemon.logs import JsonLines, TextLines
from metastore.ground.optional import library
from metastore.overview.results import Ended


def serve(invocation: Invocation, *, as_json_lines: bool) -> Ended:
    """Serve the catalogs of ``drill.metastore.serve.catalogs``.

    Raises ConfigError, StorageError if the address is not available, and InvalidRequestError without the extra.
    """
    for each in ("starlette", "uvicorn"):
        library(each, "serve")
    from metastore.serve.server import serve as serve_until_signal  # noqa: PLC0415 - needs the extra

    invocation.output.log_lines(JsonLines() if as_json_lines else TextLines())
    serve_until_signal(invocation.settings.serve, invocation.session.catalogs)
    return Ended()
