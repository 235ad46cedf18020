"""Ways to average the local models of a round, some of which resist clients that send bad ones.

``Mean`` weights clients by their samples. It is the average of the paper, and the default in
simulations. One client can move it anywhere. The others are robust: a minority of clients, whatever
they send, moves them only so far. ``ClippedMean`` is the default on real machines.

PyTorch is not imported, so that a job is read without it. ``combine.py`` computes the averages.
"""

from dataclasses import dataclass
from typing import Any

from dynamite_fl._validate import check_name, check_number
from dynamite_fl.errors import InvalidInput
from dynamite_fl.training.named import make_named, named_table


@dataclass(frozen=True)
class Mean:
    """The mean of the local models, weighted by samples (McMahan et al., AISTATS 2017)."""


@dataclass(frozen=True)
class ClippedMean:
    """The mean weighted by samples, after long movements are shortened to the median length.

    A movement is the local model minus the global model. With three clients or more, no client
    counts for more than four times the median of the clients' samples, nor for more than a third.

    Clipping to a fixed length is from A. Sun et al.: Can You Really Backdoor Federated Learning?
    arXiv 1911.07963, 2019. The median of the round needs no setting, and follows the training.
    """


@dataclass(frozen=True)
class Median:
    """The median of each weight of the model, where every client counts the same.

    D. Yin, Y. Chen, K. Ramchandran, P. Bartlett: Byzantine-Robust Distributed Learning: Towards
    Optimal Statistical Rates. ICML 2018, Algorithm 1, option I.
    """


@dataclass(frozen=True, kw_only=True)
class TrimmedMean:
    """The mean of each weight of the model without the largest and smallest values.

    Every client counts the same. The paper is that of ``Median``, option II.

    Attributes:
        share: The share of clients whose values are left out on each side, at least 0 and below
            0.5. It is an upper limit for the share of bad clients that does no harm.
    """

    share: float = 0.2

    def __post_init__(self) -> None:
        check_number("averaging.share", self.share)
        if self.share >= 0.5:
            raise InvalidInput(f"averaging.share is {self.share:g}: it must be below 0.5")


@dataclass(frozen=True)
class GeometricMedian:
    """The model with the smallest sum of distances to the local models, weighted by samples.

    No client counts for more than in ``ClippedMean``.

    K. Pillutla, S. Kakade, Z. Harchaoui: Robust Aggregation for Federated Learning. IEEE
    Transactions on Signal Processing 70, 2022.
    """


Averaging = Mean | ClippedMean | Median | TrimmedMean | GeometricMedian

AVERAGINGS: dict[str, type[Averaging]] = {
    "mean": Mean,
    "clipped-mean": ClippedMean,
    "median": Median,
    "trimmed-mean": TrimmedMean,
    "geometric-median": GeometricMedian,
}


def make_averaging(name: str, **settings: Any) -> Averaging:
    """Return a way to average.

    Args:
        name: ``mean``, ``clipped-mean``, ``median``, ``trimmed-mean`` or ``geometric-median``.
        settings: The fields of the class.

    Raises:
        InvalidInput: The name or a setting is unknown or wrong.

    Example:
        >>> make_averaging("trimmed-mean", share=0.3)
        TrimmedMean(share=0.3)
        >>> make_averaging("median", share=0.3)
        Traceback (most recent call last):
        dynamite_fl.errors.JobError: averaging median has no setting 'share': it has none
    """
    check_name("averaging", name, AVERAGINGS)
    return make_named("averaging", name, AVERAGINGS, settings)


def averaging_table(averaging: Averaging) -> dict[str, Any]:
    """Write a way to average as a job's table: its name and all its settings.

    Example:
        >>> averaging_table(TrimmedMean())
        {'name': 'trimmed-mean', 'share': 0.2}
    """
    return named_table("averaging", averaging, AVERAGINGS)
