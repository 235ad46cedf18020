"""What figures show, from histories with numbers chosen by hand."""

import pytest

from dynamite_fl.experiments.charts import THEOREM, charts_of
from dynamite_fl.experiments.experiment import Experiment
from dynamite_fl.experiments.outcome import Outcome
from tests.experiments.histories import history
from tests.experiments.test_experiment import SMALL, small


def experiment(*charts: str) -> Experiment:
    blocks = "".join(f"[[charts]]\n{chart}\n" for chart in charts)
    return small(SMALL.replace('[[charts]]\nkind = "lines"\ny = "accuracy"\n', blocks))


def test_curves_are_means_where_all_seeds_have_a_value_and_at_their_ends() -> None:
    """Seeds of 2 and 3 rounds: rounds 1 and 2 in common, and both ends: rounds 2 and 3."""
    outcome = Outcome({"one": {"fedavg": {0: history([0.1, 0.3]), 1: history([0.2, 0.3, 0.6])}}})
    read = experiment('kind = "lines"\ny = "accuracy"\nx = "cost"')
    ((chart,),) = charts_of(read, "smoke", outcome)
    (curve,) = chart.series
    assert curve.x == [10.0, 20.0, 25.0]
    assert curve.mean == pytest.approx([0.15, 0.3, 0.45])
    assert curve.spread == pytest.approx([0.1 / 2**0.5, 0.0, 0.3 / 2**0.5])
    assert (chart.title, chart.x_label, chart.y_label) == ("One", "cost", "test accuracy")


def test_seeds_that_end_together_have_no_further_point() -> None:
    outcome = Outcome({"one": {"fedavg": {0: history([0.1, 0.3]), 1: history([0.2, 0.3])}}})
    read = experiment('kind = "lines"\ny = "accuracy"')
    assert charts_of(read, "smoke", outcome)[0][0].series[0].x == [1, 2]


def test_bars_and_theorem_share_a_row_and_a_burst_is_marked() -> None:
    read = experiment(
        'kind = "bars"\ny = "worst_class"',
        'kind = "theorem"\ny = "batch_mean"',
        'kind = "lines"\ny = "local_steps"',
    )
    outcome = Outcome(
        {"one": {"fedavg": {0: history([0.1], worst=0.2), 1: history([0.1], worst=0.4)}}},
        bursts={"one": 7},
        plans={"one": {0: {20: (5, 12), 40: (4, 15)}, 1: {20: (6, 10), 40: (4, 15)}}},
    )
    ((bars, theorem, steps),) = charts_of(read, "smoke", outcome)
    assert bars.has_bars
    assert bars.percent
    assert bars.series[0].mean == pytest.approx((0.3,))
    assert theorem.series[0].name == THEOREM
    assert theorem.series[0].mean == [11, 15]
    assert (bars.mark, steps.mark) == (None, 7)


def test_what_was_not_run_is_not_drawn() -> None:
    read = small(SMALL)
    assert charts_of(read, "smoke", Outcome({})) == []
