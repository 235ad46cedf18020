"""Random streams, which depend on nothing but their key."""

import math

import numpy as np

from dynamite_fl._random import client_stream, random_stream, random_walk
from dynamite_fl.client.batches import BATCHES, VARIANCE


def test_streams_of_one_place_and_two_differ() -> None:
    places: list[tuple[int, ...]] = [(), (0,), (0, 0)]
    drawn = {float(random_stream(0, "a", *place).random()) for place in places}
    assert len(drawn) == 3


def test_the_walk_has_independent_standard_normal_steps() -> None:
    n, length = 4000, 40
    walk = np.array([random_walk(3, "drift", k, n) for k in range(length + 1)])
    steps = np.diff(walk, axis=0)
    assert abs(steps.mean(axis=1)).max() < 5 / math.sqrt(n)
    covariance = np.cov(steps)  # entries err by sqrt(1/n), on the diagonal by sqrt(2/n)
    assert abs(covariance - np.eye(length)).max() < 5 * math.sqrt(2 / n)


def test_the_walk_is_the_same_in_any_order() -> None:
    forwards = {k: random_walk(3, "drift", k, 5).tolist() for k in range(200)}
    backwards = {k: random_walk(3, "drift", k, 5).tolist() for k in reversed(range(200))}
    assert forwards == backwards


def test_draws_belong_to_client_round_and_purpose() -> None:
    def first(*where: int) -> float:
        return client_stream(*where).random()

    base = first(0, 1, 2, BATCHES)
    assert base == first(0, 1, 2, BATCHES)
    others = [first(1, 1, 2, BATCHES), first(0, 2, 2, BATCHES), first(0, 1, 3, BATCHES)]
    others.append(first(0, 1, 2, VARIANCE))
    assert len({base, *others}) == 5


def test_many_clients_and_rounds_have_streams_of_their_own() -> None:
    seen = {client_stream(0, c, k, BATCHES).integers(2**63) for c in range(100) for k in range(100)}
    assert len(seen) == 10_000
    assert client_stream(0, 10**8, 10**9, BATCHES).random() < 1
