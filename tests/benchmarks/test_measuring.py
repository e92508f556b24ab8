"""How times are taken, compared and reported."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.measuring import (
    OURS,
    Contender,
    DifferentAnswersError,
    Pace,
    Series,
    beside,
    growth_at_most,
    measure,
    measure_together,
)
from benchmarks.plots import plot
from benchmarks.results import Results, machine_facts, write_readme


def _series(contender: str, *seconds: float, size: int = 10) -> Series:
    return Series("question", "case", size, contender, seconds, seconds)


def test_contenders_take_turns_and_the_first_run_is_not_counted() -> None:
    """Each round runs every contender once, beginning with another one each time."""
    order: list[str] = []
    contenders = [Contender(name, lambda _, name=name: order.append(name)) for name in "abc"]  # type: ignore[misc]
    series = measure("question", "case", 10, contenders, Pace(rounds=2))
    assert "".join(order) == "abc" + "abc" + "bca"
    assert [len(one.seconds) for one in series] == [2, 2, 2]


def test_cases_that_are_compared_take_turns_too() -> None:
    """Each round has all cases, one after the other; one that works through many things has their number."""
    order: list[str] = []

    def contenders(names: str) -> list[Contender]:
        return [Contender(name, lambda _, name=name: order.append(name)) for name in names]  # type: ignore[misc]

    cases = {"all": contenders("ab"), "few": contenders("xyz")}
    series = measure_together("question", 10, cases, Pace(rounds=2, warm_up=2), items={"all": 100})
    assert "".join(order) == "abxyz" * 2 + "abxyz" + "bayzx"
    assert [(one.case, one.contender, one.items, len(one.seconds)) for one in series] == [
        *(("all", name, 100, 2) for name in "ab"),
        *(("few", name, None, 2) for name in "xyz"),
    ]


def test_what_takes_longer_than_patience_is_measured_once() -> None:
    """Its first run is then its measurement, and it does not run again."""
    runs: list[str] = []
    contenders = [Contender("slow", lambda _: runs.append("slow"))]
    (series,) = measure("question", "case", 10, contenders, Pace(rounds=3, patience=-1))
    assert runs == ["slow"]
    assert len(series.seconds) == 1


@pytest.mark.parametrize(("rounds", "warm"), [(1, 1), (2, 2), (5, 3)])
def test_beside_spark_more_runs_are_not_counted_and_none_is_too_long(rounds: int, warm: int) -> None:
    """The JVM compiles while it runs; a single round is for those who only want to see that it works."""
    runs: list[str] = []
    (series,) = measure("question", "case", 10, [Contender("a", runs.append)], Pace(rounds, -1).beside_spark)
    assert (len(runs), len(series.seconds)) == (warm + rounds, rounds)


def test_what_is_prepared_is_handed_to_the_run() -> None:
    """``prepare`` runs before each run, and its result is the run's argument."""
    given: list[int] = []
    numbers = iter(range(10))
    measure("question", "case", 10, [Contender("a", given.append, lambda: next(numbers))], Pace(rounds=2))
    assert given == [0, 1, 2]


def test_different_answers_stop_the_comparison() -> None:
    """Times of contenders that found different things are not reported."""
    contenders = [
        Contender("a", lambda _: 1, answer=lambda found: found),
        Contender("b", lambda _: 2, answer=lambda found: found),
        Contender("c", lambda _: 3),
    ]
    with pytest.raises(DifferentAnswersError, match="a and b answer differently"):
        measure("question", "case", 10, contenders, Pace(rounds=1))


def test_a_ratio_compares_medians() -> None:
    """How many times slower the other one is, by medians; the bound itself is within the expectation."""
    series = [_series(OURS, 1.0, 9.0, 1.0), _series("peer", 80.0, 90.0, 900.0)]
    for expected, holds in ((90, True), (91, False)):
        verdict = beside(series, "question", 10, ("case", OURS), ("case", "peer"), expected)
        assert verdict.measured == 90
        assert verdict.holds is holds


