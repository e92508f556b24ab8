"""Java's system properties that configuration files of Drill use: ``${user.home}``, ``${java.io.tmpdir}``.

In Java, a substitution finds them after keys and before environment variables. Here each has the value that a Java
program of the same user would see on this machine. Properties of a running Java, such as ``java.version``, have no
value.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from metastore.ground.user import user_name

_FIXED: Final[Mapping[str, Callable[[], str]]] = {
    "user.home": lambda: os.path.expanduser("~"),
    "user.name": user_name,
    "java.io.tmpdir": tempfile.gettempdir,
    "file.separator": lambda: os.sep,
    "path.separator": lambda: os.pathsep,
    "line.separator": lambda: os.linesep,
    "os.name": lambda: {"Darwin": "Mac OS X"}.get(platform.system(), platform.system()),
    "os.arch": lambda: {"x86_64": "amd64"}.get(platform.machine(), platform.machine()),
    "os.version": platform.release,
    "file.encoding": sys.getfilesystemencoding,
}


class JavaEnvironment(Mapping[str, str]):
    """The names that ``${name}`` finds beside keys: system properties, then the variables of ``environ``.

    Each property is computed on access. ``java.home`` is JAVA_HOME, if that is set.
    """

    def __init__(self, environ: Mapping[str, str], working_directory: Callable[[], str]) -> None:
        """``working_directory`` returns ``user.dir``; its errors are raised on access."""
        self._environ = environ
        self._properties = {**_FIXED, "user.dir": working_directory}
        if "JAVA_HOME" in environ:
            self._properties["java.home"] = lambda: environ["JAVA_HOME"]

    def __getitem__(self, name: str) -> str:
        return self._properties[name]() if name in self._properties else self._environ[name]

    def __iter__(self) -> Iterator[str]:
        return iter({**self._properties, **self._environ})

    def __len__(self) -> int:
        return len({**self._properties, **self._environ})
