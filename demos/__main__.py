"""``python -m demos``: plays all chapters. Exit code 0 if every claim held, 1 if one did not.

It writes into a folder of its own, and removes only files that an earlier demo left there.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from pathlib import Path

from rich.markup import escape

from demos import chapters
from demos.flights import months
from demos.story import Story, exit_code
from metastore.config import load_text
from metastore.errors import InvalidRequestError
from metastore.ground.endpoints import address_of
from metastore.spark.session import active_session


def main(arguments: list[str] | None = None) -> int:
    """Play the demo and return the exit code."""
    options = _options(arguments)
    folder = Path(options.folder).absolute()
    story, stage = Story(), chapters.Stage(folder, options.months)

    def tell() -> None:
        _make_room(stage)
        play(story, stage)
        _say_where(story, folder, shlex.quote(os.path.join(options.folder, stage.conf.name)))

    return exit_code(tell)


def _say_where(story: Story, folder: Path, conf: str) -> None:
    """Print what was shown, and the commands to look around with the configuration ``conf``."""
    story.say(f"\n[bold green]{story.result}[/] Everything is in {escape(str(folder))}; look around with\n")
    story.code(f"$ {_command()} --conf {conf} describe {chapters.TABLE}", "console")
    if sys.stdout.isatty():
        served = load_text("").serve
        address = address_of("http", served.host, served.port)
        story.say(f"\nor in a browser, at {address}/, while this command runs\n")
        story.code(f"$ {_command()} --conf {conf} serve", "console")


def _make_room(stage: chapters.Stage) -> None:
    """Remove the files of an earlier demo. Raises InvalidRequestError if the folder is not of a demo, and OSError."""
    found = [path for path in (stage.lake, stage.metastore) if path.exists()]
    # A demo writes the configuration first, so its presence marks a demo's folder.
    if found and not stage.conf.exists():
        raise InvalidRequestError(
            f"{' and '.join(map(str, found))} would be replaced, and no demo made it: name another --folder"
        )
    for path in found:
        shutil.rmtree(path)
    stage.folder.mkdir(parents=True, exist_ok=True)


def _command() -> str:
    """Returns the command line's name if a shell finds it, else its path beside this Python."""
    return "metastore" if shutil.which("metastore") else os.path.relpath(Path(sys.executable).with_name("metastore"))


def play(story: Story, stage: chapters.Stage) -> None:
    """Play all chapters in order. Raises ClaimError for a false claim."""
    chapters.the_data(story, stage)
    with chapters.analyzing(story, stage) as session:
        chapters.looking(story, session)
        chapters.asking(story, session)
        chapters.late_flights(story, session, stage)
        chapters.travelling(story, session, stage)
        chapters.expiring(story, session, stage)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m demos", description="Real flights, analyzed and pruned.")
    parser.add_argument("--folder", default="demo-data", help="where data and metastore go (default: ./demo-data)")
    parser.add_argument("--months", type=months, default=range(1, 13), help="only these, such as 6,7 (6 must be there)")
    return parser.parse_args(arguments)


def _stop_spark() -> None:
    """Stop Spark before the process ends: otherwise a worker that sees the JVM end first prints a traceback."""
    if (spark := active_session()) is not None:
        spark.stop()


if __name__ == "__main__":
    try:
        code = main()
    finally:
        _stop_spark()
    sys.exit(code)
