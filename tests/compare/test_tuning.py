"""Which rates of a method are tried, and which one is the best."""

import pytest

from dynamite_fl.compare.pattern_search import pattern_search
from dynamite_fl.compare.tuning import is_trial, name_at, rates_to_try, tuned_by, tuned_methods
from tests.compare.results import result
from tests.regressions import RMSE


@pytest.mark.parametrize("best", [-15, -9, -2, 0, 3, 9])
def test_the_best_rate_is_found_wherever_it_is(best: int) -> None:
    """The accuracy falls with the distance of the rate, and too large rates fail."""
    asked: list[int] = []

    def evaluate(points: object) -> list[float]:
        places = [place for (place,) in points]  # type: ignore[attr-defined]
        asked.extend(places)
        return [abs(place - best) if place < best + 6 else float("inf") for place in places]

    assert pattern_search(rates_to_try("fedavg"), evaluate) == (best,)
    assert len(asked) <= 11


def test_a_rate_at_the_server_is_searched_too() -> None:
    pattern = rates_to_try("fedadam")
    best = pattern_search(pattern, lambda points: [abs(x + 2) + abs(y + 6) for x, y in points])
    assert str(name_at("fedadam", best)) == "fedadam@0.32x0.032"


def test_the_best_rate_has_the_best_mean_of_those_on_all_seeds() -> None:
    finals = {"a@0.1": (0.9, 0.7), "a@0.3": (0.85, 0.8), "a@1": (0.99,)}
    results = [
        result(name, seed, final)
        for name, each in finals.items()
        for seed, final in enumerate(each)
    ]
    tuned = tuned_by("a", results)
    assert (tuned.method, tuned.best) == ("a", "a@0.3")
    assert list(tuned.tried.items()) == [("a@1", 0.99), ("a@0.1", 0.9), ("a@0.3", 0.85)]
    errors = [result(name, 0, each[0], metric=RMSE) for name, each in finals.items()]
    assert tuned_by("a", errors).best == "a@0.3"  # 0.85 is the lowest error


def test_three_rates_are_a_search() -> None:
    two = [result("fedavg@0.1", 0, 0.5), result("fedavg@0.3", 0, 0.5), result("fedavg", 0, 0.5)]
    assert tuned_methods(two) == set()
    three = [*two, result("fedavg@1", 0, 0.5), result("fedadam@1x0.1", 0, 0.5)]
    assert tuned_methods(three) == {("", "fedavg")}
    trials = [run.contender for run in three if is_trial(run, tuned_methods(three))]
    assert trials == ["fedavg@0.1", "fedavg@0.3", "fedavg@1"]
