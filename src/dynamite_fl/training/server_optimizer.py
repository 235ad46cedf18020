"""Server optimisers: how the server turns the average of a round into the new global model.

The average minus the model before the round is a step in a direction in which the loss falls. The
server may do more with it than take it as it is. The average weights clients by their samples, so
all optimisers here do.

PyTorch is imported only for type checkers, so that a job is read without it. ``server_step.py`` has
what these classes work on.
"""

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dynamite_fl._validate import check_name, check_number
from dynamite_fl.errors import InvalidInput
from dynamite_fl.training.named import make_named, named_table

if TYPE_CHECKING:
    from torch import Tensor

    from dynamite_fl.training.server_step import AveragedRound, ServerState


@dataclass(frozen=True)
class Average:
    """Takes the average as the new global model (McMahan et al., AISTATS 2017)."""

    def step(self, averaged: "AveragedRound", state: "ServerState") -> "tuple[Tensor, ServerState]":
        """Return the new global model and the state after the round."""
        return averaged.average, state


@dataclass(frozen=True, kw_only=True)
class FedAvgM:
    """Averaging with momentum at the server.

    With d = w - average, the movement of a round: v <- momentum v + d and w <- w - learning_rate v.
    While rounds move in the same direction, the model moves 1 / (1 - momentum) times as far.

    T. Hsu, H. Qi, M. Brown: Measuring the Effects of Non-Identical Data Distribution for Federated
    Visual Classification. arXiv 1909.06335, 2019. The authors have no learning rate at the server,
    which is a learning rate of 1.

    Attributes:
        learning_rate: The step size of the server.
        momentum: The share of the last step that is taken again, 0 or more and below 1.
    """

    learning_rate: float = 1.0
    momentum: float = 0.9

    def __post_init__(self) -> None:
        check_number("server.learning_rate", self.learning_rate, positive=True)
        _check_below_one("server.momentum", self.momentum)

    def step(self, averaged: "AveragedRound", state: "ServerState") -> "tuple[Tensor, ServerState]":
        """Return the new global model and the state after the round."""
        velocity = averaged.movement
        if state.first_moment is not None:
            velocity = self.momentum * state.first_moment + velocity
        weights = averaged.weights - self.learning_rate * velocity
        return weights, replace(state, first_moment=velocity)


@dataclass(frozen=True, kw_only=True)
class FedAdam:
    """Adam at the server, where the movement of a round takes the place of the gradient.

    With d = w - average: m <- beta1 m + (1 - beta1) d, v <- beta2 v + (1 - beta2) d^2 and
    w <- w - learning_rate m / (sqrt(v) + tau), for each weight. At first, m is 0 and v is tau^2.
    There is no bias correction.

    S. Reddi, Z. Charles, M. Zaheer, Z. Garrett, K. Rush, J. Konecny, S. Kumar, B. McMahan: Adaptive
    Federated Optimization. ICLR 2021, Algorithm 2.

    Attributes:
        learning_rate: The step size of the server.
        beta1: The weight of earlier rounds in the mean movement, 0 or more and below 1.
        beta2: The weight of earlier rounds in the mean square of the movement, likewise.
        tau: The degree of adaptivity. Weights that move by much less than tau in a round keep their
            proportions; all others move by about ``learning_rate``.
    """

    learning_rate: float = 0.1
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 0.001

    def __post_init__(self) -> None:
        check_number("server.learning_rate", self.learning_rate, positive=True)
        _check_below_one("server.beta1", self.beta1)
        _check_below_one("server.beta2", self.beta2)
        check_number("server.tau", self.tau, positive=True)

    def step(self, averaged: "AveragedRound", state: "ServerState") -> "tuple[Tensor, ServerState]":
        """Return the new global model and the state after the round."""
        movement = averaged.movement
        first = (1 - self.beta1) * movement
        second = movement.new_full(movement.shape, self.tau**2)
        if state.first_moment is not None and state.second_moment is not None:
            first = first + self.beta1 * state.first_moment
            second = state.second_moment
        second = self._next_second_moment(second, movement.square())
        weights = averaged.weights - self.learning_rate * first / (second.sqrt() + self.tau)
        return weights, replace(state, first_moment=first, second_moment=second)

    def _next_second_moment(self, second: "Tensor", square: "Tensor") -> "Tensor":
        return self.beta2 * second + (1 - self.beta2) * square


@dataclass(frozen=True, kw_only=True)
class FedYogi(FedAdam):
    """Yogi at the server: like ``FedAdam``, but v follows the squares by limited changes.

    v <- v - (1 - beta2) d^2 sign(v - d^2). A few rounds of small movement do not make v small, so
    the steps after them do not become large.

    The paper is that of ``FedAdam``, and so are the settings.
    """

    def _next_second_moment(self, second: "Tensor", square: "Tensor") -> "Tensor":
        return second - (1 - self.beta2) * square * (second - square).sign()


