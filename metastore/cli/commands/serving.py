"""``serve``: the read-only Iceberg REST catalog and the console, until a signal ends it."""

from __future__ import annotations

from functools import partial

from metastore.cli.invocation import Invocation
from metastore.daemon.logs import JsonLines, TextLines
from metastore.daemon.probe import health_of_daemon
from metastore.ground.optional import library
from metastore.overview.results import DaemonEnd


def serve(invocation: Invocation, *, as_json_lines: bool, with_console: bool = True) -> DaemonEnd:
    """Serve the catalogs of ``drill.metastore.serve.catalogs``, and the console at ``/``.

    Raises ConfigError, StorageError if the address is not available, and InvalidRequestError without the extra.
    """
    for each in ("starlette", "uvicorn", "jinja2"):
        library(each, "serve")
    from metastore.console.pages import Console  # noqa: PLC0415 - needs the extra
    from metastore.daemon.publications import renew  # noqa: PLC0415 - other commands load no procedures
    from metastore.serve.server import serve as serve_until_signal  # noqa: PLC0415 - needs the extra

    invocation.output.log_lines(JsonLines() if as_json_lines else TextLines())
    session, endpoint = invocation.session, invocation.settings.daemon.endpoint
    console = Console(lambda: session, partial(health_of_daemon, endpoint)) if with_console else None
    serve_until_signal(invocation.settings.serve, session.catalogs, console, partial(renew, session))
    return DaemonEnd()
