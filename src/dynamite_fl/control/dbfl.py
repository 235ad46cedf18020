"""DBFL: batch sizes that grow geometrically, from a small start.

D. Shi, L. Li, M. Wu, M. Shu, R. Yu, M. Pan, Z. Han: To Talk or to Work: Dynamic Batch Sizes
Assisted Time Efficient Federated Learning over Future Mobile Edge Devices. IEEE Transactions
on Wireless Communications, 2022.

Its exact rule is not public; ours keeps what is told of it. Round k takes
s_k = ceil(s_1 f_1 f_2 ... f_(k-1)) samples a client, at most a ceiling, with factors
f_j = 1 + 0.1 d^(j-1) that start at 1.1 and fade by the decay d. The decay is the largest in
[0, 1] with which all rounds together take no more samples than rounds of a constant batch size
would; as batch sizes are whole, it may be less by up to one sample a round. Where no decay does
that, as there are too few rounds to grow in, or next to nothing to grow to, the start is moved
instead.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynamite_fl.control.controller import Measure
from dynamite_fl.control.rounds import repeated
from dynamite_fl.control.settings import require_memory, require_positive, require_whole
from dynamite_fl.control.system import MEMORY, System, as_fleet, first_guess, update
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, Plan
from dynamite_fl.reports import RoundReport

_HALVINGS = 60  # as many as a double has digits to tell


@dataclass(frozen=True)
class Growth:
    """A sequence of batch sizes.

    Attributes:
        start: s_1, before it is rounded up.
        growth: f_1 - 1.
        decay: d.
        ceiling: The most samples of a batch.
    """

    start: float
    growth: float
    decay: float
    ceiling: int

    def sizes(self, rounds: int) -> FloatArray:
        """The batch sizes of the first rounds.

        Example:
            >>> Growth(start=10, growth=0.1, decay=0.5, ceiling=12).sizes(4)
            array([10., 11., 12., 12.])
        """
        factors = 1 + self.growth * self.decay ** np.arange(rounds - 1, dtype=np.float64)
        logs = np.concatenate([[0.0], np.cumsum(np.log(factors))])
        grown = self.start * np.exp(np.minimum(logs, 500.0))  # far beyond any ceiling
        # What is whole but for a rounding error stays whole.
        return np.asarray(np.clip(np.ceil(grown - 1e-9), 1.0, self.ceiling))


def matched_growth(
    rounds: int, batch_size: int, *, start: float, growth: float, ceiling: int
) -> Growth:
    """The growth that takes as many samples in these rounds as a constant batch size.

    Example:
        >>> path = matched_growth(200, 60, start=10, growth=0.1, ceiling=600)
        >>> round(path.decay, 3), path.sizes(200)[[0, 1, 20, 199]], int(path.sizes(200).sum())
        (0.949, array([10., 11., 35., 69.]), 12000)
    """

    def largest(path: Callable[[float], Growth], low: float, high: float) -> Growth:
        """The largest of a number that takes no more samples, given that the lowest does not."""
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if fits(path(middle)) else (low, middle)
        return path(low)

    def fits(path: Growth) -> bool:
        return bool(path.sizes(rounds).sum() <= rounds * batch_size)

    if not fits(Growth(start, growth, 0.0, ceiling)):
        return largest(lambda begin: Growth(begin, growth, 0.0, ceiling), 0.0, start)
    if fits(Growth(start, growth, 1.0, ceiling)):
        return largest(lambda begin: Growth(begin, growth, 1.0, ceiling), start, ceiling)
    return largest(lambda decay: Growth(start, growth, decay, ceiling), 0.0, 1.0)


@dataclass(frozen=True, eq=False)
class DBFLState:
    """The growth solved at the start, and the system to foresee whether a round fits."""

    path: Growth
    system: System


@dataclass(frozen=True, kw_only=True)
class DBFL:
    """Growing batch sizes at fixed local steps, with the samples of a constant batch size.

    The rounds that count are as many as fit the limits with the constant batch size.

    Attributes:
        local_steps: tau.
        batch_size: s, the constant batch size whose samples are matched.
        start_batch: s_1, where it can be kept.
        growth: By how much the first round's batch size grows, as a share.
        ceiling: The most samples of a batch; ten times the constant one if None.
        memory: What a measured time counts one round later.
    """

    local_steps: int = 2
    batch_size: int = 60
    start_batch: int = 10
    growth: float = 0.1
    ceiling: int | None = None
    memory: float = MEMORY

    def __post_init__(self) -> None:
        require_whole("local_steps", self.local_steps)
        require_whole("batch_size", self.batch_size)
        require_whole("start_batch", self.start_batch)
        require_positive("growth", self.growth)
        require_memory(self.memory)
        if self.ceiling is not None:
            require_whole("ceiling", self.ceiling)
            if self.ceiling < self.batch_size:
                raise ValueError(
                    f"ceiling is {self.ceiling}: it must be at least the batch_size of "
                    f"{self.batch_size}, whose samples are to be matched"
                )

    @property
    def measures(self) -> Measure:
        """Nothing: nothing depends on the loss."""
        return "nothing"

    def describe(self, state: DBFLState) -> dict[str, float]:  # noqa: ARG002  a controller takes it
        """Nothing: it learns nothing of the loss."""
        return {}

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, DBFLState]:
        """The first and smallest batch size."""
        system = first_guess(fleet)
        guess = as_fleet(system, cohort, name=fleet.name)
        constant = repeated(guess, limits, self.local_steps, self.batch_size)
        path = matched_growth(
            constant.rounds,
            self.batch_size,
            start=min(self.start_batch, self.batch_size),
            growth=self.growth,
            ceiling=self.ceiling or 10 * self.batch_size,
        )
        plan = repeated(guess, limits, self.local_steps, path.sizes(1)[0])
        return plan, DBFLState(path, system)

    def adapt(
        self, report: RoundReport, remaining: Limits, cohort: IntArray, state: DBFLState
    ) -> tuple[Plan, DBFLState]:
        """The next batch size."""
        state = DBFLState(state.path, update(state.system, report, self.memory))
        size = state.path.sizes(report.round_index + 1)[-1]
        return repeated(as_fleet(state.system, cohort), remaining, self.local_steps, size), state
