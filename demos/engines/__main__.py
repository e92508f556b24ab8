"""``python -m demos.engines``: plays all chapters. Exit code 0 if every claim held, 1 if one did not.

It writes into a folder of its own, and removes only files that an earlier demo left there.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from functools import partial
from pathlib import Path

from demos.engines import chapters
from demos.flights import months
from demos.story import Story, exit_code
from metastore.daemon.publications import renew
from metastore.errors import InvalidRequestError
from metastore.serve.server import RestServer


def main(arguments: list[str] | None = None) -> int:
    """Play the demo and return the exit code."""
    options = _options(arguments)
    folder = Path(options.folder).absolute()
    environment = Path(options.environment).absolute() if options.environment else folder / "environment"
    story, stage = Story(), chapters.Stage(folder, environment, options.months)

    def tell() -> None:
        _make_room(stage)
        play(story, stage)
        story.say(f"\n[bold green]{story.result}[/]")

    return exit_code(tell)


def play(story: Story, stage: chapters.Stage) -> None:
    """Play all chapters in order. Raises ClaimError for a false claim."""
    session, late = chapters.write_data(story, stage)
    with session:
        chapters.publish(story, session)
        with RestServer(session.settings.serve, session.catalogs, renew=partial(renew, session)) as server:
            chapters.ask_by_name(story, stage, server.url)
            chapters.take_late_file(story, stage, late, server.url)


def _make_room(stage: chapters.Stage) -> None:
    """Remove the files of an earlier demo. Raises InvalidRequestError if the folder is not of a demo, and OSError."""
    present = [path for path in stage.made if path.exists()]
    # A demo writes the configuration first, so its presence marks a demo's folder.
    if present and not stage.conf.exists():
        raise InvalidRequestError(
            f"{' and '.join(map(str, present))} would be replaced, and no demo made it: name another --folder"
        )
    for path in present:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    stage.folder.mkdir(parents=True, exist_ok=True)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m demos.engines", description="Real flights, published, and asked by name in three engines."
    )
    parser.add_argument("--folder", default="demo-engines-data", help="where all goes (default: ./demo-engines-data)")
    parser.add_argument("--environment", help="where DuckDB and Spark are installed (default: below the folder)")
    parser.add_argument("--months", type=months, default=range(1, 13), help="only these, such as 6,7 (6 must be there)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
