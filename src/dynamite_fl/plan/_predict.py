"""The predicted time, cost and bound of a plan, and the limits that constrain it."""

from dataclasses import dataclass, replace

from dynamite_fl.plan._problem import round_cost, round_seconds
from dynamite_fl.plan.bounds import Objective, gradient_noise
from dynamite_fl.records import BoolArray, Fleet, IntArray, Limits, Plan


def predict(
    fleet: Fleet,
    limits: Limits,
    objective: Objective,
    *,
    rounds: int,
    local_steps: int,
    batch_sizes: IntArray,
    grain: int = 1,
) -> Plan:
    """Return the plan with its seconds, cost and bound, and the limits that bind.

    Args:
        fleet: The clients.
        limits: Deadline, budget and prices.
        objective: The function whose value is the plan's bound.
        rounds: The rounds of the plan.
        local_steps: The local steps of the plan.
        batch_sizes: The batch sizes of the plan, shape (n,).
        grain: How many more samples the next larger plan has. It is n if every batch size is
            rounded down.
    """
    noise = gradient_noise(fleet, batch_sizes)
    batch_sizes.setflags(write=False)
    bound = float(objective(rounds, local_steps, noise))
    plan = Plan(
        rounds=rounds,
        local_steps=local_steps,
        batch_sizes=batch_sizes,
        seconds=float(rounds * round_seconds(fleet, local_steps, batch_sizes).max()),
        cost=float(rounds * round_cost(limits, local_steps, batch_sizes.sum())),
        bound=bound,
        binding=(),
    )
    improvements = _Improvements(
        samples=bool((fleet.gradient_variance > 0).any()),
        steps=bool(objective(rounds, local_steps + 1, noise) < bound),
        rounds=bool(objective(rounds + 1, local_steps, noise) < bound),
    )
    return replace(plan, binding=_binding(fleet, limits, plan, improvements, grain))


@dataclass(frozen=True)
class _Improvements:
    """Whether more samples, steps or rounds would lower the objective if they were free."""

    samples: bool
    steps: bool
    rounds: bool


def clients_at_limit(
    fleet: Fleet, limits: Limits, rounds: int, local_steps: int, batch_sizes: IntArray
) -> dict[str, BoolArray]:
    """Return which clients cannot take one more sample, as one mask of shape (n,) per limit.

    A client whose gradients do not vary is at no limit, because more samples are useless to it.
    """
    seconds = rounds * round_seconds(fleet, local_steps, batch_sizes + 1)
    varies = fleet.gradient_variance > 0
    all_data = varies & (batch_sizes >= fleet.at_hand)
    stores_less = fleet.at_hand < fleet.samples
    return {
        "deadline": varies & (seconds > limits.deadline),
        "samples": all_data & ~stores_less,
        "buffer_size": all_data & stores_less,
    }


def _binding(
    fleet: Fleet, limits: Limits, plan: Plan, improvements: _Improvements, grain: int
) -> tuple[str, ...]:
    """Return the limits that prevent a better plan."""
    rounds, steps, sizes = plan.rounds, plan.local_steps, plan.batch_sizes
    least = fleet.least_batches
    # The rounds and local steps of the smallest plans with one more local step or one more round.
    larger = []
    if improvements.steps and steps < limits.max_local_steps:
        larger.append((rounds, steps + 1))
    if improvements.rounds and limits.rounds is None:
        larger.append((rounds + 1, steps))
    too_long = any(
        (k * round_seconds(fleet, tau, least)).max() > limits.deadline for k, tau in larger
    )
    too_costly = any(k * round_cost(limits, tau, least.sum()) > limits.budget for k, tau in larger)
    budget_used = rounds * round_cost(limits, steps, sizes.sum() + grain) > limits.budget
    at_limit = clients_at_limit(fleet, limits, rounds, steps, sizes)
    binds = {
        "budget": too_costly or (improvements.samples and budget_used),
        "deadline": too_long or at_limit["deadline"].any(),
        "samples": at_limit["samples"].any(),
        "buffer_size": at_limit["buffer_size"].any(),
        "max_local_steps": improvements.steps and steps == limits.max_local_steps,
    }
    return tuple(limit for limit, binding in binds.items() if binding)
