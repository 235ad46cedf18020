"""A fleet, limits and a round for the tests of baselines."""

from typing import Any

import numpy as np

from dynamite_fl import Fleet, Limits
from dynamite_fl.reports import RoundReport
from tests.control.simulator import report

FLEET = Fleet(
    samples=[500, 500, 40],
    gradient_variance=[1, 4, 2],
    samples_per_second=[50, 100, 250],
    comm_seconds=0.5,
)
LIMITS = Limits(rounds=100, deadline=400, budget=1000, cost_per_sample=0.01, cost_per_round=2)
ALL = np.arange(3)


def round_of(sizes: list[int], seconds: list[float], **more: Any) -> RoundReport:
    return report(
        [0, 1, 2],
        sizes=sizes,
        step_seconds=seconds,
        comm_seconds=[0.5] * 3,
        samples=[*FLEET.samples],
        **more,
    )


STEADY = round_of([60, 60, 40], [1.2, 0.6, 0.16])  # the times that the fleet's speeds give
