"""Random fleets, limits and losses."""

import math
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np

from dynamite_fl import Fleet, Limits, LossGeometry
from dynamite_fl.plan._problem import round_cost, round_seconds
from tests.plan.oracles import Floats

Split = tuple[Floats, Floats, float]  # weights, ceilings, total

# Whole weights make ties, the others make rounding matter.
weights = st.one_of(st.integers(0, 4).map(float), st.floats(1e-6, 1e6))


@st.composite
def splits(draw: Any, *, clients: int, most: int) -> Split:
    """Weights, ceilings and a total of at least one sample a client."""
    n = draw(st.integers(1, clients))
    w = draw(st.lists(weights, min_size=n, max_size=n))
    u = draw(st.lists(st.integers(1, most), min_size=n, max_size=n))
    total = draw(st.integers(n, max(n, sum(u) + 2)))
    return np.array(w), np.array(u, dtype=float), float(total)


@st.composite
def splits_from(draw: Any, *, clients: int, most: int) -> tuple[Split, Floats]:
    """A split and the least size of each client, which the total has room for."""
    weights, ceilings, total = draw(splits(clients=clients, most=most))
    least = np.array([draw(st.integers(1, int(ceiling))) for ceiling in ceilings], dtype=float)
    return (weights, ceilings, max(total, float(least.sum()))), least


@st.composite
def fleets(
    draw: Any,
    *,
    clients: int = 3,
    samples: int = 5,
    least: st.SearchStrategy[int] | None = None,
) -> Fleet:
    n = draw(st.integers(1, clients))

    def column(values: st.SearchStrategy[float]) -> list[float]:
        drawn: list[float] = draw(st.lists(values, min_size=n, max_size=n))
        return drawn

    constant = draw(st.booleans())
    speeds = st.just(math.inf) if constant else st.sampled_from([0.5, 1, 2, 3, 7.7, math.inf])
    buffered = draw(st.booleans())
    return Fleet(
        samples=column(st.integers(1, samples)),
        gradient_variance=column(st.sampled_from([0.0, 0.1, 1, 1, 2.5, 30])),
        samples_per_second=column(speeds),
        step_overhead=column(st.sampled_from([0, 0.1, 0.3])),
        comm_seconds=column(st.sampled_from([0, 0.1, 0.7])),
        buffer_size=column(st.integers(1, samples)) if buffered else None,
        least_batch=None if least is None else column(least),
    )


@st.composite
def limits(draw: Any, *, rounds: st.SearchStrategy[int | None], max_local_steps: int = 5) -> Limits:
    return Limits(
        rounds=draw(rounds),
        deadline=draw(st.one_of(st.integers(1, 80), st.floats(0.5, 80), st.just(math.inf))),
        budget=draw(st.one_of(st.integers(1, 80), st.floats(0.5, 80))),
        cost_per_sample=draw(st.sampled_from([0, 0.1, 0.25, 0.3])),
        cost_per_round=draw(st.sampled_from([0.1, 0.7, 2])),
        max_local_steps=draw(st.integers(1, max_local_steps)),
    )


@st.composite
def problems(draw: Any) -> tuple[Fleet, Limits]:
    """A fleet, and limits from a little too tight to ample for it."""
    fleet = draw(fleets())
    rounds = draw(st.integers(1, 20))
    seconds = float(round_seconds(fleet, 1, np.ones(len(fleet))).max())
    prices = draw(limits(rounds=st.just(rounds)))
    cost = float(round_cost(prices, 1, len(fleet)))
    times = st.one_of(st.integers(1, 12), st.floats(0.8, 12))
    scaled = replace(
        prices,
        deadline=max(rounds * seconds * draw(times), 1e-3),
        budget=max(rounds * cost * draw(times), 1e-3),
    )
    return fleet, scaled


geometries = st.builds(
    LossGeometry,
    learning_rate=st.floats(1e-4, 0.1),
    quadratic_bound=st.floats(0, 30),
    smoothness=st.floats(0, 10),
    pl_constant=st.floats(0, 10),
    divergence=st.floats(0, 10),
    loss_gap=st.floats(0, 10),
)
