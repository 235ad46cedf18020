"""DBFL: batch sizes that grow geometrically, from a small start.

D. Shi, L. Li, M. Wu, M. Shu, R. Yu, M. Pan, Z. Han: To Talk or to Work: Dynamic Batch Sizes
Assisted Time Efficient Federated Learning over Future Mobile Edge Devices. IEEE Transactions
on Wireless Communications, 2022.

The exact rule of DBFL is not public. Ours follows the published description. In round k, a client
uses s_k = ceil(s_1 f_1 f_2 ... f_(k-1)) samples, limited by a ceiling. The factors
f_j = 1 + 0.1 d^(j-1) start at 1.1 and approach 1 with the decay d. The decay is the largest in
[0, 1] with which all rounds together use no more samples than rounds of a constant batch size. If
no decay achieves that, because there are too few rounds or the batch size is too small, the first
batch size is changed instead. Batch sizes are whole, so up to one sample per round stays unused.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dynamite_fl._validate import check_number, check_whole
from dynamite_fl.control.controller import Measure
from dynamite_fl.control.fitting import constant_plan
from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import Fleet, FloatArray, IntArray, Limits, Plan
from dynamite_fl.reports import RoundReport

_HALVINGS = 60  # more than the binary digits of a double


@dataclass(frozen=True)
class Growth:
    """A sequence of growing batch sizes.

    Attributes:
        start: s_1 before it is rounded up.
        growth: f_1 - 1, the relative growth after the first round.
        decay: d, the factor of the relative growth from round to round.
        ceiling: The largest batch size.
    """

    start: float
    growth: float
    decay: float
    ceiling: int

    def sizes(self, rounds: int) -> FloatArray:
        """Return the batch sizes of the first rounds.

        Example:
            >>> Growth(start=10, growth=0.1, decay=0.5, ceiling=12).sizes(4)
            array([10., 11., 12., 12.])
        """
        factors = 1 + self.growth * self.decay ** np.arange(rounds - 1, dtype=np.float64)
        logs = np.concatenate([[0.0], np.cumsum(np.log(factors))])
        grown = self.start * np.exp(np.minimum(logs, 500.0))  # exp(500) is far above any ceiling
        # The 1e-9 keeps a size whole that is above a whole number by a rounding error only.
        return np.asarray(np.clip(np.ceil(grown - 1e-9), 1.0, self.ceiling))


def matched_growth(
    rounds: int, batch_size: int, *, start: float, growth: float, ceiling: int
) -> Growth:
    """Return the growth that uses as many samples in these rounds as a constant batch size.

    Example:
        >>> found = matched_growth(200, 60, start=10, growth=0.1, ceiling=600)
        >>> round(found.decay, 3), found.sizes(200)[[0, 1, 20, 199]], int(found.sizes(200).sum())
        (0.949, array([10., 11., 35., 69.]), 12000)
    """

    def largest(make: Callable[[float], Growth], low: float, high: float) -> Growth:
        """Return the growth of the largest number that fits. The lowest must fit."""
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if fits(make(middle)) else (low, middle)
        return make(low)

    def fits(candidate: Growth) -> bool:
        return bool(candidate.sizes(rounds).sum() <= rounds * batch_size)

    if not fits(Growth(start, growth, 0.0, ceiling)):
        return largest(lambda first: Growth(first, growth, 0.0, ceiling), 0.0, start)
    if fits(Growth(start, growth, 1.0, ceiling)):
        return largest(lambda first: Growth(first, growth, 1.0, ceiling), start, ceiling)
    return largest(lambda decay: Growth(start, growth, decay, ceiling), 0.0, 1.0)


@dataclass(frozen=True)
class DBFLState:
    """The batch sizes that were chosen at the start."""

    growth: Growth


@dataclass(frozen=True, kw_only=True)
class DBFL:
    """Uses growing batch sizes at fixed local steps, with the samples of a constant batch size.

    The samples are matched over as many rounds as fit the limits with the constant batch size.

    Attributes:
        local_steps: The local steps of a round (tau).
        batch_size: s, the constant batch size whose samples are matched.
        start_batch: s_1, the first batch size, unless it has to be changed.
        growth: The relative growth of the batch size after the first round.
        ceiling: The largest batch size. If None, ten times the constant batch size.
    """

    local_steps: int = 2
    batch_size: int = 60
    start_batch: int = 10
    growth: float = 0.1
    ceiling: int | None = None

    def __post_init__(self) -> None:
        check_whole("local_steps", self.local_steps)
        check_whole("batch_size", self.batch_size)
        check_whole("start_batch", self.start_batch)
        check_number("growth", self.growth, positive=True)
        if self.ceiling is not None:
            check_whole("ceiling", self.ceiling)
            if self.ceiling < self.batch_size:
                raise InvalidInput(
                    f"ceiling is {self.ceiling}: it must be at least the batch_size of "
                    f"{self.batch_size}, whose samples are to be matched"
                )

    @property
    def measures(self) -> Measure:
        """Nothing."""
        return "nothing"

    def describe(self, _state: DBFLState) -> dict[str, float]:
        """Return no numbers, because nothing is learned about the loss."""
        return {}

    def start(self, fleet: Fleet, limits: Limits, cohort: IntArray) -> tuple[Plan, DBFLState]:
        """Plan the first and smallest batch size."""
        clients = fleet.subset(cohort)
        constant = constant_plan(clients, limits, self.local_steps, self.batch_size)
        growth = matched_growth(
            constant.rounds,
            self.batch_size,
            start=min(self.start_batch, self.batch_size),
            growth=self.growth,
            ceiling=self.ceiling or 10 * self.batch_size,
        )
        sizes = np.maximum(growth.sizes(1)[0], clients.least_batches)
        return constant_plan(clients, limits, self.local_steps, sizes), DBFLState(growth)

    def adapt(
        self,
        report: RoundReport,
        fleet: Fleet,
        remaining: Limits,
        cohort: IntArray,
        state: DBFLState,
    ) -> tuple[Plan, DBFLState]:
        """Plan the next batch size."""
        clients = fleet.subset(cohort)
        grown = state.growth.sizes(report.round_index + 1)[-1]
        sizes = np.maximum(grown, clients.least_batches)
        return constant_plan(clients, remaining, self.local_steps, sizes), state
