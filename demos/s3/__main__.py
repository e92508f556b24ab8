"""``python -m demos.s3``: plays all chapters. Exit code 0 if every claim held, 1 if one did not.

The S3 server starts and ends with the demo. The only file written is the configuration.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from pathlib import Path
from threading import Event

from demos.flights import months
from demos.s3 import chapters
from demos.s3.process import s3_server
from demos.story import Story, exit_code


def main(arguments: list[str] | None = None) -> int:
    """Play the demo and return the exit code."""
    options = _options(arguments)

    def tell() -> None:
        with s3_server() as server:
            os.makedirs(options.folder, exist_ok=True)
            conf = Path(options.folder, "demo-s3.conf")
            story = Story()
            play(story, chapters.Stage(server, conf, options.months, options.latency / 1000))
            story.say(f"\n[bold green]{story.result}[/]")
            if options.stay:
                _stay(story, conf)

    return exit_code(tell)


def play(story: Story, stage: chapters.Stage) -> None:
    """Play all chapters in order. Raises ClaimError for a false claim."""
    bucket = chapters.the_data(story, stage)
    with chapters.analyzing(story, stage) as session:
        chapters.asking(story, stage, session)
        chapters.late_flights(story, stage, session, bucket)


def _stay(story: Story, conf: Path) -> None:
    """Keep the server until Ctrl-C, which is the expected end here."""
    try:
        story.say("Look around from another terminal with\n")
        story.code(f"$ metastore --conf {shlex.quote(str(conf))} describe {chapters.TABLE}", "console")
        story.say("The server stays until Ctrl-C.")
        Event().wait()
    except KeyboardInterrupt:
        story.say("The S3 server has ended, and its objects with it.")


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m demos.s3", description="Real flights on an S3 server that counts requests."
    )
    parser.add_argument("--folder", default="demo-data", help="where the configuration goes (default: ./demo-data)")
    parser.add_argument("--months", type=months, default=range(1, 13), help="only these, such as 6,7 (6 must be there)")
    parser.add_argument("--latency", type=_latency, default=30.0, help="milliseconds added to a request (default: 30)")
    parser.add_argument("--stay", action="store_true", help="keep the server afterwards, until Ctrl-C")
    return parser.parse_args(arguments)


def _latency(text: str) -> float:
    latency = float(text)
    if not 0 <= latency <= 10_000:
        raise argparse.ArgumentTypeError(f"a latency is 0 to 10000 milliseconds, not {text!r}")
    return latency


if __name__ == "__main__":
    sys.exit(main())
