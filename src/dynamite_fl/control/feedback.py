"""DYNAMITE with feedback, our default: decide by the measured gain of local steps.

The paper's bound uses constants that are estimated during training. If data differs between
clients, these estimates are wrong by large factors, so this controller does not use them. It
measures how much local steps gain, from the path that the model takes (``estimate/gain.py``). It
measures how much harm small batches do, from the variance of gradients. The exact planner
(``plan/cooptfl.py``) weighs both against time and money, for several learning rates that are stable
(``estimate/rate.py``). docs/control.md has the reasons.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl._validate import check_number
from dynamite_fl.control.controller import Measure
from dynamite_fl.control.estimate.gain import GainEstimate, after_ruin, expected_gain, update_gain
from dynamite_fl.control.estimate.rate import RateEstimate, update_rate
from dynamite_fl.control.estimate.speed import fill_with_median
from dynamite_fl.control.first_round import long_first_plan
from dynamite_fl.control.fitting import constant_plan, largest_batch
from dynamite_fl.plan.cooptfl import best_plan
from dynamite_fl.plan.feasibility import Infeasible, fit_rounds
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, Plan
from dynamite_fl.reports import STABLE_FALL, PathReport, RoundReport

_LEAST_STEPS = 4  # each half of a round then has two steps, so that oscillations cancel in it
_LEAST_BATCH = 4  # where the rate is chosen; a single steep sample can ruin a model at large rates
_MOST_GROWTH = 2.0  # the longest way and the largest rate considered, relative to recent rounds
_SHORT_ENDING = 5  # the most last rounds whose local steps are limited
_ENDING_SHARE = 8  # one round in so many belongs to the ending
_FALLING_SHARE = 0.25  # of the rounds, the last ones, in which the largest rate falls to nothing
_FIRST_GUESS = 0.1  # the learning rate at which clients begin to search for theirs
_SHARE_OF_RACED = 0.5  # of the rate that has won a race, for the round after it
_RATE_SHARES = (1.0, 0.5, 0.25, 0.125)  # the rates to choose from, relative to the largest stable
_FEWER_ROUNDS = 0.85  # the next number of rounds to try, relative to the one before
_LARGE_STEPS = 2  # the local steps of a round if clients have nothing in common
_EARLY_SHARE = 0.45  # of the movement in a round, which its first steps have made then, at least
_NO_PERSISTENCE = 0.1  # the persistence of gains then, at most
_DISAGREEMENT = 3.0  # of the clients' movements then, at least
_LARGEST_MOVEMENT = 1e15  # a larger one shows that training has diverged, which the loop reports
_VARIANCE_MEMORY = 0.7  # the weight of the earlier gradient variance beside a new measurement


@dataclass(frozen=True, eq=False)
class FeedbackState:
    """What the controller has learned.

    Attributes:
        gain: The gain of local steps.
        gradient_variance: M_i of every client, shape (n,). NaN if it was not measured yet.
        first_samples: The total number of samples of all clients before the first round.
        learning_rate: eta, the step size of the last round's local steps.
        rate: The largest stable learning rate.
        rounds: The number of rounds that were played.
        has_large_steps: Whether rounds have two large steps, as clients have nothing in common.
    """

    gain: GainEstimate
    gradient_variance: FloatArray
    first_samples: float
    learning_rate: float
    rate: RateEstimate
    rounds: int = 0
    has_large_steps: bool = False


@dataclass(frozen=True, kw_only=True)
class Feedback:
    """Chooses the rate, local steps, batch sizes and rounds that gain most with what remains.

    The rest of the training is planned as if all its rounds were alike. Then n rounds lower the
    loss by n times the gain of one round. The noise of their batches stays in the model and raises
    the loss by eta/4 sum_i (D_i/D)^2 M_i/s_i (docs/control.md), where eta is the effective learning
    rate of the optimiser. While many rounds remain, the gain matters more. Towards the end, the
    noise matters more, and batches grow.

    A learning rate that is not given is chosen among some that are stable by the trials of clients
    (``estimate/rate.py``), and is at most twice that of the last round. If a larger rate has won
    the race of clients, the second round is as long as the first one and has half of that rate. In
    the last quarter of the rounds that would fit, the largest rate falls linearly to nothing. If
    the rate is chosen, a batch has at least four samples, unless fewer rounds would fit with them.
    The gain of a round depends on its way, local steps times rate, and on the rate. A way is at
    most twice as long as those of recent rounds.

    A round has at least four local steps, unless the limits allow fewer or clients have nothing in
    common. In the last eighth of a training, at most five rounds, steps are few: the last round has
    four, the round before it at most eight, and so on, because only later rounds correct the drift
    of clients in a round. If a way has diverged or ruined the model, no later way is longer than
    half of it. If the limits give a number of rounds, it is an upper limit: fewer rounds are
    planned if they gain more, unless data streams in.

    If a long first round shows that clients have nothing in common, as with one label per client,
    it is discarded, and every later round has two large steps. Their rate is that at which a step
    ends where the loss of a client's batch is least: it is too large for each client by itself, but
    the average of all goes a part of that way only.

    Attributes:
        learning_rate: eta, the step size of local steps before the first round. Later, plans are
            made with the learning rate of the last round. Default: it is chosen in every round.
    """

    learning_rate: float | None = None

    def __post_init__(self) -> None:
        if self.learning_rate is not None:
            check_number("learning_rate", self.learning_rate, positive=True)

    @property
    def measures(self) -> Measure:
        """The path of the local steps."""
        return "path"

    def describe(self, state: FeedbackState) -> dict[str, float]:
        """Return the gain of a local step, its persistence, and the mean gradient variance.

        It returns nothing until a gain has been measured.
        """
        if state.gain.gain_weight == 0:
            return {}
        numbers = {
            "gain": state.learning_rate * state.gain.first_gain,
            "stable_rate": state.rate.stable,
            "persistence": state.gain.persistence,
        }
        measured = state.gradient_variance[np.isfinite(state.gradient_variance)]
        if measured.size:
            numbers["gradient_variance"] = float(measured.mean())
        return numbers

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, FeedbackState]:
        """Plan a long round, which shows what shorter and longer rounds gain.

        If the learning rate is to be chosen, clients search for theirs in this round.
        """
        no_variance, samples = np.full(len(fleet), np.nan), float(fleet.samples.sum())
        rate = self.learning_rate or _FIRST_GUESS
        state = FeedbackState(GainEstimate(), no_variance, samples, rate, RateEstimate())
        return self._first_plan(fleet, limits, cohort, state), state

    def _first_plan(
        self, fleet: Fleet, limits: Limits, cohort: IntArray, state: FeedbackState
    ) -> Plan:
        """Return the plan of a long round at the state's learning rate."""
        least = min(_LEAST_STEPS, limits.max_local_steps)
        plan = long_first_plan(fleet.subset(cohort), limits, least)
        if plan is None:
            return self._plan(fleet, limits, cohort, state)
        return replace(plan, learning_rate=state.learning_rate)

    def adapt(
        self,
        report: RoundReport,
        fleet: Fleet,
        remaining: Limits,
        cohort: IntArray,
        state: FeedbackState,
    ) -> tuple[Plan, FeedbackState]:
        """Learn from the last round, and return the best plan for all that remains."""
        path, rate = report.path, report.learning_rate
        state = replace(
            state,
            learning_rate=rate,
            rate=update_rate(state.rate, report),
            rounds=state.rounds + 1,
        )
        if path is not None and _is_finite(path):
            state = replace(
                state,
                gain=update_gain(state.gain, path, report.local_steps, rate),
                gradient_variance=_update_variance(state.gradient_variance, report.clients, path),
            )
        if report.ruining_rate is not None:
            state = replace(state, gain=after_ruin(state.gain, report.local_steps * rate))
        if state.rounds == 1 and self.learning_rate is None and state.rate.is_raced:
            # The first round had the small stable rates. What it gained says little of larger ones.
            rate = _SHARE_OF_RACED * state.rate.stable
            state = replace(state, gain=GainEstimate(), learning_rate=rate)
            return self._first_plan(fleet, remaining, cohort, state), state
        if path is not None and state.rounds == 1 and self._was_in_vain(path, state):
            state = replace(state, has_large_steps=True)
            plan = self._plan(fleet, remaining, cohort, state)
            return replace(plan, begins_again=True), state
        return self._plan(fleet, remaining, cohort, state), state

    def _was_in_vain(self, path: PathReport, state: FeedbackState) -> bool:
        """Return whether a long first round shows that clients have nothing in common.

        If every client has one label, a few steps teach it to name that label always. Later steps
        hardly change it, and the average of such clients has learned little.
        """
        is_chosen = self.learning_rate is None and state.rate.is_known
        has_gained_early = path.early_share > _EARLY_SHARE  # False for NaN
        is_over_soon = has_gained_early and state.gain.persistence < _NO_PERSISTENCE
        # Clients that agree may simply have reached the least loss.
        return is_chosen and is_over_soon and path.disagreement > _DISAGREEMENT

    def _plan(self, fleet: Fleet, limits: Limits, cohort: IntArray, state: FeedbackState) -> Plan:
        """Return the best plan over the number of rounds.

        It begins with as many rounds as fit and tries fewer, as long as the plan becomes better. If
        data streams in, it keeps the given rounds, so that late data is learned too.
        """
        measured = np.isfinite(state.gradient_variance)
        variance = fill_with_median(np.where(measured, state.gradient_variance, 1.0), measured)
        clients = fleet.with_columns(gradient_variance=variance).subset(cohort)
        least = _least_steps(limits, state)
        if self.learning_rate is None:
            clients = _with_least_batch(clients, limits, least)
        try:
            rounds = fit_rounds(clients, limits, least).rounds
        except Infeasible:  # not even a round of the least number of steps fits: use one step
            rounds = fit_rounds(clients, limits).rounds or 1
            plan = constant_plan(clients, limits, 1, largest_batch(clients, limits, rounds, 1))
            return replace(plan, learning_rate=self._rates(state, rounds)[0])
        keep_rounds = rounds is not None and _data_streams(fleet, state)
        if rounds is None:  # the limits do not give them: as many as the smallest batches allow
            rounds = constant_plan(clients, limits, least, clients.least_batches).rounds
        plans = {
            rate: self._best(clients, limits, rounds, state, rate)
            for rate in self._rates(state, rounds)
        }
        rate, best = min(plans.items(), key=lambda choice: choice[1].bound)
        while rounds > 1 and not keep_rounds:
            rounds = min(math.ceil(_FEWER_ROUNDS * rounds), rounds - 1)
            plan = self._best(clients, limits, rounds, state, rate)
            if plan.bound >= best.bound:
                break
            if plan.local_steps <= best.local_steps:
                break  # the plan is better only through larger batches, not through longer rounds
            best = plan
        return best

    def _rates(self, state: FeedbackState, rounds: int) -> list[float]:
        """Return the learning rates to choose from if so many rounds remain, the largest first."""
        if self.learning_rate is not None or not state.rate.is_known:
            return [state.learning_rate]
        end_share = min(rounds / (_FALLING_SHARE * (state.rounds + rounds)), 1.0)
        if state.has_large_steps:
            return [end_share * min(state.rate.stable / STABLE_FALL, state.rate.ceiling)]
        most = min(_MOST_GROWTH * state.learning_rate, end_share * state.rate.stable)
        return [min(share * state.rate.stable, most) for share in _RATE_SHARES]

    def _best(
        self, fleet: Fleet, limits: Limits, rounds: int, state: FeedbackState, rate: float
    ) -> Plan:
        """Return the plan for this number of rounds and this rate that lowers the loss most.

        Its ``bound`` is the expected change of the loss until the end of training.
        """
        gain = state.gain
        is_gain_known = gain.gain_weight > 0 and not state.has_large_steps
        least = _least_steps(limits, state)
        most: float = least
        if is_gain_known:
            recent = max(gain.mean_way, gain.newest_way)
            most = max(math.ceil(_MOST_GROWTH * recent / rate), least)
        ending = _most_steps_before_end(least, rounds, state.rounds + rounds)
        most = min(most, ending, max(gain.most_way / rate, least))
        # Near the largest stable rate, the noise that stays is larger: 1 / (1 - eta h / 2) times.
        fall = STABLE_FALL * min(rate / state.rate.stable, 1) if state.rate.is_known else 0.0
        noise_factor = rate * gain.rate_factor / 4 / (1 - fall / 2)

        def change_of_loss(
            rounds: ArrayLike, local_steps: ArrayLike, gradient_noise: ArrayLike
        ) -> FloatArray:
            steps = np.asarray(local_steps)
            round_gain = steps  # while no gain is known, there is one number of steps to choose
            if is_gain_known:
                round_gain = expected_gain(gain, rate * steps, rate)
            change = noise_factor * np.asarray(gradient_noise) - np.asarray(rounds) * round_gain
            return np.where((steps < least) | (steps > most), np.inf, change)

        plan = best_plan(fleet, replace(limits, rounds=rounds), change_of_loss)
        return replace(plan, learning_rate=rate)


