"""Comparisons in words, from numbers chosen by hand."""

from dataclasses import replace
from pathlib import Path

from dynamite_fl.compare.summary import spread_of
from dynamite_fl.experiments.claims import Comparison, Verdict
from dynamite_fl.experiments.markdown import measured_in_words, number_in_words, section
from dynamite_fl.experiments.summary import summarize
from tests.experiments.smoke import smoke

HOLDS = [Comparison(f"p{i}", f"+{i}.0", True, float(i)) for i in range(1, 5)]
FAILS = Comparison("p9", "-1.0", False, -1.0)


def words(*comparisons: Comparison) -> str:
    return measured_in_words(Verdict("so it is", "holds", comparisons))


def test_few_comparisons_are_all_shown() -> None:
    assert words(*HOLDS[:2]) == "p1: +1.0; p2: +2.0"
    assert words(HOLDS[0], Comparison("p5")) == "p1: +1.0; not measured: p5"


def test_of_many_those_that_fail_are_shown() -> None:
    counted = "4 of 5 comparisons hold, the least of them p1: +1.0; p9: -1.0"
    assert words(*HOLDS, FAILS) == counted
    assert words(*[FAILS] * 5).startswith("0 of 5 comparisons hold; p9: -1.0")


def test_comparisons_that_cannot_be_judged() -> None:
    single = Comparison("p1", "+1.0 (one seed)", None, 1.0)
    assert words(single) == "p1: +1.0 (one seed), which shows no spread"
    other = Comparison("p2", "-2.0 (one seed)", None, -2.0)
    both = "p1: +1.0 (one seed); p2: -2.0 (one seed), which shows no spread"
    assert words(single, Comparison("p3"), other) == both
    absent = [Comparison(f"p{i}") for i in range(6)]
    assert words(*absent) == "not measured: p0, p1, p2, p3 and 2 more"


def test_numbers_in_words() -> None:
    assert number_in_words(spread_of([0.2, 0.4]), "accuracy") == "30.0% ± 14.1"
    assert number_in_words(spread_of([0.2]), "accuracy") == "20.0%"
    assert number_in_words(spread_of([1.0, 3.0]), "steps_change") == "+2.0 ± 1.4"
    assert number_in_words(None, "accuracy") == "-"


def test_only_accuracies_are_shown_of_a_panel_that_was_not_run(finished: Path) -> None:
    whole = summarize(smoke("online-cost-time", finished))
    assert section(whole, "figure.svg", 1).count("| b: time-bound |") == len(whole.measures) > 1
    histories = {"cost": whole.outcome.histories["cost"]}
    part = replace(whole, outcome=replace(whole.outcome, histories=histories))
    text = section(part, "figure.svg", 1)
    assert text.count("| b: time-bound | - |") == text.count("| b: time-bound |") == 1
    assert text.count("| a: cost-bound |") == len(whole.measures)
    nothing = replace(whole, outcome=replace(whole.outcome, histories={}))
    assert "cost to FedAvg's accuracy" not in section(nothing, "figure.svg", 1).split("| the")[0]
