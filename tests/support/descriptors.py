"""The full path that an operation of the module ``os`` is about, also when it is given by a folder's descriptor."""

from __future__ import annotations

import os
from typing import Any


def full_path(path: Any, options: dict[str, Any]) -> str:
    """``path``, below the folder of ``dir_fd`` if that is among the options of the call."""
    folder = options.get("dir_fd")
    return os.fspath(path) if folder is None else os.path.join(os.readlink(f"/proc/self/fd/{folder}"), path)
