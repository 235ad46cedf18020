"""Server optimisers, against the pseudo-code of their papers written out number by number.

The problem is small: client i has p_i of the samples and the loss a_i |x - b_i|^2 / 2, and takes
three local steps in a round.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dynamite_fl.errors import InvalidInput
from dynamite_fl.training.aggregate import average
from dynamite_fl.training.server_optimizer import (
    SERVER_OPTIMIZERS,
    Average,
    Extrapolation,
    FedAdam,
    FedAvgM,
    FedExP,
    FedYogi,
    ServerOptimizer,
    make_server,
    server_table,
)
from dynamite_fl.training.server_step import AveragedRound, ServerState, server_step

Vector = list[float]

SAMPLES = np.array([10.0, 30.0, 60.0])
SHARES = [0.1, 0.3, 0.6]
CURVATURES = [1.0, 0.5, 2.0]
OPTIMA = [[3.0, -1.0, 0.5, 8.0], [-2.0, 4.0, 0.0, -8.0], [0.5, 0.5, -6.0, 0.1]]
START = [1.0, -2.0, 3.0, 0.25]
ROUNDS = 7


def local_model(client: int, x: Vector) -> Vector:
    """Return x after three steps of gradient descent on the client's loss, at a rate of 0.2."""
    for _ in range(3):
        x = [z - 0.2 * CURVATURES[client] * (z - b) for z, b in zip(x, OPTIMA[client], strict=True)]
    return x


def trained(server: ServerOptimizer) -> tuple[Vector, ServerState]:
    """Return the model and the state after some rounds, as computed by the package."""
    weights, state = torch.tensor(START, dtype=torch.float64), ServerState()
    for _ in range(ROUNDS):
        updates = [
            torch.tensor(local_model(i, weights.tolist()), dtype=torch.float64) for i in range(3)
        ]
        averaged = AveragedRound(weights, average(updates, SAMPLES), updates, SAMPLES / 100)
        weights, state = server_step(server, averaged, state, trained=weights.numel())
    return weights.tolist(), state


def mean(vectors: list[Vector]) -> Vector:
    return [
        sum(p * z for p, z in zip(SHARES, column, strict=True))
        for column in zip(*vectors, strict=True)
    ]


def minus(left: Vector, right: Vector) -> Vector:
    return [a - b for a, b in zip(left, right, strict=True)]


def literal_average() -> Vector:
    x = START
    for _ in range(ROUNDS):
        x = mean([local_model(i, x) for i in range(3)])
    return x


def literal_fedavgm(beta: float, eta: float) -> Vector:
    """Write out Hsu et al.: v <- beta v + Delta w and w <- w - v, with the mean Delta w."""
    w, v = START, [0.0] * 4
    for _ in range(ROUNDS):
        delta = mean([minus(w, local_model(k, w)) for k in range(3)])
        v = [beta * old + d for old, d in zip(v, delta, strict=True)]
        w = [z - eta * step for z, step in zip(w, v, strict=True)]
    return w


def adam(v: float, square: float, beta2: float) -> float:
    return beta2 * v + (1 - beta2) * square


def yogi(v: float, square: float, beta2: float) -> float:
    return v - (1 - beta2) * square * math.copysign(1.0, v - square)


def literal_fedopt(
    second: Callable[[float, float, float], float],
    eta: float,
    beta1: float,
    beta2: float,
    tau: float,
) -> tuple[Vector, Vector, Vector]:
    """Write out Algorithm 2 of Reddi et al., with Delta_i = x_i,K - x_t and v_-1 = tau^2."""
    x, m, v = START, [0.0] * 4, [tau**2] * 4
    for _ in range(ROUNDS):
        delta = mean([minus(local_model(i, x), x) for i in range(3)])
        for j in range(4):
            m[j] = beta1 * m[j] + (1 - beta1) * delta[j]
            v[j] = second(v[j], delta[j] ** 2, beta2)
        x = [x[j] + eta * m[j] / (math.sqrt(v[j]) + tau) for j in range(4)]
    return x, m, v


def literal_fedexp(epsilon: float) -> tuple[Vector, list[float]]:
    """Write out Jhunjhunwala et al. with p_i in place of 1/M; return the step sizes too."""
    w, steps = START, []
    for _ in range(ROUNDS):
        deltas = [minus(w, local_model(i, w)) for i in range(3)]
        total = sum(p * sum(d * d for d in delta) for p, delta in zip(SHARES, deltas, strict=True))
        mean_delta = mean(deltas)
        eta = max(1.0, total / (2 * (sum(d * d for d in mean_delta) + epsilon)))
        steps.append(eta)
        w = [z - eta * d for z, d in zip(w, mean_delta, strict=True)]
    return w, steps


