"""A short trial that measures what an offline plan needs to know."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

from dynamite_fl._validate import check_whole
from dynamite_fl.control.dynamite import Dynamite
from dynamite_fl.control.estimate.loss import gradient_variance, known_means, loss_geometry
from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import Limits
from dynamite_fl.training.engine import Engine
from dynamite_fl.training.loop import begin, rounds
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.threads import one_thread
from dynamite_fl.training.training import Schedule, Training


def pilot(
    engine: Engine, limits: Limits, learning_rate: float | None, trial_rounds: int
) -> dict[str, Any]:
    """Return the settings of CoOptFL that DYNAMITE estimates in its first rounds.

    The paper initialises CoOptFL in this way (Section VII). The trial costs nothing, and the
    engine forgets what its clients learned.

    Args:
        engine: The engine that plays the rounds of the trial.
        limits: The limits of the training to be planned.
        learning_rate: eta, the step size of local steps; None if it is to be found.
        trial_rounds: The number of rounds of the trial.

    Raises:
        InvalidInput: The trial is too short to estimate the loss.
    """
    check_whole("controller.pilot_rounds", trial_rounds)
    fleet = engine.enroll()
    rate = None if learning_rate is None else RateSchedule(learning_rate)
    training = Training(engine, Dynamite(), limits, Schedule(free_probes=True), fleet, rate)
    progress = begin(training)
    with one_thread(), _closed_on_error(engine):
        for after, _ in islice(rounds(training, progress), trial_rounds):
            progress = after
    loss = progress.control.loss
    engine.states.clear()
    geometry = loss_geometry(known_means(loss), learning_rate or progress.rate.last)
    if geometry is None:
        raise InvalidInput(f"{trial_rounds} pilot rounds show too little of the loss: use more")
    return {
        "geometry": geometry,
        "gradient_variance": gradient_variance(loss, fleet.gradient_variance),
    }


@contextmanager
def _closed_on_error(engine: Engine) -> Iterator[None]:
    """Close the engine if a round fails or is interrupted."""
    try:
        yield
    except BaseException:
        engine.close()
        raise
