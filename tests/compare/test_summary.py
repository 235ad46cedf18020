"""Summaries of results, against numbers worked by hand."""

import pytest

from dynamite_fl._leading_metric import ACCURACY
from dynamite_fl.compare.summary import Spread, choose_target, summarize, summary_to_json
from tests.compare.results import RESULTS, errors_of, result
from tests.regressions import RMSE


def test_summaries_by_hand() -> None:
    dynamite, fedavg = summarize(RESULTS, target=0.75)
    assert (dynamite.contender, fedavg.contender) == ("dynamite", "fedavg")
    assert dynamite.final.mean == pytest.approx(0.8)
    assert dynamite.final.deviation == pytest.approx(0.02**0.5)
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
    assert choose_target(RESULTS, 0.9).value == 0.9
    assert choose_target(RESULTS, 0.9).mean_of is None
    default = choose_target(RESULTS, None)
    assert default.value == pytest.approx(0.7)
    assert default.metric == ACCURACY
    assert str(default) == "70.0%"
    assert default.mean_of == "fedavg"
    assert default.origin == "the mean accuracy of fedavg"
    without = choose_target(RESULTS[:2], None)
    assert without.value == pytest.approx(0.8)
    assert without.mean_of == "dynamite"


def test_where_lower_is_better_the_lowest_comes_first() -> None:
    """The errors are 1 less the accuracies above, so all that is reached is the same."""
    errors = errors_of(RESULTS, RMSE)
    target = choose_target(errors, None)
    assert target.value == pytest.approx(0.3)
    assert (str(target), target.origin) == ("0.3", "the mean RMSE of fedavg")
    dynamite, fedavg = summarize(errors, target=0.25)
    assert (dynamite.contender, fedavg.contender) == ("dynamite", "fedavg")
    assert (dynamite.final.mean, fedavg.final.mean) == pytest.approx((0.2, 0.3))
    assert dynamite.leading_metric == RMSE
    assert dynamite.seconds_to_target == Spread(20.0, None, 20.0, 20.0)
    assert fedavg.cost_to_target == Spread(4.0, None, 4.0, 4.0)
    assert all(not summary.reached for summary in summarize(errors, target=0.05))
    assert all(summary.always_reached for summary in summarize(errors, target=0.7))


def test_json_has_the_final_metric_and_all_of_each_run() -> None:
    (row,) = summarize([result("fedavg", 0, 3.0, 1.5, metric=RMSE)], target=2.0)
    values = summary_to_json(row, target=2.0)
    assert values["final"] == {"mean": 1.5, "deviation": None, "least": 1.5, "most": 1.5}
    (run,) = values["runs"]
    assert run["metrics"]["rmse"] == 1.5
    assert run["seconds_to_target"] == 20.0
    assert values["worst_client"] is None
    assert not any("accuracy" in key for key in (*values, *run) if key != "class_accuracy")