def literal_extrapolation() -> tuple[Vector, list[float]]:
    """Write out the docstring of ``Extrapolation``; return the factors too."""
    w, last, g, factors = START, None, 1.0, []
    for _ in range(ROUNDS):
        deltas = [minus(w, local_model(i, w)) for i in range(3)]
        d = mean(deltas)
        total = sum(p * sum(x * x for x in delta) for p, delta in zip(SHARES, deltas, strict=True))
        reach = max(1.0, total / (2 * sum(x * x for x in d)))
        if last is not None:
            product = sum(x * y for x, y in zip(d, last, strict=True))
            c, r = product / (math.hypot(*d) * math.hypot(*last)), product / math.hypot(*last) ** 2
            if c > 0:
                g = g * math.exp(c / 2)
            if r < -1:
                g = g / r**2
        g = min(max(g, 1.0), reach)
        factors.append(g)
        w = [z - g * x for z, x in zip(w, d, strict=True)]
        last = d
    return w, factors


def test_average() -> None:
    weights, state = trained(Average())
    assert weights == pytest.approx(literal_average(), rel=1e-12)
    assert (state.first_moment, state.second_moment) == (None, None)


@pytest.mark.parametrize(("beta", "eta"), [(0.9, 1.0), (0.5, 0.3), (0.0, 1.0)])
def test_fedavgm(beta: float, eta: float) -> None:
    weights, state = trained(FedAvgM(momentum=beta, learning_rate=eta))
    assert weights == pytest.approx(literal_fedavgm(beta, eta))
    assert state.second_moment is None


@pytest.mark.parametrize(("kind", "second"), [(FedAdam, adam), (FedYogi, yogi)])
@pytest.mark.parametrize("settings", [(0.03, 0.9, 0.99, 0.001), (0.5, 0.0, 0.3, 0.1)])
def test_fedadam_and_fedyogi(
    kind: type[FedAdam],
    second: Callable[[float, float, float], float],
    settings: tuple[float, float, float, float],
) -> None:
    eta, beta1, beta2, tau = settings
    weights, state = trained(kind(learning_rate=eta, beta1=beta1, beta2=beta2, tau=tau))
    x, m, v = literal_fedopt(second, *settings)
    assert weights == pytest.approx(x)
    assert state.first_moment is not None
    assert state.second_moment is not None
    assert state.first_moment.neg().tolist() == pytest.approx(m)  # ours is w - average
    assert state.second_moment.tolist() == pytest.approx(v)


@pytest.mark.parametrize("epsilon", [1e-3, 30.0])
def test_fedexp(epsilon: float) -> None:
    weights, _ = trained(FedExP(epsilon=epsilon))
    expected, steps = literal_fedexp(epsilon)
    assert weights == pytest.approx(expected)
    assert (max(steps) > 1) == (epsilon < 1)  # else this would only test an average


def test_fedexp_by_hand() -> None:
    """Six clients move by 2, all at right angles: the mean square is 4, and |mean|^2 is 4/6."""
    weights = torch.zeros(6)
    updates = list(-2 * torch.eye(6))
    averaged = AveragedRound(weights, average(updates, np.ones(6)), updates, np.ones(6) / 6)
    after, _ = FedExP(epsilon=1e-12).step(averaged, ServerState())
    assert after.tolist() == pytest.approx([-3 * 2 / 6] * 6)  # 4 / (2 * 4/6) = 3 times the mean


def test_extrapolation() -> None:
    weights, state = trained(Extrapolation())
    expected, factors = literal_extrapolation()
    assert weights == pytest.approx(expected)
    assert state.factor == pytest.approx(factors[-1])
    assert max(factors) > 1  # else this would only test an average


def right_angles(scale: float = 1.0, *, is_last: bool = False) -> AveragedRound:
    """Six clients move by 2, all at right angles, so that the factor is 3 at most."""
    updates = list(-2 * scale * torch.eye(6))
    mean_model = average(updates, np.ones(6))
    return AveragedRound(torch.zeros(6), mean_model, updates, np.ones(6) / 6, is_last=is_last)


def test_extrapolation_goes_further_while_rounds_go_on_in_the_same_direction() -> None:
    after, state = Extrapolation().step(right_angles(), ServerState())
    assert state.factor == 1.0
    assert after.tolist() == pytest.approx([-1 / 3] * 6)
    after, again = Extrapolation().step(right_angles(), state)
    assert again.factor == pytest.approx(math.exp(0.5))
    assert after.tolist() == pytest.approx([-math.exp(0.5) / 3] * 6)
    _, third = Extrapolation().step(right_angles(), again)
    assert third.factor == pytest.approx(math.exp(1.0))
    _, fourth = Extrapolation().step(right_angles(), third)
    assert fourth.factor == pytest.approx(3)


