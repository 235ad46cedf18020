"""What a plan is predicted to take and to reach."""

from dataclasses import dataclass, replace

import numpy as np

from dynamite_fl.plan.bound import Objective, gradient_noise
from dynamite_fl.plan.problem import BoolArray, round_cost, round_seconds
from dynamite_fl.records import Fleet, IntArray, Limits, LossGeometry, Plan


def predict(
    fleet: Fleet,
    limits: Limits,
    geometry: LossGeometry,
    objective: Objective,
    *,
    rounds: int,
    local_steps: int,
    batch_sizes: IntArray,
    grain: int = 1,
) -> Plan:
    """The plan with its seconds, cost and bound, and what keeps it from more.

    ``grain`` is how many samples more the next larger plan has: n where all clients' batch
    sizes are rounded down.
    """
    noise = gradient_noise(fleet, batch_sizes)
    batch_sizes.setflags(write=False)
    bound = float(objective(geometry, rounds, local_steps, noise))
    plan = Plan(
        rounds=rounds,
        local_steps=local_steps,
        batch_sizes=batch_sizes,
        seconds=float(rounds * round_seconds(fleet, local_steps, batch_sizes).max()),
        cost=float(rounds * round_cost(limits, local_steps, batch_sizes.sum())),
        bound=bound,
        binding=(),
    )
    better = _Better(
        samples=bool((fleet.gradient_variance > 0).any()),
        steps=bool(objective(geometry, rounds, local_steps + 1, noise) < bound),
        rounds=bool(objective(geometry, rounds + 1, local_steps, noise) < bound),
    )
    return replace(plan, binding=_binding(fleet, limits, plan, better, grain))


@dataclass(frozen=True)
class _Better:
    """What would lower the objective if it came for nothing."""

    samples: bool
    steps: bool
    rounds: bool


def held_by(
    fleet: Fleet, limits: Limits, rounds: int, local_steps: int, batch_sizes: IntArray
) -> dict[str, BoolArray]:
    """Which clients cannot take one sample more, by what holds them: masks of shape (n,).

    A client whose gradients do not vary has no use for more and is held by nothing.
    """
    more = rounds * round_seconds(fleet, local_steps, batch_sizes + 1)
    eager = fleet.gradient_variance > 0
    all_data = eager & (batch_sizes >= fleet.at_hand)
    stores_less = fleet.at_hand < fleet.samples
    return {
        "deadline": eager & (more > limits.deadline),
        "samples": all_data & ~stores_less,
        "buffer_size": all_data & stores_less,
    }


def _binding(
    fleet: Fleet, limits: Limits, plan: Plan, better: _Better, grain: int
) -> tuple[str, ...]:
    """The limits that keep the plan from what would be better."""
    rounds, steps, sizes = plan.rounds, plan.local_steps, plan.batch_sizes
    ones = np.ones(len(fleet))
    # What is the least that one local step or one round more would take?
    more = [(rounds, steps + 1)] if better.steps and steps < limits.max_local_steps else []
    more += [(rounds + 1, steps)] if better.rounds and limits.rounds is None else []
    late = any((k * round_seconds(fleet, tau, ones)).max() > limits.deadline for k, tau in more)
    dear = any(k * round_cost(limits, tau, len(fleet)) > limits.budget for k, tau in more)
    full = rounds * round_cost(limits, steps, sizes.sum() + grain) > limits.budget
    held = held_by(fleet, limits, rounds, steps, sizes)
    tight = {
        "budget": dear or (better.samples and full),
        "deadline": late or held["deadline"].any(),
        "samples": held["samples"].any(),
        "buffer_size": held["buffer_size"].any(),
        "max_local_steps": better.steps and steps == limits.max_local_steps,
    }
    return tuple(limit for limit, binds in tight.items() if binds)
