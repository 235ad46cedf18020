"""A short trial before a training: what an offline plan must know."""

from itertools import islice
from typing import Any

from dynamite_fl.control.dynamite import Dynamite
from dynamite_fl.control.estimate import gradient_variance, loss_geometry
from dynamite_fl.engine.loop import Schedule, Training, begin, rounds
from dynamite_fl.engine.simulated import SimulatedEngine
from dynamite_fl.records import Limits


def pilot(
    engine: SimulatedEngine, limits: Limits, learning_rate: float, trial_rounds: int
) -> dict[str, Any]:
    """The loss's constants and M_i as DYNAMITE estimates them in its first rounds.

    The paper's Section VII initialises CoOptFL in this way. What the trial learns is
    forgotten, and it is not charged.
    """
    training = Training(
        engine, Dynamite(learning_rate=learning_rate), limits, Schedule(), engine.enroll()
    )
    for progress, _ in islice(rounds(training, begin(training)), trial_rounds):
        state = progress.control
    engine.states.clear()
    geometry = loss_geometry(state.loss, learning_rate)
    if geometry is None:
        raise ValueError(f"{trial_rounds} pilot rounds show too little of the loss: use more")
    return {"geometry": geometry, "gradient_variance": gradient_variance(state.loss)}
