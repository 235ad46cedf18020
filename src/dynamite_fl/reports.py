"""The report of a finished round, from which a controller plans the next one.

Columns have one entry for each client of the cohort, in the cohort's order. An entry is NaN if the
client was absent or did not measure the value. A report holds no weights and no gradients, only
a small sketch of how far the local steps moved the model.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from dynamite_fl.records import BoolArray, FloatArray, IntArray

STABLE_FALL = 0.5  # the share by which the slope falls in a step of the largest stable rate


@dataclass(frozen=True, eq=False)
class Probe:
    """What clients measured at the new global model, before their first local step.

    Attributes:
        loss: F_i(w), the loss of the client's last batch at the global model.
        quadratic_bound: rho_i = |F_i(w_i) - F_i(w)| / |w_i - w|^2.
        lipschitz: |F_i(w_i) - F_i(w)| / |w_i - w|, the rho_i of Wang et al.
        smoothness: beta_i = |g_i(w_i) - g_i(w)| / |w_i - w|.
        pl_constant: c_i = |g_i(w)|^2 / (2 F_i(w)).
        divergence: delta_i = |g_i(w) - g(w)|, computed by the server.
        gradient_variance: M_i, the trace of the covariance of per-sample gradients.
        drift: psi_i, the change of the loss at the global model through new samples. NaN if data
            does not stream.
    """

    loss: FloatArray
    quadratic_bound: FloatArray
    lipschitz: FloatArray
    smoothness: FloatArray
    pl_constant: FloatArray
    divergence: FloatArray
    gradient_variance: FloatArray
    drift: FloatArray


@dataclass(frozen=True, eq=False)
class PathReport:
    """How far the local steps of a round moved the model, in sketches of m numbers.

    Attributes:
        first_half: The mean movement of one step in the first half of the round, averaged over
            clients: the weights before it minus the weights after it, shape (m,).
        second_half: The same for the second half. Equal to ``first_half`` if the round has a single
            step.
        gradient_variance: M_i of each client in the cohort, from its first batches.
        gradient: The mean gradient of one step in the first half, averaged over clients, (m,).
            None with plain SGD, where it is ``first_half`` divided by the learning rate.
        early_share: The share of a client's movement that the first four steps of a long round
            have made, the median of all clients. NaN if the round is not long.
        disagreement: The mean squared length of the clients' movements, divided by the squared
            length of their average. It is 1 if all clients move alike. NaN if it is not known.
    """

    first_half: FloatArray
    second_half: FloatArray
    gradient_variance: FloatArray
    gradient: FloatArray | None = None
    early_share: float = math.nan
    disagreement: float = math.nan


def _not_measured() -> FloatArray:
    return np.empty(0)


@dataclass(frozen=True, eq=False)
class RoundReport:
    """One round as the server saw it.

    Attributes:
        round_index: k, counted from 1.
        clients: The indices of the cohort's clients in the fleet.
        local_steps: tau_k, the local steps of the round.
        learning_rate: eta, the step size of the round's local steps; the clients' mean if each
            found its own.
        batch_sizes: s_i^k, the samples of each client in a local step.
        present: Whether the client's update was received.
        samples: D_i^k, the number of samples that the client has received so far.
        step_seconds: The measured seconds of one local step.
        comm_seconds: The measured seconds to receive and send the model, and the probe if any.
        probe: The measurements of the loss. None in a round without a probe.
        path: The movement of the local steps. None if it was not requested, or if no update was
            averaged.
        first_losses: The loss of the client's first batch at the global model.
        stable_rates: The largest stable learning rate of the client, if it tried some.
        steepness: The slope of the client's loss along its trial step, divided by its rate.
        race_factors: The learning rate with which the client's loss fell most in some steps,
            relative to its stable rate, if rates raced. It is 1 or much larger.
        ruining_rate: The learning rate that has ruined the model, so that the training returned to
            an earlier one. None if the model is good.
    """

    round_index: int
    clients: IntArray
    local_steps: int
    learning_rate: float
    batch_sizes: IntArray
    present: BoolArray
    samples: FloatArray
    step_seconds: FloatArray
    comm_seconds: FloatArray
    probe: Probe | None = None
    path: PathReport | None = None
    first_losses: FloatArray = field(default_factory=_not_measured)
    stable_rates: FloatArray = field(default_factory=_not_measured)
    steepness: FloatArray = field(default_factory=_not_measured)
    race_factors: FloatArray = field(default_factory=_not_measured)
    ruining_rate: float | None = None
