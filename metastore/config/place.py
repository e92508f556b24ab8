"""A place: a folder with its own metastore in ``.metastore``, made without configuration.

Place in the flow: where nobody configured anything, ``loader`` reads the file of the nearest place, as Git finds its
repository. Paths in that file start at the place. A place counts only if it belongs to the user who runs the process:
its file chooses what code reads the data.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Final

from metastore.errors import ConfigError, StorageError

FOLDER: Final = ".metastore"
"""The name of the folder in a place that has its configuration and its metadata."""
FILE: Final = "drill-metastore-override.conf"
WORKSPACE: Final = "my"
"""The workspace for the folders of a place: the folder ``sales`` is the table ``dfs.my.sales``."""

_ROOT: Final = 0
_TEXT: Final = f"""\
# The configuration of this place. Paths start at the folder that holds {FOLDER}.
# `metastore config` lists every key.
drill.metastore {{

  # The metadata is in {FOLDER}/metadata.
  iceberg.location {{ base_path = "{FOLDER}", relative_path = "metadata" }}

  # The folder sales is the table dfs.{WORKSPACE}.sales; add other folders beside it.
  storage.dfs.workspaces.{WORKSPACE} {{ location = ".", writable = true }}
}}
"""


def nearest(starts: Iterable[Path], trusted: Collection[int] = (os.geteuid(), _ROOT)) -> Path | None:
    """Returns the first place at or above one of the folders ``starts``, in their order.

    Raises ConfigError for a place whose owner is not one of the users ``trusted``.
    """
    for start in starts:
        for folder in (start, *start.parents):
            if os.path.isfile(folder / FOLDER / FILE):
                _require_own(folder / FOLDER, trusted)
                return folder
    return None


def make(folder: Path) -> None:
    """Make ``folder`` a place, unless it is one. Raises StorageError if that is not possible."""
    own = folder / FOLDER
    try:
        own.mkdir(exist_ok=True)
        beside = own / f"{FILE}.{os.getpid()}"
        beside.write_text(_TEXT, encoding="utf-8")
        if not os.path.lexists(own / FILE):
            os.replace(beside, own / FILE)  # Others never see half a file.
        else:
            beside.unlink()
    except OSError as error:
        raise StorageError(
            f"{own} cannot be made: {error.strerror}; name a folder of yours: metastore init FOLDER"
        ) from error


def _require_own(own: Path, trusted: Collection[int]) -> None:
    # The folder may be a link, which somebody else can make to a folder of this user.
    for path, owner in ((own, os.lstat(own).st_uid), (own / FILE, os.stat(own / FILE).st_uid)):
        if owner not in trusted:
            raise ConfigError(f"{path} belongs to another user; if you trust its owner, give it: --conf {own}")
