"""``python -m metastore.demo``: plays all chapters. Exit code 0 if every claim held, 1 if one did not."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from pathlib import Path

from metastore.cli.formats import seconds
from metastore.demo import chapters
from metastore.demo.story import ClaimError, Story
from metastore.errors import MetastoreError


def main(arguments: list[str] | None = None) -> int:
    """Play the demo; the exit code."""
    options = _options(arguments)
    folder = Path(options.folder).absolute()
    for own in ("lake", "metastore"):
        shutil.rmtree(folder / own, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    story = Story()
    try:
        play(story, chapters.Stage(folder, options.months))
    except ClaimError as error:
        print(f"error: not true: {error}", file=sys.stderr)
        return 1
    except MetastoreError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    story.say(
        f"\n[bold green]{story.claims} claims checked, all true, in {seconds(story.seconds)}.[/] Everything is in "
        f"{folder}; look around with\n"
    )
    story.code(f"$ {_command()} --conf {folder.name}/demo.conf describe {chapters.TABLE}", "console")
    return 0


def _command() -> str:
    """What to type for the command line: its name where a shell finds it, else its place beside this Python."""
    return "metastore" if shutil.which("metastore") else os.path.relpath(Path(sys.executable).with_name("metastore"))


def play(story: Story, stage: chapters.Stage) -> None:
    """All chapters in their order. Raises ClaimError for a claim that is false."""
    chapters.the_data(story, stage)
    with chapters.analyzing(story, stage) as session:
        chapters.looking(story, session)
        chapters.asking(story, session)
        chapters.late_flights(story, session, stage)
        chapters.travelling(story, session, stage)
        chapters.expiring(story, session, stage)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m metastore.demo", description="Real flights, analyzed and pruned.")
    parser.add_argument("--folder", default="demo-data", help="where data and metastore go (default: ./demo-data)")
    parser.add_argument(
        "--months", type=_months, default=range(1, 13), help="only these, such as 6,7 (6 must be there)"
    )
    return parser.parse_args(arguments)


def _months(text: str) -> list[int]:
    months = sorted({int(month) for month in text.split(",")})
    if chapters.LATE[0] not in months or not set(months) <= set(range(1, 13)):
        raise argparse.ArgumentTypeError(f"months are 1 to 12, with {chapters.LATE[0]} among them, not {text!r}")
    return months


if __name__ == "__main__":
    sys.exit(main())
