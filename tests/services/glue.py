"""AWS Glue's data catalog for the session, on loopback: MiniStack, an emulator of others, from Python's registry.

It refuses an update whose ``VersionId`` is not the newest, on which commits stand; moto's Glue takes any. Its other
services are off, and Docker, whose containers it would look after, is out of its reach.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from services.processes import free_port, serving
from services.programs import installed

RELEASE = "1.5.33"
INSTALL = (sys.executable, "-m", "pip", "install", "--quiet", "--target", "{}", f"ministack=={RELEASE}")


@pytest.fixture(scope="session")
def glue_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The endpoint."""
    folder, port = tmp_path_factory.mktemp("glue"), free_port()
    # Its dependencies are pinned to releases other than ours, so it gets a folder of its own.
    name = f"ministack-{RELEASE}-python{sys.version_info.major}.{sys.version_info.minor}"
    program = installed(name, INSTALL, hint="pip")
    settings = {
        "PYTHONPATH": program,
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": port,
        "SERVICES": "glue",
        "IOT_MTLS_ENABLED": 0,
        "SFTP_ENABLED": 0,
        "DOCKER_HOST": f"unix://{folder}/no-docker.sock",
        "TMPDIR": folder,
        "LOG_LEVEL": "WARNING",
    }
    given = [f"{key}={value}" for key, value in settings.items()]
    with serving(["env", *given, sys.executable, "-m", "ministack"], port, folder):
        yield f"http://127.0.0.1:{port}"
