"""Pictures of a run: for each question one, with a panel for each of its cases (needs matplotlib, extra ``report``)."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any

from benchmarks.measuring import OURS, Series
from benchmarks.results import Results

_OURS_COLOR = "#1f6f8b"
_THEIR_COLOR = "#b8b8b8"


def plot(results: Results, folder: str) -> list[str]:
    """Write one PNG for each question into ``folder``, which is made; their paths."""
    os.makedirs(folder, exist_ok=True)
    questions: dict[str, dict[str, list[Series]]] = {}
    for one in results.series:
        questions.setdefault(one.question, {}).setdefault(one.case, []).append(one)
    return [_picture(question, cases, folder) for question, cases in questions.items()]


def _picture(question: str, cases: dict[str, list[Series]], folder: str) -> str:
    from matplotlib.figure import Figure  # noqa: PLC0415 - only who wants pictures needs it

    bars = sum(map(len, cases.values()))
    figure: Any = Figure(figsize=(9, 1.2 * len(cases) + 0.3 * bars), layout="constrained")
    figure.suptitle(question)
    panels = figure.subplots(len(cases), 1, squeeze=False, height_ratios=[len(found) + 1 for found in cases.values()])
    for panel, (case, series) in zip(panels[:, 0], cases.items(), strict=True):
        _bars(panel, case, sorted(series, key=lambda one: (one.size, one.median), reverse=True))
    path = os.path.join(folder, f"{re.sub(r'[^a-z0-9]+', '-', question.lower()).strip('-')}.png")
    figure.savefig(path, dpi=120)
    return path


def _bars(panel: Any, case: str, series: Sequence[Series]) -> None:
    """Medians on a scale of powers of ten, with a line from the lowest to the highest time."""
    medians = [one.median * 1_000 for one in series]
    spread = [
        [median - min(one.seconds) * 1_000 for one, median in zip(series, medians, strict=True)],
        [max(one.seconds) * 1_000 - median for one, median in zip(series, medians, strict=True)],
    ]
    colors = [_OURS_COLOR if one.contender.startswith(OURS) else _THEIR_COLOR for one in series]
    panel.barh([f"{one.contender}, {one.size:,}" for one in series], medians, xerr=spread, color=colors)
    panel.set_xscale("log")
    panel.set_xlabel("milliseconds, median")
    panel.set_title(case, loc="left", fontsize=9)
    panel.tick_params(labelsize=8)
