"""The distribution of this package: its name and version, and the command that installs one of its extras.

On the Python index the name ``metastore`` belongs to another project, whose package has the same name as this one.
"""

from __future__ import annotations

import os
from typing import Final

DISTRIBUTION: Final = "lake-metastore"
"""The name that pip knows. The package, the command and the data source are called ``metastore``."""

VERSION: Final = "0.1.0"
"""The version of this package. The build reads it from here."""

_PACKAGES: Final = os.path.abspath(os.path.join(__file__, *[os.pardir] * 3))


def install_command(extra: str) -> str:
    """Returns the shell command that installs ``extra``: ``pip install 'lake-metastore[sql]'`` for ``sql``."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def conflict(folder: str = _PACKAGES) -> str | None:
    """Returns a warning if the other distribution named ``metastore`` is also installed in ``folder``, else None.

    ``folder`` holds this package, by default the running one. Both distributions write ``metastore/__init__.py``, so
    the one that was installed last has replaced it. Removing either removes the file.
    """
    try:
        names = os.listdir(folder)
    except OSError:  # The package runs from an archive: no other distribution writes there.
        return None
    if not any(name.startswith("metastore-") and name.endswith((".dist-info", ".egg-info")) for name in names):
        return None
    return (
        f"the distribution metastore in {folder} is another project whose package has the same name; run: "
        f"pip uninstall --yes metastore && pip install --force-reinstall --no-deps {DISTRIBUTION}"
    )