@pytest.mark.parametrize(
    ("scale", "factor"),
    [
        (-0.5, 2.0),  # the movement turns back, but does not grow
        (-0.99, 2.0),
        (-1.25, 2 / 1.25**2),  # it grows
        (-3.0, 1.0),  # 2 / 9 is less than 1
        (0.0001, 2 * math.exp(0.5)),  # the angle counts, not the length
    ],
)
def test_extrapolation_at_the_edge_of_stability(scale: float, factor: float) -> None:
    last = right_angles().movement
    _, state = Extrapolation().step(right_angles(scale), ServerState(last_movement=last, factor=2))
    assert state.factor == pytest.approx(min(factor, 3))


def test_the_last_round_is_not_extrapolated() -> None:
    last = right_angles(is_last=True)
    state = ServerState(last_movement=last.movement, factor=2.0)
    assert Extrapolation().step(last, state)[0] is last.average


def test_the_last_round_ends_where_the_slope_is_nothing_if_it_turns_back() -> None:
    """The loss is 3/4 x^2, and a round moves by its slope: from 1 to -1/2, and then to 0."""

    def round_at(x: float, *, is_last: bool = False) -> AveragedRound:
        weights = torch.tensor([x], dtype=torch.float64)
        end = weights - 1.5 * weights
        return AveragedRound(weights, end, [end], np.ones(1), is_last=is_last)

    weights, state = Extrapolation().step(round_at(1.0), ServerState())
    assert weights.tolist() == [-0.5]
    weights, _ = Extrapolation().step(round_at(-0.5, is_last=True), state)
    assert weights.tolist() == pytest.approx([0.0])


@pytest.mark.parametrize(
    ("turned", "factor"),
    [(-0.5, 1.0), (-3.0, 0.75), (0.5, 1.0)],  # 3 / (1 - r), 1 at most
)
def test_the_factor_of_the_round_before_counts_in_the_last_round(
    turned: float, factor: float
) -> None:
    last = right_angles(is_last=True)
    state = ServerState(last_movement=last.movement / turned, factor=3.0)
    after, _ = Extrapolation().step(last, state)
    assert after.tolist() == pytest.approx([-factor / 3] * 6)


def test_a_round_that_moves_nothing_extrapolates_nothing() -> None:
    weights = torch.tensor([1.0, 2.0])
    still = AveragedRound(weights, weights, [weights], np.array([1.0]))
    after, state = Extrapolation().step(still, ServerState(factor=2.0))
    assert after is weights
    assert state.factor == 2.0


@pytest.mark.parametrize("server", [FedExP(epsilon=1e-12), Extrapolation()])
def test_clients_that_agree_are_not_extrapolated(server: ServerOptimizer) -> None:
    weights, same = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 4.0])
    averaged = AveragedRound(weights, same, [same, same], np.array([0.5, 0.5]))
    assert server.step(averaged, ServerState())[0].tolist() == same.tolist()


@pytest.mark.parametrize("name", SERVER_OPTIMIZERS)
def test_a_table_makes_the_same_optimiser_again(name: str) -> None:
    server = make_server(name)
    table = server_table(server)
    assert table["name"] == name
    assert make_server(**table) == server


def test_settings_stay_in_a_table() -> None:
    assert server_table(FedYogi(learning_rate=1, tau=0.5)) == {
        "name": "fedyogi",
        "learning_rate": 1,
        "beta1": 0.9,
        "beta2": 0.99,
        "tau": 0.5,
    }


@pytest.mark.parametrize(
    ("name", "settings", "complaint"),
    [
        ("fedadm", {}, "there is no server optimiser 'fedadm': did you mean 'fedadam'"),
        ("fedadam", {"learning_rat": 1}, "fedadam has no setting 'learning_rat': did you mean"),
        ("average", {"learning_rate": 1}, "average has no setting 'learning_rate': it has none"),
        ("fedadam", {"learning_rate": 0}, r"server\.learning_rate is 0: it must be a number above"),
        ("fedadam", {"beta1": 1}, r"server\.beta1 is 1: it must be below 1"),
        ("fedyogi", {"beta2": -0.1}, r"server\.beta2 is -0\.1"),
        ("fedyogi", {"tau": 0}, r"server\.tau is 0"),
        ("fedavgm", {"momentum": 1.5}, r"server\.momentum is 1\.5: it must be below 1"),
        ("fedavgm", {"learning_rate": "fast"}, r"server\.learning_rate is 'fast'"),
        ("fedexp", {"epsilon": math.nan}, r"server\.epsilon is nan"),
    ],
)
def test_what_cannot_be_used(name: str, settings: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidInput, match=complaint):
        make_server(name, **settings)


def test_other_objects_are_refused() -> None:
    other: Any = FedAdam
    with pytest.raises(InvalidInput, match=r"server is <class .* an object of dynamite_fl\.server"):
        server_table(other)
