"""A PostgreSQL server for the session, on loopback, with a data directory of its own; a new database for each test."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from services.maven import class_path
from services.processes import free_port, serving

from metastore.engines.java import find_java

UNPRIVILEGED = ("postgres", "nobody")
"""Whom root runs the server as: PostgreSQL refuses to run as root itself."""


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """``user:password@host:port`` of the server's superuser."""
    binaries, port, password = _binaries(), free_port(), secrets.token_hex()
    user = next(name for name in UNPRIVILEGED if _exists(name)) if os.geteuid() == 0 else None
    # Below pytest's own folder, which is closed to others, the server's user could not go.
    with tempfile.TemporaryDirectory(prefix="metastore-postgres-") as name:
        folder = Path(name)
        (folder / "password").write_text(password)
        if user:
            for path in (folder, folder / "password"):
                shutil.chown(path, user)
        options = ["--auth=scram-sha-256", "--username=metastore", "--encoding=UTF8", "--no-sync"]
        initdb = [f"{binaries}/initdb", "-D", f"{folder}/data", f"--pwfile={folder}/password", *options]
        subprocess.run(initdb, cwd=folder, user=user, check=True, capture_output=True)
        command = [f"{binaries}/postgres", "-D", f"{folder}/data", "-h", "127.0.0.1", "-p", str(port), "-k", name]
        with serving(command, port, folder, user=user):
            yield f"metastore:{password}@127.0.0.1:{port}"


@pytest.fixture
def postgres_uri(postgres_server: str) -> str:
    """SQLAlchemy's URI of a new, empty database."""
    from sqlalchemy import create_engine, text  # noqa: PLC0415 - only those who ask for a database pay for it

    name = f"test_{uuid.uuid4().hex}"
    engine = create_engine(f"postgresql+psycopg2://{postgres_server}/postgres", isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return f"postgresql+psycopg2://{postgres_server}/{name}"


@pytest.fixture(scope="session")
def postgres_driver(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The jar of PostgreSQL's JDBC driver."""
    folder = tmp_path_factory.mktemp("postgres-driver")
    pom = Path(__file__).parent / "postgres_driver" / "pom.xml"
    jar: str = class_path(pom, folder / "classpath", find_java().home)
    return jar


def _binaries() -> Path:
    """Folder of the newest server on the machine; Debian keeps it off the PATH."""
    places = [Path(path).parent for path in [shutil.which("postgres")] if path]
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: -int(path.parent.name))
    for place in places:
        if (place / "postgres").exists() and (place / "initdb").exists():
            return place
    raise RuntimeError("no PostgreSQL server on this machine; on Debian: apt-get install postgresql")


def _exists(user: str) -> bool:
    return any(entry.pw_name == user for entry in pwd.getpwall())
