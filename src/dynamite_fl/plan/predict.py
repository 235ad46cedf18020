"""What a plan is predicted to take and to reach."""

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
    return Plan(
        rounds=rounds,
        local_steps=local_steps,
        batch_sizes=batch_sizes,
        seconds=float(rounds * round_seconds(fleet, local_steps, batch_sizes).max()),
        cost=float(rounds * round_cost(limits, local_steps, batch_sizes.sum())),
        bound=float(objective(geometry, rounds, local_steps, noise)),
        binding=_binding(fleet, limits, rounds, local_steps, batch_sizes, grain),
    )


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
    fleet: Fleet, limits: Limits, rounds: int, local_steps: int, batch_sizes: IntArray, grain: int
) -> tuple[str, ...]:
    """The limits that leave no room, the budget for ``grain`` samples more."""
    dearer = rounds * round_cost(limits, local_steps, batch_sizes.sum() + grain)
    held = held_by(fleet, limits, rounds, local_steps, batch_sizes)
    tight = {
        "budget": dearer > limits.budget,
        **{limit: mask.any() for limit, mask in held.items()},
        "max_local_steps": local_steps == limits.max_local_steps,
    }
    return tuple(limit for limit, binds in tight.items() if binds)
