"""Cohorts for differential privacy: every client is drawn on its own, with the same chance.

This is Poisson sampling. Nobody can tell whether a client was drawn. This protects clients further,
and the accountant counts on it, so it must stay secret who was drawn.
"""

import secrets

import numpy as np

from dynamite_fl._random import random_stream
from dynamite_fl.records import FloatArray, IntArray
from dynamite_fl.training.private_mechanism import Mechanism

_UNIT = 2.0**-53


def draw_private_cohort(
    clients: int, mechanism: Mechanism, seed: int, round_index: int
) -> tuple[IntArray, bool]:
    """Return the places of a round's clients in rising order, and whether nobody was drawn.

    If nobody was drawn, one client stands in, so that there is a round to plan. Its update must not
    be used. Drawing again instead would give clients another chance than the accountant knows.

    Args:
        clients: The number of all clients, n.
        mechanism: Knows the chance of each client, and whether cohorts are secret.
        seed: The training's seed, which determines cohorts that are not secret.
        round_index: The round's number k.
    """
    chance = mechanism.accountant.chance
    if chance == 1:
        return np.arange(clients), False
    if mechanism.is_secret:
        draws = _secret_uniforms(clients)
    else:
        draws = random_stream(seed, "private cohort", round_index).random(clients)
    cohort = np.flatnonzero(draws < chance)
    if cohort.size:
        return cohort, False
    return np.array([np.argmin(draws)]), True


def _secret_uniforms(count: int) -> FloatArray:
    words = np.frombuffer(secrets.token_bytes(8 * count), dtype=np.uint64)
    return np.asarray((words >> np.uint64(11)) * _UNIT)