@dataclass(frozen=True, kw_only=True)
class FedExP:
    """Extrapolation: the more the clients' movements differ, the further the server goes.

    The server moves g times as far as the average, where d_i = w - w_i is the movement of a client,
    d is the average of all d_i, and

        g = max(1, sum_i p_i |d_i|^2 / (2 (|d|^2 + epsilon)))

    The paper has p_i = 1/M for M clients. Here p_i = D_i / D, the weight of the client in the
    average, over the clients of the round whose updates were averaged. The authors' code weights
    clients in the same way.

    D. Jhunjhunwala, S. Wang, G. Joshi: FedExP: Speeding Up Federated Averaging via Extrapolation.
    ICLR 2023. The authors evaluate the mean of the last two global models. We do not, because the
    model that is evaluated here is the model that the next round begins with.

    Attributes:
        epsilon: Keeps g small when the average hardly moves. The smaller the movements of a round
            are, the smaller it should be.
    """

    epsilon: float = 0.001

    def __post_init__(self) -> None:
        check_number("server.epsilon", self.epsilon, positive=True)

    def step(self, averaged: "AveragedRound", state: "ServerState") -> "tuple[Tensor, ServerState]":
        """Return the new global model and the state after the round."""
        diversity = averaged.mean_squared_norm / (2 * (averaged.squared_norm + self.epsilon))
        return averaged.weights - max(1.0, diversity) * averaged.movement, state


@dataclass(frozen=True)
class Extrapolation:
    """Goes further than the average, as far as the directions of rounds allow.

    Clients whose data differs move in different directions, which nearly cancel in the average.
    Their own losses allow only short local steps, while the mean loss of all would allow the model
    to go much further. So the server moves g times as far as the average. It begins with g = 1.
    With the movement d of this round's average, d' of the last one, the cosine c of the angle
    between them, and r = <d, d'> / |d'|^2,

        g <- g exp(c / 2)    if c > 0, because the model may go further
        g <- g / r^2         if r < -1, because it went too far

    and g stays otherwise. If the movement turns back without growing (-1 < r < 0), the training is
    at the edge of stability, where it learns fastest (Cohen et al., ICLR 2021). In all cases, g is
    at least 1 and at most max(1, h), where ``h = sum_i p_i |d_i|^2 / (2 |d|^2)`` is the factor of
    ``FedExP``.

    The last round has no later one to correct it, so the server takes the average. If the last
    round turns back, the server goes g' / (1 - r) times as far, but at most once, where g' is the
    factor of the round before. After two rounds of equal length, this ends where the slope of the
    loss along the last movement has fallen to nothing.
    """

    def step(self, averaged: "AveragedRound", state: "ServerState") -> "tuple[Tensor, ServerState]":
        """Return the new global model and the state after the round."""
        movement, square = averaged.movement, averaged.squared_norm
        if not square > 0:
            return averaged.average, state
        factor, turned = state.factor, 0.0
        if state.last_movement is not None:
            product, last_square = _products(movement, state.last_movement)
            turned = product / last_square
            if turned < -1:
                factor /= turned**2
            elif turned > 0:
                factor *= math.exp(product / math.sqrt(square * last_square) / 2)
        factor = min(max(factor, 1.0), max(1.0, averaged.disagreement / 2))
        if averaged.is_last:
            factor = min(state.factor / (1 - turned), 1.0) if turned < 0 else 1.0
        weights = averaged.average if factor == 1 else averaged.weights - factor * movement
        return weights, replace(state, last_movement=movement, factor=factor)


ServerOptimizer = Average | FedAvgM | FedAdam | FedYogi | FedExP | Extrapolation

SERVER_OPTIMIZERS: dict[str, type[ServerOptimizer]] = {
    "average": Average,
    "fedavgm": FedAvgM,
    "fedadam": FedAdam,
    "fedyogi": FedYogi,
    "fedexp": FedExP,
    "extrapolation": Extrapolation,
}


def make_server(name: str, **settings: Any) -> ServerOptimizer:
    """Return a server optimiser.

    Args:
        name: ``average``, ``fedavgm``, ``fedadam``, ``fedyogi``, ``fedexp`` or ``extrapolation``.
        settings: The fields of the optimiser.

    Raises:
        InvalidInput: The name or a setting is unknown or wrong.

    Example:
        >>> make_server("fedavgm", momentum=0.5)
        FedAvgM(learning_rate=1.0, momentum=0.5)
        >>> make_server("fedexp", epsilom=0.1)
        Traceback (most recent call last):
        dynamite_fl.errors.JobError: server fedexp has no setting 'epsilom': did you mean 'epsilon'?
    """
    check_name("server optimiser", name, SERVER_OPTIMIZERS)
    return make_named("server", name, SERVER_OPTIMIZERS, settings)


def server_table(server: ServerOptimizer) -> dict[str, Any]:
    """Write a server optimiser as a job's table: its name and all its settings.

    Example:
        >>> server_table(FedAvgM(momentum=0.5))
        {'name': 'fedavgm', 'learning_rate': 1.0, 'momentum': 0.5}
    """
    return named_table("server", server, SERVER_OPTIMIZERS)


def _check_below_one(field: str, value: float) -> None:
    check_number(field, value)
    if value >= 1:
        raise InvalidInput(f"{field} is {value:g}: it must be below 1")


def _products(one: "Tensor", other: "Tensor") -> tuple[float, float]:
    """Return the inner product of two vectors, and that of the second one with itself."""
    one, other = one.double(), other.double()
    return float(one @ other), float(other @ other)
