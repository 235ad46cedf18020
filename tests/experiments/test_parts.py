"""What figures show, from histories with numbers chosen by hand."""

import pytest

from dynamite_fl.experiments.found import Found
from dynamite_fl.experiments.parts import PROPOSED, parts_of
from dynamite_fl.experiments.read import read_experiment
from tests.experiments.histories import history
from tests.experiments.test_experiment import SMALL


def experiment(*pictures: str) -> str:
    blocks = "".join(f"[[pictures]]\n{picture}\n" for picture in pictures)
    return SMALL.replace('[[pictures]]\nkind = "lines"\ny = "accuracy"\n', blocks)


def test_curves_are_means_where_all_seeds_have_a_value_and_at_their_ends() -> None:
    """Seeds of 2 and 3 rounds: rounds 1 and 2 in common, and both ends: rounds 2 and 3."""
    found = Found({"one": {"fedavg": {0: history([0.1, 0.3]), 1: history([0.2, 0.3, 0.6])}}})
    read = read_experiment("small", experiment('kind = "lines"\ny = "accuracy"\nx = "cost"'))
    (((part,),),) = [parts_of(read, "smoke", found)]
    (curve,) = part.series
    assert curve.x == [10.0, 20.0, 25.0]
    assert curve.mean == pytest.approx([0.15, 0.3, 0.45])
    assert curve.spread == pytest.approx([0.1 / 2**0.5, 0.0, 0.3 / 2**0.5])
    assert (part.title, part.x_label, part.y_label) == ("One", "cost", "test accuracy")


def test_seeds_that_end_together_have_no_further_point() -> None:
    found = Found({"one": {"fedavg": {0: history([0.1, 0.3]), 1: history([0.2, 0.3])}}})
    read = read_experiment("small", experiment('kind = "lines"\ny = "accuracy"'))
    assert parts_of(read, "smoke", found)[0][0].series[0].x == [1, 2]


def test_bars_and_theorem_share_a_row_and_a_burst_is_marked() -> None:
    read = read_experiment(
        "small",
        experiment(
            'kind = "bars"\ny = "worst_class"',
            'kind = "theorem"\ny = "batch_mean"',
            'kind = "lines"\ny = "local_steps"',
        ),
    )
    found = Found(
        {"one": {"fedavg": {0: history([0.1], worst=0.2), 1: history([0.1], worst=0.4)}}},
        bursts={"one": 7},
        plans={"one": {0: {20: (5, 12), 40: (4, 15)}, 1: {20: (6, 10), 40: (4, 15)}}},
    )
    ((bars, theorem, steps),) = parts_of(read, "smoke", found)
    assert bars.has_bars
    assert bars.percent
    assert bars.series[0].mean == pytest.approx((0.3,))
    assert theorem.series[0].name == PROPOSED
    assert theorem.series[0].mean == [11, 15]
    assert (bars.mark, steps.mark) == (None, 7)


def test_what_was_not_run_is_not_drawn() -> None:
    read = read_experiment("small", SMALL)
    assert parts_of(read, "smoke", Found({})) == []