def _least_steps(limits: Limits, state: FeedbackState) -> int:
    """Return the least number of local steps of a round."""
    least = _LARGE_STEPS if state.has_large_steps else _LEAST_STEPS
    return min(least, limits.max_local_steps)


def _with_least_batch(fleet: Fleet, limits: Limits, local_steps: int) -> Fleet:
    """Return the fleet with batches of some samples at least, if as many rounds fit with them."""
    before = np.ones(len(fleet)) if fleet.least_batch is None else fleet.least_batch
    larger = fleet.with_columns(least_batch=np.maximum(before, _LEAST_BATCH))
    try:
        rounds = fit_rounds(fleet, limits, local_steps).rounds
        return larger if fit_rounds(larger, limits, local_steps).rounds == rounds else fleet
    except Infeasible:
        return fleet


def _data_streams(fleet: Fleet, state: FeedbackState) -> bool:
    """Return whether more samples may arrive: storage is limited, or some have arrived already."""
    return fleet.buffer_size is not None or float(fleet.samples.sum()) > state.first_samples


def _most_steps_before_end(least: int, rounds: int, all_rounds: int) -> float:
    """Return the most local steps of the next round, if so many rounds remain.

    It is ``least`` for the last round, twice as many for the round before it, and so on, for an
    eighth of all rounds.
    """
    if rounds > min(all_rounds // _ENDING_SHARE, _SHORT_ENDING):
        return math.inf
    return least << (rounds - 1)


def _is_finite(path: PathReport) -> bool:
    """Return whether the movement is finite and so small that training has not diverged."""
    movement = np.concatenate([path.first_half, path.second_half])
    return bool(np.all(np.abs(movement) < _LARGEST_MOVEMENT))  # False for NaN


def _update_variance(variance: FloatArray, clients: IntArray, path: PathReport) -> FloatArray:
    """Return M_i of every client with the measurements of one more round."""
    measured = path.gradient_variance
    usable = measured < _LARGEST_MOVEMENT**2  # False for NaN
    rows, new = clients[usable], measured[usable]
    old = np.where(np.isfinite(variance[rows]), variance[rows], new)
    changed = variance.copy()
    changed[rows] = _VARIANCE_MEMORY * old + (1 - _VARIANCE_MEMORY) * new
    return changed
