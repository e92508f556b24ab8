"""Java's system properties, as far as a configuration file of Drill uses them: ``${user.home}``, ``${java.io.tmpdir}``.

In Java they stand behind the keys of a configuration as the environment does. Here each has the value that a Java
program of the same user would see on this machine. Properties of a running Java itself, such as ``java.version``, have
no value here.
"""

from __future__ import annotations

import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from metastore.user import user_name

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
    """What ``${name}`` finds beside keys: the system properties, then the variables of ``environ``.

    Each property is found out when it is asked for. ``java.home`` is JAVA_HOME, if that is set.
    """

    def __init__(self, environ: Mapping[str, str], working_directory: Callable[[], str]) -> None:
        """``working_directory`` gives ``user.dir``; what it raises, asking for that raises."""
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
