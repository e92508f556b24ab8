"""No procedure that deletes takes a file that any table of any catalog, or an analyzed directory, needs."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from safety.layouts import STEPS, Counts, Layout
from safety.sizes import SIZE

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


COUNTS = Counts()


@settings(
    max_examples=max(12, SIZE.examples // 2),
    suppress_health_check=[HealthCheck.too_slow],
)
@given(st.lists(STEPS, min_size=6, max_size=SIZE.steps))
def test_no_layout_loses_a_file_that_somebody_needs(steps: list[tuple[Any, ...]]) -> None:
    """Whatever lies inside of what, is shared, renamed, linked or registered twice: all that is needed exists.

    Whatever writers of tables name, locations above, files elsewhere, links: no file of others outside the lake goes.
    """
    with tempfile.TemporaryDirectory() as folder:
        layout = Layout(Path(folder).resolve(), COUNTS)
        try:
            for step in (
                *steps,
                ("swap", 0, "orphans"),
                ("swap", 1, "expire"),
                ("expire",),
                ("orphans",),
                ("old_metadata",),
                ("component_orphans",),
            ):
                note(str(step))
                layout.step(*step)
        finally:
            layout.close()


def test_something_is_deleted(capsys: pytest.CaptureFixture[str]) -> None:
    """The runs above did delete: a proof that keeps everything would prove nothing. Prints what was tried."""
    with capsys.disabled():
        sys.stdout.write(f"\n{COUNTS}\n")
    assert COUNTS.deleted > COUNTS.layouts
    assert COUNTS.lost == 0
    assert COUNTS.swapped > 0
    assert COUNTS.foreign_lost == 0
