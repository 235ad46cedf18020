"""What crosses the borders between packages: a fleet, its limits, the loss, a plan.

Records check themselves: a wrong value is refused by a ``ValueError`` that names its field.
Columns are arrays of shape (n,), one entry a client, and cannot be written to.
"""

import math
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from dynamite_fl.columns import (
    LARGEST,
    SMALLEST,
    column,
    counts,
    entries,
    names,
    rule,
)
from dynamite_fl.columns import FloatArray as FloatArray
from dynamite_fl.columns import IntArray as IntArray

MOST_ROUNDS = 10**9
_MOST_STEPS = 100_000


class LearningRateWarning(UserWarning):
    """The learning rate is above 1 / smoothness, where the error bounds are not proven."""


@dataclass(frozen=True, init=False, eq=False)
class Fleet:
    """The devices: what data they hold and how fast they are.

    One local step on ``s`` samples takes ``step_overhead + s / samples_per_second`` seconds.
    The paper's model has no overhead; its constant step time (Corollary 1) is
    ``samples_per_second=math.inf``. A single number stands for every client.

    Attributes:
        samples: D_i, how many samples the client holds, or has received so far.
        gradient_variance: M_i, trace of the covariance of its per-sample gradients.
        samples_per_second: p_i, its computation speed.
        step_overhead: Seconds a local step takes whatever its batch size.
        comm_seconds: t_ui, seconds a round to receive and send the model.
        buffer_size: B_i, how many samples it can store; None where it stores all.
        name: What each client is called; None where numbers do.

    Example:
        >>> fleet = Fleet(
        ...     samples=[500, 2000],
        ...     gradient_variance=4.0,
        ...     samples_per_second=[90, 360],
        ...     comm_seconds=0.2,
        ... )
        >>> len(fleet), fleet.gradient_variance.tolist()
        (2, [4.0, 4.0])
    """

    samples: FloatArray
    gradient_variance: FloatArray
    samples_per_second: FloatArray
    step_overhead: FloatArray
    comm_seconds: FloatArray
    buffer_size: FloatArray | None
    name: tuple[str, ...] | None

    def __init__(
        self,
        *,
        samples: ArrayLike,
        gradient_variance: ArrayLike,
        samples_per_second: ArrayLike,
        comm_seconds: ArrayLike,
        step_overhead: ArrayLike = 0.0,
        buffer_size: ArrayLike | None = None,
        name: Sequence[str] | None = None,
    ) -> None:
        n = entries("Fleet.samples", samples)
        speed = column(
            "Fleet.samples_per_second", samples_per_second, n, positive=True, finite=False
        )
        stored = None if buffer_size is None else counts("Fleet.buffer_size", buffer_size, n)
        columns = {
            "samples": counts("Fleet.samples", samples, n),
            "gradient_variance": column("Fleet.gradient_variance", gradient_variance, n),
            "samples_per_second": speed,
            "step_overhead": column("Fleet.step_overhead", step_overhead, n),
            "comm_seconds": column("Fleet.comm_seconds", comm_seconds, n),
            "buffer_size": stored,
            "name": None if name is None else names("Fleet.name", name, n),
        }
        for key, values in columns.items():
            object.__setattr__(self, key, values)  # frozen, so by the back door

    def __len__(self) -> int:
        return self.samples.size

    def label(self, client: int) -> str:
        """What to call a client when talking of it."""
        return f"client {client}" if self.name is None else self.name[client]

    def subset(self, clients: slice | IntArray) -> "Fleet":
        """Some of the clients, which need not be checked again."""
        some = object.__new__(Fleet)
        for name, values in vars(self).items():
            part = None if values is None else np.asarray(values)[clients]
            object.__setattr__(
                some, name, tuple(part) if name == "name" and part is not None else part
            )
        return some

    @property
    def share(self) -> FloatArray:
        """D_i / D, the client's weight in the average."""
        return np.asarray(self.samples / self.samples.sum())

    @property
    def at_hand(self) -> FloatArray:
        """How many samples a batch can be drawn from: all, or what the buffer holds of them."""
        if self.buffer_size is None:
            return self.samples
        return np.asarray(np.minimum(self.samples, self.buffer_size))


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What training may use, and what things cost.

    Attributes:
        deadline: theta, seconds for the whole training; ``math.inf`` for no deadline.
        budget: R, cost units for the whole training; ``math.inf`` for no budget.
        cost_per_sample: a, cost of one sample in one local step.
        cost_per_round: b, cost of one aggregation.
        rounds: K, aggregation rounds; None lets the planner choose them.
        max_local_steps: tau_max, the most local steps in a round.

    Example:
        >>> Limits(deadline=5000, budget=10_000, cost_per_sample=0.0005, cost_per_round=2).rounds
    """

    deadline: float
    budget: float
    cost_per_sample: float
    cost_per_round: float
    rounds: int | None = None
    max_local_steps: int = 100

    def __post_init__(self) -> None:
        _number("Limits.deadline", self.deadline, positive=True, finite=False)
        _number("Limits.budget", self.budget, positive=True, finite=False)
        _number("Limits.cost_per_sample", self.cost_per_sample)
        _number("Limits.cost_per_round", self.cost_per_round)
        if self.rounds is not None:
            _integer("Limits.rounds", self.rounds, most=MOST_ROUNDS)
        _integer("Limits.max_local_steps", self.max_local_steps, most=_MOST_STEPS)


@dataclass(frozen=True, kw_only=True)
class LossGeometry:
    """How the loss behaves: the constants of Assumptions 1-5, given or estimated.

    Batches are drawn uniformly, so gradients are unbiased and the paper's mu and mu_G are 1.

    Attributes:
        learning_rate: eta.
        quadratic_bound: rho of Assumption 1.
        smoothness: beta of Assumption 2.
        pl_constant: c of the Polyak-Lojasiewicz condition, Assumption 3.
        divergence: delta of Assumption 5, how far clients' gradients are from the global one.
        loss_gap: F(w(0)) - F*, or its estimate at the current model.

    Example:
        >>> geometry = LossGeometry(
        ...     learning_rate=0.01,
        ...     quadratic_bound=3.0,
        ...     smoothness=2.0,
        ...     pl_constant=0.5,
        ...     divergence=1.0,
        ...     loss_gap=2.3,
        ... )
        >>> geometry.contraction
        0.995
    """

    learning_rate: float
    quadratic_bound: float
    smoothness: float
    pl_constant: float
    divergence: float
    loss_gap: float

    def __post_init__(self) -> None:
        _number("LossGeometry.learning_rate", self.learning_rate, positive=True)
        _number("LossGeometry.quadratic_bound", self.quadratic_bound)
        _number("LossGeometry.smoothness", self.smoothness)
        _number("LossGeometry.pl_constant", self.pl_constant)
        _number("LossGeometry.divergence", self.divergence)
        _number("LossGeometry.loss_gap", self.loss_gap)
        if self.learning_rate * self.smoothness > 1:
            warnings.warn(
                f"LossGeometry.learning_rate is {self.learning_rate:g}, above 1 / smoothness = "
                f"{1 / self.smoothness:g}: the error bounds are proven only below that",
                LearningRateWarning,
                stacklevel=3,
            )

    @property
    def decay(self) -> float:
        """1 - q = eta c, kept in [0, 1]: estimates may leave it."""
        return min(self.learning_rate * self.pl_constant, 1.0)

    @property
    def contraction(self) -> float:
        """The factor q = 1 - eta c by which a local step shrinks the loss gap."""
        return 1.0 - self.decay


@dataclass(frozen=True, eq=False)
class Plan:
    """What to do in every round, and what that is predicted to take and to reach.

    Attributes:
        rounds: K.
        local_steps: tau.
        batch_sizes: s_i, a column.
        seconds: Predicted time of all rounds.
        cost: Predicted cost of all rounds.
        bound: The objective's value, for the default one a bound on the final loss gap.
        binding: What keeps the plan from larger batches or more steps, as names of fields:
            ``budget``, ``deadline``, ``samples``, ``buffer_size``, ``max_local_steps``.
    """

    rounds: int
    local_steps: int
    batch_sizes: IntArray
    seconds: float
    cost: float
    bound: float
    binding: tuple[str, ...]

    @property
    def total_batch(self) -> int:
        """s_tot, samples of all clients in one local step."""
        return int(self.batch_sizes.sum())


def _number(field: str, value: float, *, positive: bool = False, finite: bool = True) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        raise ValueError(f"{field} is {value!r}: {rule(positive, finite)}")
    in_range = (SMALLEST if positive else 0) <= value <= LARGEST  # False for NaN
    if not in_range and (finite or value != math.inf):
        huge = isinstance(value, int) and abs(value) > sys.float_info.max
        shown = f"a number of {len(str(value))} digits" if huge else f"{value:g}"
        raise ValueError(f"{field} is {shown}: {rule(positive, finite)}")


def _integer(field: str, value: int, most: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        raise ValueError(f"{field} is {value!r}: it must be a whole number, 1 or more")
    if not 1 <= value <= most:
        raise ValueError(f"{field} must be from 1 to {most:,}")