def test_growth_compares_two_sizes_of_ours() -> None:
    """The ratio of the medians at the two sizes."""
    series = [_series(OURS, 2.0, size=10), _series(OURS, 3.0, size=100), _series("peer", 50.0, size=100)]
    assert growth_at_most(series, "question", "case", 10, 100, 1.5).holds is True
    assert growth_at_most(series, "question", "case", 10, 100, 1.4).holds is False


def test_what_was_not_measured_neither_holds_nor_misses() -> None:
    """A run over other sizes says so, instead of judging."""
    series = [_series(OURS, 1.0), _series("peer", 2.0)]
    for verdict in (
        beside(series, "question", 11, ("case", OURS), ("case", "peer"), 2),
        beside(series, "question", 10, ("case", OURS), ("case", "nobody"), 2),
        growth_at_most(series, "question", "case", 10, 100, 2),
    ):
        assert verdict.measured is None
        assert verdict.holds is None


def test_results_survive_json_and_fill_the_readme(tmp_path: Path) -> None:
    """The README gets the tables between its marks, and can be filled again; what is around stays."""
    series = [_series(OURS, 0.5, 0.25), _series("peer", 5.0)]
    results = Results(machine_facts(), series, [beside(series, "question", 10, ("case", OURS), ("case", "peer"), 20)])
    again = Results.from_json(results.to_json())
    assert again.to_json() == results.to_json()
    readme = tmp_path / "README.md"
    mark = "<!-- results: written by `python -m benchmarks --write-readme`, not by hand -->"
    readme.write_text(f"before\n{mark}\nold\n<!-- end of results -->\nafter\n", encoding="utf-8")
    for _ in range(2):
        write_readme([again, again], str(readme))
    text = readme.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("<!-- end of results -->\nafter\n")
    assert "old" not in text
    assert "| 10 | metastore | 375.0 ms | 250.0 ms | 375.0 ms | 2 |  |  |" in text
    assert text.count("13.3× | missed |") == 2, "each of the two runs, once"
    readme.write_text("no marks", encoding="utf-8")
    with pytest.raises(ValueError, match="no place for results"):
        write_readme([again], str(readme))


def test_figures_are_columns_of_their_case_alone(tmp_path: Path) -> None:
    """They follow the times, empty for whoever has none; a case without figures has no such columns."""
    readme = tmp_path / "README.md"
    mark = "<!-- results: written by `python -m benchmarks --write-readme`, not by hand -->"
    readme.write_text(f"{mark}\n<!-- end of results -->\n", encoding="utf-8")
    counted = replace(_series(OURS, 0.5), case="counted", figures={"requests": 1234.0, "dollars": 0.125})
    results = Results({}, [counted, replace(_series("peer", 1.0), case="counted"), _series("peer", 0.5)], [])
    write_readme([Results.from_json(results.to_json())], str(readme))
    text = readme.read_text(encoding="utf-8")
    assert "| times metastore | requests | dollars |\n" in text
    assert "| 10 | metastore | 500.0 ms | 500.0 ms | 500.0 ms | 1 |  |  | 1,234 | 0.12 |\n" in text
    assert "|  | peer | 1.00 s | 1.00 s | 1.00 s | 1 |  | 2 |  |  |\n" in text
    assert text.count("| times metastore |\n") == 1


def test_every_question_gets_a_picture(tmp_path: Path) -> None:
    """A PNG for each, named after it, whatever its cases are called."""
    series = [
        Series(question, case, 10, name, [0.1, 0.2], [0.1, 0.2])
        for question in ("one overwrite", "a/b: c?")
        for case in ("cold", "warm")
        for name in (OURS, "peer")
    ]
    paths = plot(Results({}, series, []), str(tmp_path / "plots"))
    assert [Path(path).name for path in paths] == ["one-overwrite.png", "a-b-c.png"]
    assert all(Path(path).read_bytes().startswith(b"\x89PNG") for path in paths)
