"""The learning rate of each round, and the trials that it rests on.

There are three ways to the learning rate of a round:

- The job gives it, with or without a schedule (``rate_schedule.py``).
- The controller chooses it in every plan. Clients check it now and then by trial steps.
- Otherwise clients search for it when the training begins, and it stays.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np

from dynamite_fl.client.rate_race import MOST_RACE_GRADIENTS, RACE_STEPS, race_batch
from dynamite_fl.control.estimate.rate import RateEstimate, update_rate
from dynamite_fl.records import Fleet, Plan
from dynamite_fl.reports import RoundReport
from dynamite_fl.training.rate_schedule import RateSchedule

_FIRST_GUESS = 0.1  # the rate at which the first search begins
_STEPS_PER_CHECK = 20  # local steps that pay for a check of one gradient, 5 % of them
_FIRST_CHECKS = 2  # checks after the first round, whatever they cost
_USUAL_RACERS = 5  # clients in whose search rates race, if the fleet is small
_LEAST_RACERS = 3  # with fewer, one client could decide
_CONSTANT_SHARE = 0.5  # of the stable rate, for a rate that stays for the whole training
_LARGE = 1.5  # a rate that is so many times the largest stable one is too large for each client


@dataclass(frozen=True)
class RateChoice:
    """What the loop knows about learning rates.

    Attributes:
        estimate: The estimate of the largest stable rate.
        constant: The rate that stays for the whole training, for controllers that choose none. NaN
            until it is found.
        trials: The number of rounds with trials so far.
        steps_since_trial: The local steps since the last trial.
        last: The learning rate of the last round; NaN before the first round.
        largest: The largest learning rate of all rounds; 0 before the first round.
    """

    estimate: RateEstimate = field(default_factory=RateEstimate)
    constant: float = math.nan
    trials: int = 0
    steps_since_trial: int = 0
    last: float = math.nan
    largest: float = 0.0

    def is_too_large_for_clients(self, rate: float) -> bool:
        """Return whether a rate suits the average of clients only; False if nothing is known.

        Example:
            >>> choice = RateChoice(RateEstimate(log_stable=math.log(0.2)))
            >>> [choice.is_too_large_for_clients(rate) for rate in (0.2, 0.4)]
            [False, True]
        """
        return rate > _LARGE * self.estimate.stable  # False for NaN


def rate_of_round(
    choice: RateChoice, plan: Plan, given: RateSchedule | None, share_spent: float
) -> float:
    """Return the learning rate of the next round.

    Args:
        choice: What is known about learning rates.
        plan: The plan of the round.
        given: The learning rate that the job gives; None if it is to be chosen.
        share_spent: The share of the limits that is spent.
    """
    if given is not None:
        return given.at(share_spent)
    if plan.learning_rate is not None:
        return plan.learning_rate
    return _FIRST_GUESS if math.isnan(choice.constant) else choice.constant


def trial_of_round(
    choice: RateChoice, plan: Plan, given: RateSchedule | None, *, is_back: bool
) -> str:
    """Return which trial the next round has, one of ``RATE_TRIALS``.

    Args:
        choice: What is known about learning rates.
        plan: The plan of the round.
        given: The learning rate that the job gives; None if it is to be chosen.
        is_back: Whether the training has just returned to an earlier model.
    """
    if given is not None:
        return "search" if is_back else "none"  # so that an error can name a rate that would do
    if not choice.estimate.is_known:
        return "adopt"
    if plan.learning_rate is None or choice.estimate.is_raced:
        return "none"
    if choice.is_too_large_for_clients(plan.learning_rate):
        return "none"  # the last of such steps begins where the loss is flat, and shows nothing
    due = choice.steps_since_trial >= _STEPS_PER_CHECK or choice.trials <= _FIRST_CHECKS
    return "check" if due else "none"


def racers(fleet: Fleet, seconds: float, samples: float) -> list[int]:
    """Return the positions of those clients in whose search larger rates race.

    They are the fastest third, or five if that is more, so that the others hardly wait for them.
    A client with few samples would learn them by heart, which is easy at any rate, so it does not
    race. No rates race unless three clients can, or all if there are fewer.

    Args:
        fleet: The clients of the round.
        seconds: The most seconds that a race may take.
        samples: The most samples that all races together may compute on.

    Example:
        >>> fleet = Fleet(
        ...     samples=[500, 90, 500, 500],
        ...     gradient_variance=1,
        ...     samples_per_second=[100, 900, 300, 200],
        ...     comm_seconds=0.1,
        ... )
        >>> racers(fleet, seconds=20, samples=1e4)  # the second client has few samples
        [0, 2, 3]
        >>> racers(fleet, seconds=5, samples=1e4)  # the first client is too slow
        []
    """
    batch = race_batch(None if fleet.least_batch is None else int(fleet.least_batch.max()))
    step_seconds = fleet.step_overhead + batch / fleet.samples_per_second
    is_fast = MOST_RACE_GRADIENTS * step_seconds <= seconds
    able = np.flatnonzero(is_fast & (fleet.samples >= RACE_STEPS * batch))
    most = min(samples / (MOST_RACE_GRADIENTS * batch), able.size)
    count = int(min(max(math.ceil(len(fleet) / 3), _USUAL_RACERS), most))
    if count < min(_LEAST_RACERS, len(fleet)):
        return []
    return sorted(able[np.argsort(step_seconds[able], kind="stable")][:count].tolist())


def after_round(choice: RateChoice, report: RoundReport, *, tried: bool) -> RateChoice:
    """Return what is known about learning rates after one more round."""
    estimate = update_rate(choice.estimate, report)
    constant = choice.constant
    if report.ruining_rate is not None or math.isnan(constant):
        constant = _CONSTANT_SHARE * estimate.stable
    return replace(
        choice,
        estimate=estimate,
        constant=constant,
        trials=choice.trials + tried,
        steps_since_trial=0 if tried else choice.steps_since_trial + report.local_steps,
        last=report.learning_rate,
        largest=max(choice.largest, report.learning_rate),
    )
