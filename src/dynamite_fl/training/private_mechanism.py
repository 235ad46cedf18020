"""The mechanism of differential privacy in a training: its noise, limits and accounting."""

import math
from dataclasses import dataclass, replace

from dynamite_fl.client.gaussian_noise import KeyedNoise, Noise, SecretNoise
from dynamite_fl.client.private_update import NodePrivacy
from dynamite_fl.errors import InvalidInput
from dynamite_fl.plan.feasibility import Infeasible, Miss
from dynamite_fl.records import MOST_ROUNDS, Limits
from dynamite_fl.training.accountant import Accountant, least_noise
from dynamite_fl.training.privacy import Privacy

_BIT_NOISE = 20  # the noise of the counted bits is the expected cohort divided by this


@dataclass(frozen=True)
class PrivacyState:
    """What changes from round to round.

    Attributes:
        clip_norm: The clip norm of the next round.
        releases: The number of noisy sums that were given away. It is the number of rounds, and
            more if rounds were begun on real machines and had to be begun again.
        is_cohort_empty: Whether nobody was drawn for the next round. A single client then stands
            in, so that there is a round to plan, and its update is not used.
    """

    clip_norm: float
    releases: int = 0
    is_cohort_empty: bool = False


@dataclass(frozen=True, eq=False)
class Mechanism:
    """The clipping, the noise and the accounting of a training.

    Attributes:
        privacy: The settings.
        noise_multiplier: The noise multiplier, given or computed.
        accountant: Knows what rounds spend.
        expected_clients: The expected number of clients in a round. Sums are divided by it.
        most_releases: The number of noisy sums that keep ``Limits.epsilon``.
        noise: The source of the noise.
        is_secret: Whether cohorts are drawn so that nobody can predict them.
    """

    privacy: Privacy
    noise_multiplier: float
    accountant: Accountant
    expected_clients: float
    most_releases: int
    noise: Noise
    is_secret: bool

    def first_state(self) -> PrivacyState:
        """Return the state before the first round."""
        return PrivacyState(self.privacy.clip_norm)

    @property
    def bit_noise(self) -> float:
        """The standard deviation of the noise in the number of updates that were not clipped."""
        return self.expected_clients / _BIT_NOISE

    @property
    def update_noise(self) -> float:
        """The noise multiplier of updates alone.

        The noisy number of updates that were not clipped spends a part of the privacy. Each of
        them counts one half more or less, so its noise multiplier is twice ``bit_noise``. Updates
        get so much noise that both together spend what ``noise_multiplier`` says (Andrew et al.,
        Theorem 1).
        """
        if self.privacy.clip_quantile is None:
            return self.noise_multiplier
        return 1 / math.sqrt(1 / self.noise_multiplier**2 - 1 / (2 * self.bit_noise) ** 2)

    def for_nodes(self) -> NodePrivacy | None:
        """Return what clients do to their updates; None if the server does it all.

        If ``expected_clients`` of them each add this noise, their sum has all of it.
        """
        if self.privacy.noise_at == "server":
            return None
        settings = replace(self.privacy, noise_multiplier=self.noise_multiplier)
        return node_privacy(settings, self.expected_clients, self.noise)


def node_privacy(privacy: Privacy, expected_clients: float, noise: Noise) -> NodePrivacy:
    """Return what a client does to its update, given the noise multiplier.

    Args:
        privacy: The settings, with a noise multiplier.
        expected_clients: The expected number of clients in a round.
        noise: The source of the noise.

    Raises:
        InvalidInput: There is no noise multiplier.
    """
    if privacy.noise_multiplier is None:
        raise InvalidInput(
            'Privacy.noise_multiplier is needed on nodes with noise_at = "node": give it'
        )
    share = privacy.noise_multiplier / math.sqrt(expected_clients)
    return NodePrivacy(privacy.clip_norm, share * privacy.clip_norm, noise)


def build_mechanism(
    privacy: Privacy | None,
    limits: Limits,
    *,
    clients: int,
    cohort: int | None,
    seed: int,
    is_real: bool,
) -> Mechanism | None:
    """Return the mechanism of a training; None without differential privacy.

    Args:
        privacy: The settings; None if the training has none.
        limits: The limits of the training.
        clients: The number of all clients, n.
        cohort: The expected number of clients in a round; None for all.
        seed: The seed of noise and cohorts in simulations.
        is_real: Whether clients are real machines, whose noise must be secret.

    Raises:
        InvalidInput: Settings and limits do not fit each other; the message says what to change.
        MissingExtra: Opacus, which computes epsilon, is not installed.
    """
    if privacy is None:
        if limits.epsilon is not None or limits.delta is not None:
            raise InvalidInput(
                "Limits.epsilon and Limits.delta limit the privacy that training spends, but there "
                "is no table privacy: add it with clip_norm, or leave them out"
            )
        return None
    delta = _checked_delta(limits, clients)
    expected = clients if cohort is None else cohort
    chance = expected / clients
    noise_multiplier = privacy.noise_multiplier
    if noise_multiplier is None:
        noise_multiplier = _least_noise(limits, delta, chance)
    accountant = Accountant(noise_multiplier, chance, delta)
    epsilon = math.inf if limits.epsilon is None else limits.epsilon
    mechanism = Mechanism(
        privacy,
        noise_multiplier,
        accountant,
        expected,
        MOST_ROUNDS if math.isinf(epsilon) else accountant.most_rounds(epsilon),
        SecretNoise() if is_real else KeyedNoise(seed),
        is_real,
    )
    if privacy.clip_quantile is not None and 2 * mechanism.bit_noise <= noise_multiplier:
        raise InvalidInput(
            f"Privacy.clip_quantile needs more than {_BIT_NOISE * noise_multiplier / 2:.0f} "
            f"clients in a round, but there are {expected}: leave it out, or use more clients"
        )
    return mechanism


def require_a_round(mechanism: Mechanism, limits: Limits) -> None:
    """Raise ``Infeasible`` if a single round spends more than epsilon."""
    if mechanism.most_releases > 0 or limits.epsilon is None:
        return
    needed = mechanism.accountant.epsilon(1)
    why = (
        f"one round with noise_multiplier = {mechanism.noise_multiplier:.4g} and delta = "
        f"{mechanism.accountant.delta:g} spends {needed:.4g}"
    )
    raise Infeasible((Miss("epsilon", limits.epsilon, needed, why),), 0)


def _checked_delta(limits: Limits, clients: int) -> float:
    """Return delta, which must be below 1 / n: otherwise one client's data could be given away."""
    if limits.delta is None:
        raise InvalidInput(
            "the table privacy needs Limits.delta, the probability with which the guarantee may "
            f"fail: use less than 1 / {clients}, such as {clients**-1.1:.1g}"
        )
    if limits.delta >= 1 / clients:
        raise InvalidInput(
            f"Limits.delta is {limits.delta:g}, but there are {clients} clients: use less than "
            f"1 / {clients}, such as {clients**-1.1:.1g}, since a guarantee that fails once for so "
            "many clients protects none of them"
        )
    return limits.delta


def _least_noise(limits: Limits, delta: float, chance: float) -> float:
    if limits.rounds is None or limits.epsilon is None:
        raise InvalidInput(
            "Privacy.noise_multiplier is left out, so it is computed from Limits.rounds and "
            "Limits.epsilon: give both, or the noise_multiplier"
        )
    return least_noise(epsilon=limits.epsilon, delta=delta, chance=chance, rounds=limits.rounds)
