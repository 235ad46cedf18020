"""The paper's two ablations of DYNAMITE: fixed local steps, and one batch size for all clients."""

from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl._validate import check_whole
from dynamite_fl.control.dynamite import Dynamite
from dynamite_fl.control.fitting import clip_batches, largest_batch
from dynamite_fl.plan._predict import predict
from dynamite_fl.plan.bounds import Bound
from dynamite_fl.plan.closed_forms import uniform_plan
from dynamite_fl.records import Fleet, FloatArray, Limits, LossGeometry, Plan


@dataclass(frozen=True, kw_only=True)
class StaticTau(Dynamite):
    """DYNAMITE with fixed local steps. Batch sizes minimise the marginal bound.

    Attributes:
        local_steps: The local steps of every round.
    """

    local_steps: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("local_steps", self.local_steps)

    def _least_steps(self, limits: Limits) -> int:
        return min(self.local_steps, limits.max_local_steps)

    def _restricted(self, bound: Bound, limits: Limits) -> Bound:
        return at_steps(self._least_steps(limits), bound)


def at_steps(local_steps: int, bound: Bound) -> Bound:
    """Return the bound with infinity at all other local steps."""

    def limited(
        geometry: LossGeometry, rounds: ArrayLike, steps: ArrayLike, noise: ArrayLike
    ) -> FloatArray:
        values = bound(geometry, rounds, steps, noise)
        return np.where(np.asarray(steps) == local_steps, values, np.inf)

    return limited


@dataclass(frozen=True, kw_only=True)
class UniformBatches(Dynamite):
    """DYNAMITE with the same batch size for all clients: the largest that fits."""

    def _best_plan(
        self, fleet: Fleet, limits: Limits, geometry: LossGeometry, bound: Bound
    ) -> Plan:
        return _uniform(fleet, limits, geometry, bound)


def _uniform(fleet: Fleet, limits: Limits, geometry: LossGeometry, bound: Bound) -> Plan:
    """Plan the local steps of Theorem 2 for a bound, with the largest batch size that fits.

    In Theorem 2, no client has more samples than the client with the least data. Here, only that
    client has so few.
    """
    plan = uniform_plan(fleet, limits, geometry, bound)
    steps, least = plan.local_steps, int(fleet.least_batches.max())
    while steps > 1 and largest_batch(fleet, limits, plan.rounds, steps) < least:
        steps -= 1  # the client with the least data has fewer than the least batch of the others
    size = largest_batch(fleet, limits, plan.rounds, steps)
    return predict(
        fleet,
        limits,
        partial(bound, geometry),
        rounds=plan.rounds,
        local_steps=steps,
        batch_sizes=clip_batches(fleet, size),
        grain=len(fleet),
    )
