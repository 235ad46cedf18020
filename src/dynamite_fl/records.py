"""The records that packages exchange: a fleet, its limits, the geometry of the loss, and a plan.

A record checks its own values and raises ``InvalidInput`` with the name of the wrong field.
Columns are read-only arrays of shape (n,) with one entry for each client.
"""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dynamite_fl._validate import FloatArray as FloatArray
from dynamite_fl._validate import IntArray as IntArray
from dynamite_fl._validate import (
    check_number,
    check_whole,
    column,
    column_length,
    count_column,
    name_column,
)
from dynamite_fl.errors import InvalidInput

BoolArray = NDArray[np.bool_]

MOST_ROUNDS = 10**9
_MOST_STEPS = 100_000


class OptimizerWarning(UserWarning):
    """A controller plans by a theory of plain SGD, but devices use another optimiser."""


class LearningRateWarning(UserWarning):
    """The learning rate is above 1 / smoothness, where the error bounds are not proven."""


@dataclass(frozen=True, init=False, eq=False)
class Fleet:
    """The clients: how much data they hold and how fast they are.

    One local step on ``s`` samples takes ``step_overhead + s / samples_per_second`` seconds.
    The paper's model has no overhead. Its constant step time (Corollary 1) is
    ``samples_per_second=math.inf``. A single number applies to every client.

    Attributes:
        samples: The number of samples that the client holds or has received so far (D_i).
        gradient_variance: The trace of the covariance of its per-sample gradients (M_i).
        samples_per_second: The client's computation speed (p_i).
        step_overhead: The seconds that a local step takes in addition, whatever its batch size.
        comm_seconds: The seconds per round to receive and send the model (t_ui).
        buffer_size: The number of samples that the client can store (B_i). None if every client
            stores all its samples.
        least_batch: The least number of samples in a client's batch, or all that it has if it has
            fewer. None if one sample is enough. With batch normalisation it is not.
        name: The clients' names. None if clients have no names.

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
    least_batch: FloatArray | None
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
        least_batch: ArrayLike | None = None,
        name: Sequence[str] | None = None,
    ) -> None:
        n = column_length("Fleet.samples", samples)
        speed = column(
            "Fleet.samples_per_second", samples_per_second, n, positive=True, finite=False
        )
        stored = None if buffer_size is None else count_column("Fleet.buffer_size", buffer_size, n)
        least = None if least_batch is None else count_column("Fleet.least_batch", least_batch, n)
        columns = {
            "samples": count_column("Fleet.samples", samples, n),
            "gradient_variance": column("Fleet.gradient_variance", gradient_variance, n),
            "samples_per_second": speed,
            "step_overhead": column("Fleet.step_overhead", step_overhead, n),
            "comm_seconds": column("Fleet.comm_seconds", comm_seconds, n),
            "buffer_size": stored,
            "least_batch": least,
            "name": None if name is None else name_column("Fleet.name", name, n),
        }
        for key, values in columns.items():
            object.__setattr__(self, key, values)  # the dataclass is frozen

    def __len__(self) -> int:
        return self.samples.size

    def label(self, client: int) -> str:
        """Return the name of a client for messages.

        Example:
            >>> Fleet(
            ...     samples=[9, 9], gradient_variance=1, samples_per_second=1, comm_seconds=0
            ... ).label(1)
            'client 1'
        """
        return f"client {client}" if self.name is None else self.name[client]

    def subset(self, clients: IntArray) -> "Fleet":
        """Return some of the clients, in the given order. They keep their labels."""
        some = self._columns_at(clients)
        object.__setattr__(some, "name", tuple(map(self.label, clients.tolist())))
        return some

    def section(self, clients: slice) -> "Fleet":
        """Return consecutive clients without their names, which costs no copy."""
        return self._columns_at(clients)

    def with_columns(self, **columns: FloatArray | None) -> "Fleet":
        """Return the fleet with other columns. Their values are not checked again."""
        changed = object.__new__(Fleet)
        for key, values in (vars(self) | columns).items():
            object.__setattr__(changed, key, values)
        return changed

    def _columns_at(self, clients: slice | IntArray) -> "Fleet":
        columns = {
            key: None if values is None else values[clients]
            for key, values in vars(self).items()
            if key != "name"
        }
        return self.with_columns(**columns, name=None)

    @property
    def share(self) -> FloatArray:
        """The client's weight in the average, D_i / D."""
        return np.asarray(self.samples / self.samples.sum())

    @property
    def at_hand(self) -> FloatArray:
        """The number of samples that a batch is drawn from: all, or those in the buffer."""
        if self.buffer_size is None:
            return self.samples
        return np.asarray(np.minimum(self.samples, self.buffer_size))

    @property
    def least_batches(self) -> FloatArray:
        """The smallest batch of each client: at least 1, and at most the samples that it has.

        Example:
            >>> Fleet(
            ...     samples=[500, 3],
            ...     gradient_variance=1,
            ...     samples_per_second=1,
            ...     comm_seconds=0,
            ...     least_batch=8,
            ... ).least_batches
            array([8., 3.])
        """
        if self.least_batch is None:
            return np.ones(len(self))
        return np.asarray(np.minimum(self.least_batch, self.at_hand))


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The time, money and privacy that training may use, and the prices.

    Attributes:
        deadline: The seconds for the whole training (theta). ``math.inf`` means no deadline.
        budget: The cost units for the whole training (R). ``math.inf`` means no budget.
        cost_per_sample: The cost of one sample in one local step (a).
        cost_per_round: The cost of the communication of one round, for all clients together (b).
        rounds: The largest number of rounds (K). None means no limit: a plan then chooses the
            number, and a training goes on until another limit ends it.
        max_local_steps: The largest number of local steps in a round (tau_max).
        epsilon: The privacy loss of a client that the whole training may cause, if it has
            differential privacy. None means no limit.
        delta: The probability with which the guarantee of epsilon may fail.

    Example:
        >>> Limits(deadline=5000, budget=10_000, cost_per_sample=0.0005, cost_per_round=2).rounds
    """

    deadline: float
    budget: float
    cost_per_sample: float
    cost_per_round: float
    rounds: int | None = None
    max_local_steps: int = 100
    epsilon: float | None = None
    delta: float | None = None

    def __post_init__(self) -> None:
        check_number("Limits.deadline", self.deadline, positive=True, finite=False)
        check_number("Limits.budget", self.budget, positive=True, finite=False)
        check_number("Limits.cost_per_sample", self.cost_per_sample)
        check_number("Limits.cost_per_round", self.cost_per_round)
        if self.rounds is not None:
            check_whole("Limits.rounds", self.rounds, most=MOST_ROUNDS)
        check_whole("Limits.max_local_steps", self.max_local_steps, most=_MOST_STEPS)
        if self.epsilon is not None:
            check_number("Limits.epsilon", self.epsilon, positive=True)
        if self.delta is not None:
            check_number("Limits.delta", self.delta, positive=True)
            if self.delta >= 1:
                raise InvalidInput(f"Limits.delta is {self.delta:g}: it must be below 1")

    def share_used(self, *, seconds: float, cost: float, rounds: int) -> float:
        """Return the largest share that is used of the deadline, the budget or the rounds.

        Example:
            >>> limits = Limits(deadline=100, budget=50, cost_per_sample=1, cost_per_round=1)
            >>> limits.share_used(seconds=25, cost=20, rounds=3)
            0.4
        """
        shares = [seconds / self.deadline, cost / self.budget]
        if self.rounds is not None:
            shares.append(rounds / self.rounds)
        return max(shares)


@dataclass(frozen=True, kw_only=True)
class LossGeometry:
    """The constants of the loss in Assumptions 1 to 5, given or estimated.

    Batches are drawn uniformly, so gradients are unbiased and the paper's mu and mu_G are 1.

    Attributes:
        learning_rate: The step size of local steps (eta).
        quadratic_bound: How fast the loss can change with the distance from a model: rho of
            Assumption 1.
        smoothness: How fast gradients can change along a step: beta of Assumption 2.
        pl_constant: How large gradients are at least, compared with the loss that is left: c of the
            Polyak-Lojasiewicz condition, Assumption 3.
        divergence: The distance of clients' gradients from the global one: delta of Assumption 5.
        loss_gap: How far the loss is from its least value at the start: F(w(0)) - F*, or its
            estimate at the current model.

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
        check_number("LossGeometry.learning_rate", self.learning_rate, positive=True)
        check_number("LossGeometry.quadratic_bound", self.quadratic_bound)
        check_number("LossGeometry.smoothness", self.smoothness)
        check_number("LossGeometry.pl_constant", self.pl_constant)
        check_number("LossGeometry.divergence", self.divergence)
        check_number("LossGeometry.loss_gap", self.loss_gap)
        if self.learning_rate * self.smoothness > 1:
            warnings.warn(
                f"LossGeometry.learning_rate is {self.learning_rate:g}, above 1 / smoothness = "
                f"{1 / self.smoothness:g}: the error bounds are proven only below that",
                LearningRateWarning,
                stacklevel=3,
            )

    @property
    def decay(self) -> float:
        """1 - q = eta c, limited to [0, 1] because estimates of c may be too large."""
        return min(self.learning_rate * self.pl_constant, 1.0)

    @property
    def contraction(self) -> float:
        """The factor q = 1 - eta c by which a local step shrinks the loss gap."""
        return 1.0 - self.decay


