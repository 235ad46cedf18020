"""What a training must do without, so that its guarantee of differential privacy holds."""

from dataclasses import replace
from typing import Any

from dynamite_fl.control.controller import Controller
from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import Limits
from dynamite_fl.training.averaging import Averaging, Mean
from dynamite_fl.training.cohort import Selection
from dynamite_fl.training.engine import ModelSize
from dynamite_fl.training.private_mechanism import Mechanism, PrivacyState
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.server_optimizer import (
    Extrapolation,
    FedExP,
    ServerOptimizer,
    server_table,
)

_PLAIN = "fedavg, uniform, no-straggler or dbfl"


def check_private(
    mechanism: Mechanism,
    *,
    controller: Controller[Any],
    server: ServerOptimizer,
    selection: Selection,
    size: ModelSize,
    averaging: Averaging,
    learning_rate: RateSchedule | None,
) -> None:
    """Refuse whatever would learn more of clients than their noisy sum.

    Raises:
        InvalidInput: Something in the training would; the message says what to change.
    """
    if controller.measures == "loss":
        raise InvalidInput(
            f"{type(controller).__name__} has clients send losses and gradients, which the table "
            f"privacy does not protect: use the controller dynamite-feedback, {_PLAIN}"
        )
    if controller.measures == "path" and mechanism.privacy.noise_at == "node":
        raise InvalidInput(
            f"{type(controller).__name__} has clients send sketches of their path, but with "
            f'privacy.noise_at = "node" they send their noisy updates only: use the controller '
            f'{_PLAIN}, or noise_at = "server"'
        )
    if learning_rate is None:
        raise InvalidInput(
            "training.learning_rate is left out, so that clients would try learning rates and send "
            "what they found, which the table privacy does not protect: give a learning rate"
        )
    if isinstance(server, FedExP | Extrapolation):
        raise InvalidInput(
            f"the server {server_table(server)['name']} uses the norm of every single update, "
            "which the table privacy does not protect: use another server"
        )
    if not isinstance(averaging, Mean):
        raise InvalidInput(
            f"averaging by {type(averaging).__name__} compares single updates with each other, "
            "which the table privacy does not allow: leave averaging out"
        )
    if selection.by == "data":
        raise InvalidInput(
            'training.select_by = "data" gives clients unequal chances, but the table privacy '
            'counts on equal ones: use "uniform"'
        )
    if size.numbers != size.trained:
        raise InvalidInput(
            f"the model has {size.numbers - size.trained} numbers in buffers, such as the "
            "statistics of batch normalisation, which noise would make useless: use a model "
            "without them, for example with group normalisation"
        )


def rounds_left(mechanism: Mechanism, state: PrivacyState) -> int:
    """Return how many more rounds keep epsilon."""
    return max(mechanism.most_releases - state.releases, 0)


def is_epsilon_used_up(mechanism: Mechanism | None, state: PrivacyState | None) -> bool:
    """Return whether one more round would spend more than epsilon; never without privacy."""
    if mechanism is None or state is None:
        return False
    return rounds_left(mechanism, state) == 0


def spent_epsilon(mechanism: Mechanism | None, state: PrivacyState | None) -> float:
    """Return the privacy loss of all rounds so far; 0 without differential privacy."""
    if mechanism is None or state is None:
        return 0.0
    return mechanism.accountant.epsilon(state.releases)


def with_private_rounds(limits: Limits, mechanism: Mechanism | None, state: PrivacyState) -> Limits:
    """Return the limits with no more rounds than epsilon allows.

    Args:
        limits: The limits, or what is left of them.
        mechanism: The mechanism; None without differential privacy.
        state: The state of differential privacy.
    """
    if mechanism is None or limits.epsilon is None:
        return limits
    left = rounds_left(mechanism, state)
    return replace(limits, rounds=left if limits.rounds is None else min(left, limits.rounds))
