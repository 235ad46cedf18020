"""Slow, obvious answers to what the planner answers fast."""

import heapq
import itertools

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import LinearConstraint, milp

from dynamite_fl import Fleet, Limits, LossGeometry
from dynamite_fl.plan.bounds import Bound

Floats = NDArray[np.float64]


def enumerated_noise(
    weights: Floats, ceilings: Floats, total: float, least: Floats | float = 1.0
) -> float:
    """The least sum of w/s, by looking at every choice of whole batch sizes."""
    choices = _all_batches(ceilings)
    choices = choices[(choices.sum(axis=1) <= total) & (choices >= least).all(axis=1)]
    return float((weights / choices).sum(axis=1).min())


def greedy_noise(
    weights: Floats, ceilings: Floats, total: float, least: Floats | None = None
) -> float:
    """The least sum of w/s, handing out samples one by one to whom they help most."""
    sizes = [1] * len(weights) if least is None else [int(size) for size in least]
    heap = [
        (-w / (sizes[i] * (sizes[i] + 1)), i)
        for i, w in enumerate(weights)
        if ceilings[i] > sizes[i]
    ]
    heapq.heapify(heap)
    for _ in range(int(total) - sum(sizes)):
        if not heap:
            break
        _, i = heapq.heappop(heap)
        sizes[i] += 1
        if sizes[i] < ceilings[i]:
            heapq.heappush(heap, (-weights[i] / (sizes[i] * (sizes[i] + 1)), i))
    return float((weights / np.array(sizes)).sum())


def milp_noise(weights: Floats, ceilings: Floats, total: float) -> float:
    """The least sum of w/s, as a mixed-integer program: each client picks one of its sizes."""
    sizes = np.concatenate([np.arange(1, int(u) + 1) for u in ceilings])
    owner = np.repeat(np.arange(len(weights)), ceilings.astype(int))
    picks_one = (owner == np.arange(len(weights))[:, None]).astype(float)
    result = milp(
        weights[owner] / sizes,
        constraints=[LinearConstraint(picks_one, 1, 1), LinearConstraint(sizes, 0, total)],
        integrality=np.ones(sizes.size),
        bounds=(0, 1),
        options={"mip_rel_gap": 0.0},
    )
    assert result.success, result.message
    return float(result.fun)


def enumerated_bound(
    fleet: Fleet,
    limits: Limits,
    geometry: LossGeometry,
    objective: Bound,
    *,
    rounds: range,
    uniform: bool = False,
) -> float:
    """The least objective over all rounds, local steps and batch sizes that keep the limits.

    Limits are tested on every plan by the paper's inequalities; infinite if none keeps them.
    """
    batches = _all_batches(fleet.at_hand)
    if uniform:
        batches = batches[(batches == batches[:, :1]).all(axis=1)]
        batches = batches[batches[:, 0] >= fleet.least_batches.min()]
    else:
        batches = batches[(batches >= fleet.least_batches).all(axis=1)]
    share = fleet.samples / fleet.samples.sum()
    noise = (fleet.gradient_variance * share**2 / batches).sum(axis=1)
    best = np.inf
    for k, tau in itertools.product(rounds, range(1, limits.max_local_steps + 1)):
        step = fleet.step_overhead + batches / fleet.samples_per_second
        in_time = (k * (tau * step + fleet.comm_seconds) <= limits.deadline).all(axis=1)
        cost = k * (limits.cost_per_sample * (tau * batches.sum(axis=1)) + limits.cost_per_round)
        keeps = in_time & (cost <= limits.budget)
        if keeps.any():
            best = min(best, float(objective(geometry, k, tau, noise[keeps]).min()))
    return best


def _all_batches(ceilings: Floats) -> Floats:
    axes = [np.arange(1.0, u + 1) for u in ceilings]
    return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
