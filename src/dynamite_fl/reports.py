"""What a round tells the controller.

Columns have one entry for each client of the cohort, in its order, NaN where a client was
absent or did not measure. Nothing here holds weights or gradients, but for a sketch of where they
led: it is small, and it is all that a controller sees.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dynamite_fl.records import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Probe:
    """What clients measured at the new global model, before their first local step.

    Attributes:
        loss: F_i(w), the loss of the client's last batch at the global model.
        quadratic_bound: rho_i = |F_i(w_i) - F_i(w)| / |w_i - w|^2.
        lipschitz: |F_i(w_i) - F_i(w)| / |w_i - w|, Wang et al.'s rho_i.
        smoothness: beta_i = |g_i(w_i) - g_i(w)| / |w_i - w|.
        pl_constant: c_i = |g_i(w)|^2 / (2 F_i(w)).
        divergence: delta_i = |g_i(w) - g(w)|, which the server works out.
        gradient_variance: M_i.
        drift: psi_i, by how much arrivals have changed the loss at the global model; NaN where
            data does not stream.
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
    """What the local steps of a round showed on their way.

    Attributes:
        head: A sketch of how far a step led, w before it less w after it, on average over
            clients and the first half of the local steps, (m,).
        tail: The same over the second half; of a single step, again that step.
        gradient_variance: M_i of the cohort, a column, from their first batches.
    """

    head: FloatArray
    tail: FloatArray
    gradient_variance: FloatArray


@dataclass(frozen=True, eq=False)
class RoundReport:
    """One round, as the server saw it.

    Attributes:
        round_index: k, from 1.
        clients: The cohort, as places in the fleet.
        local_steps: tau_k.
        batch_sizes: s_i^k.
        present: Whose update was taken.
        samples: D_i^k, how many samples the client has received so far.
        step_seconds: Measured seconds of a local step.
        comm_seconds: Measured seconds to receive and send the model, and the probe if any.
        probe: What was measured of the loss; None in a round without probe.
        path: What the local steps showed; None if nobody asked, or no update could be used.
    """

    round_index: int
    clients: IntArray
    local_steps: int
    batch_sizes: IntArray
    present: NDArray[np.bool_]
    samples: FloatArray
    step_seconds: FloatArray
    comm_seconds: FloatArray
    probe: Probe | None
    path: PathReport | None = None
