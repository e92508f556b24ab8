"""Makes the stored metastore anew: ``PYTHONPATH=tests python tests/stored/make_stored_metastore.py <name>``.

A stored metastore stays as it is: a later state adds one, if what it writes has changed, and reads all of them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from services.processes import free_port, serving
from services.s3 import SERVER, S3Server
from support.stored_metastore import BUCKET, fill, opened, packed, seen


def make(name: str) -> None:
    """Write ``<name>.zip``, the objects, and ``<name>.json``, what their owner sees."""
    port = free_port()
    with TemporaryDirectory() as folder, serving([sys.executable, "-c", SERVER, str(port)], port, Path(folder)):
        server = S3Server(f"http://127.0.0.1:{port}")
        store = server.create(BUCKET)
        with opened(server) as session:
            fill(store, session)
            answers = seen(session)
        made = Path(__file__).with_name(f"{name}.zip")
        made.write_bytes(packed(store))
        made.with_suffix(".json").write_text(json.dumps(answers, indent=1) + "\n")


if __name__ == "__main__":
    make(sys.argv[1])
