import numpy as np

from dynamite_fl import Fleet
from dynamite_fl.control.baselines.no_straggler import NoStraggler
from tests.control.baselines.fleets import ALL, FLEET, LIMITS, STEADY


def test_batches_are_proportional_to_speeds() -> None:
    """180 samples by speeds of 50, 100, 250: 22.5, 45, 112.5, of which the last has 40."""
    plan, state = NoStraggler().start(FLEET, LIMITS, ALL)
    assert plan.batch_sizes.tolist() == [22, 45, 40]
    measured = FLEET.with_columns(samples_per_second=np.array([100.0, 50, 250]))
    plan, _ = NoStraggler().adapt(STEADY, measured, LIMITS, np.array([0, 1]), state)
    assert plan.batch_sizes.tolist() == [80, 40]


def test_no_straggler_gives_everyone_a_sample() -> None:
    fleet = Fleet(
        samples=[90, 90], gradient_variance=1, samples_per_second=[1, 1000], comm_seconds=0
    )
    plan, _ = NoStraggler().start(fleet, LIMITS, np.arange(2))
    assert plan.batch_sizes.tolist() == [1, 90]
