"""Summaries of results, against numbers worked by hand."""

import pytest

from dynamite_fl.compare.summary import Spread, choose_target, summarize
from tests.compare.results import RESULTS


def test_summaries_by_hand() -> None:
    dynamite, fedavg = summarize(RESULTS, target=0.75)
    assert (dynamite.contender, fedavg.contender) == ("dynamite", "fedavg")
    assert dynamite.accuracy.mean == pytest.approx(0.8)
    assert dynamite.accuracy.deviation == pytest.approx(0.02**0.5)
    assert dynamite.rounds == Spread(2.5, pytest.approx(0.5**0.5), 2.0, 3.0)  # type: ignore[arg-type]
    assert (len(dynamite.reached), len(fedavg.reached)) == (1, 1)
    assert not dynamite.always_reached
    assert dynamite.seconds_to_target == Spread(20.0, None, 20.0, 20.0)
    assert fedavg.cost_to_target == Spread(4.0, None, 4.0, 4.0)
    assert [summary.seconds_to_target for summary in summarize(RESULTS, target=0.95)] == [
        None,
        None,
    ]


def test_target_by_hand() -> None:
    assert choose_target(RESULTS, 0.9).accuracy == 0.9
    assert choose_target(RESULTS, 0.9).mean_of is None
    default = choose_target(RESULTS, None)
    assert default.accuracy == pytest.approx(0.7)
    assert default.mean_of == "fedavg"
    assert default.origin == "the mean accuracy of fedavg"
    without = choose_target(RESULTS[:2], None)
    assert without.accuracy == pytest.approx(0.8)
    assert without.mean_of == "dynamite"