@dataclass(frozen=True, eq=False)
class Plan:
    """What clients do in every round, with its predicted time, cost and result.

    Attributes:
        rounds: K, the number of rounds.
        local_steps: tau, the local steps of every client in a round.
        batch_sizes: s_i, the samples of each client in a local step.
        seconds: The predicted time of all rounds.
        cost: The predicted cost of all rounds.
        bound: The value of the objective: by default a bound on the final loss gap. NaN if the plan
            was made without an objective.
        binding: The limits that prevent larger batches or more local steps, by field name:
            ``budget``, ``deadline``, ``samples``, ``buffer_size``, ``max_local_steps``.
        rate_factors: The learning rate of each client, relative to that of the round. None if all
            clients have the same.
        learning_rate: The step size of local steps (eta). None if the plan does not choose it.
        begins_again: Whether the round begins with the model of the round before it, whose updates
            are discarded.
    """

    rounds: int
    local_steps: int
    batch_sizes: IntArray
    seconds: float
    cost: float
    bound: float
    binding: tuple[str, ...]
    rate_factors: FloatArray | None = None
    learning_rate: float | None = None
    begins_again: bool = False

    @property
    def total_batch(self) -> int:
        """The samples of all clients in one local step, s_tot."""
        return int(self.batch_sizes.sum())
