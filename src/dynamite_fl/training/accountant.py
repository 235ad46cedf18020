"""How much privacy rounds spend: epsilon of the Gaussian mechanism on random cohorts.

Every round adds Gaussian noise to a sum over a cohort that is drawn by Poisson sampling. Opacus
computes the Renyi divergence of one such round (Mironov, Talwar and Zhang: Renyi Differential
Privacy of the Sampled Gaussian Mechanism, 2019). Divergences of rounds add up, and Opacus turns
their sum into epsilon (Balle et al.: Hypothesis Testing Interpretations and Renyi Differential
Privacy, 2020, Theorem 21).
"""

import math
import warnings
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from dynamite_fl.errors import InvalidInput, MissingExtra
from dynamite_fl.records import MOST_ROUNDS, FloatArray

# The orders of Renyi divergence. More orders make epsilon smaller, never wrong.
_ORDERS = (
    *(1 + tenths / 10 for tenths in range(1, 100)),
    *range(11, 64),
    *(64, 72, 80, 96, 112, 128, 160, 192, 256, 384, 512),
)
_MOST_NOISE = 1e6  # the largest noise multiplier that is tried
_PRECISION = 1e-4  # of a noise multiplier that is searched for, relative to it


@dataclass(frozen=True)
class Accountant:
    """The privacy that rounds of one kind spend.

    Attributes:
        noise_multiplier: The standard deviation of the noise in a round's sum, relative to the
            largest contribution of one client.
        chance: The chance of each client to be in a round; 1 if all clients are in every round.
        delta: The probability with which the guarantee may fail.

    Example:
        Full participation, so that epsilon has a closed form to compare with:

        >>> accountant = Accountant(noise_multiplier=4.0, chance=1.0, delta=1e-4)
        >>> rho = 10 / (2 * 4.0**2)  # ten rounds, as zero-concentrated differential privacy
        >>> bound = rho + 2 * math.sqrt(rho * math.log(1 / 1e-4))
        >>> round(accountant.epsilon(10), 2), round(bound, 2)
        (3.18, 3.71)
        >>> accountant.most_rounds(3.2)
        10
    """

    noise_multiplier: float
    chance: float
    delta: float

    def epsilon(self, rounds: int) -> float:
        """Return epsilon of so many rounds together."""
        if rounds == 0:
            return 0.0
        analysis = _opacus()
        with warnings.catch_warnings():  # Opacus warns if the best order is the first or the last
            warnings.simplefilter("ignore")
            spent, _ = analysis.get_privacy_spent(
                orders=list(_ORDERS), rdp=rounds * self._divergences, delta=self.delta
            )
        return max(float(spent), 0.0)

    def most_rounds(self, epsilon: float) -> int:
        """Return the largest number of rounds that together spend at most epsilon."""
        low, high = 0, 1
        while high < MOST_ROUNDS and self.epsilon(high) <= epsilon:
            low, high = high, min(2 * high, MOST_ROUNDS)
        if self.epsilon(high) <= epsilon:
            return high
        while high - low > 1:  # low rounds fit, high rounds do not
            middle = (low + high) // 2
            low, high = (middle, high) if self.epsilon(middle) <= epsilon else (low, middle)
        return low

    @cached_property
    def _divergences(self) -> FloatArray:
        """The Renyi divergence of one round at each order."""
        return np.array(
            [_divergence(self.chance, self.noise_multiplier, order) for order in _ORDERS]
        )


def least_noise(*, epsilon: float, delta: float, chance: float, rounds: int) -> float:
    """Return the smallest noise multiplier with which so many rounds spend at most epsilon.

    Raises:
        InvalidInput: No noise is enough.

    Example:
        >>> noise = least_noise(epsilon=2.0, delta=1e-4, chance=0.1, rounds=100)
        >>> Accountant(noise, chance=0.1, delta=1e-4).most_rounds(2.0) >= 100
        True
    """

    def fits(noise: float) -> bool:
        return Accountant(noise, chance, delta).epsilon(rounds) <= epsilon

    low, high = 0.0, 1.0
    while not fits(high):
        low, high = high, 2 * high
        if high > _MOST_NOISE:
            raise InvalidInput(
                f"no noise keeps {rounds} rounds within limits.epsilon = {epsilon:g} at "
                f"limits.delta = {delta:g}: allow a larger epsilon"
            )
    while high - low > _PRECISION * high:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


@lru_cache(maxsize=10_000)
def _divergence(chance: float, noise_multiplier: float, order: float) -> float:
    """Return the Renyi divergence of one round; infinity if it cannot be computed at this order."""
    analysis = _opacus()
    try:
        divergence = analysis.compute_rdp(
            q=chance, noise_multiplier=noise_multiplier, steps=1, orders=float(order)
        )
    except (ValueError, OverflowError):  # the series of a fractional order lost its precision
        return math.inf
    return float(divergence) if divergence >= 0 else math.inf  # NaN is not


@lru_cache(maxsize=1)
def _opacus() -> Any:
    """Import the analysis of Opacus.

    Raises:
        MissingExtra: Opacus is not installed.
    """
    try:
        from opacus.accountants.analysis import rdp
    except ModuleNotFoundError:
        raise MissingExtra("the table privacy", "privacy") from None
    return rdp
