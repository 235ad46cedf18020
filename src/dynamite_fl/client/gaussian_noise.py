"""Gaussian noise for differential privacy: repeatable in simulations, secret on real machines."""

import secrets
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from dynamite_fl._random import random_stream
from dynamite_fl.records import FloatArray

_UNIT = 2.0**-53  # doubles have 53 digits
_AT_ONCE = 2**16  # numbers that are drawn at once, to bound memory


class Noise(Protocol):
    """A source of standard normal numbers."""

    def draw(self, count: int, purpose: str, *place: int) -> FloatArray:
        """Return independent standard normal numbers, (count,).

        Args:
            count: How many numbers.
            purpose: The purpose of the numbers.
            place: The number of the round, and of the client if there is one.
        """
        ...


@dataclass(frozen=True)
class KeyedNoise:
    """Noise that a seed determines, for simulations: a resumed training repeats it.

    Whoever knows the seed can subtract this noise, so it protects nobody's data.

    Attributes:
        seed: The seed of the training.

    Example:
        >>> noise = KeyedNoise(seed=0)
        >>> bool((noise.draw(3, "update", 7) == noise.draw(3, "update", 7)).all())
        True
    """

    seed: int

    def draw(self, count: int, purpose: str, *place: int) -> FloatArray:
        """Return the numbers of this purpose and place."""
        return random_stream(self.seed, f"privacy {purpose}", *place).standard_normal(count)


@dataclass(frozen=True)
class SecretNoise:
    """Noise from the operating system's generator, which nobody can repeat or predict.

    Every number is half the sum of four normal numbers. The gaps between the numbers that floating
    point can represent would otherwise betray what the noise was added to (Mironov 2012; Holohan
    and Braghin: Secure Random Sampling in Differential Privacy, 2021).

    Example:
        >>> SecretNoise().draw(3, "update", 7).shape
        (3,)
    """

    def draw(self, count: int, purpose: str, *place: int) -> FloatArray:  # noqa: ARG002
        """Return numbers that depend on nothing."""
        pieces = [_secret_normals(size) for size in _piece_sizes(count)]
        return np.concatenate(pieces) if pieces else np.zeros(0)


def _piece_sizes(count: int) -> list[int]:
    return [min(_AT_ONCE, count - start) for start in range(0, count, _AT_ONCE)]


def _secret_normals(count: int) -> FloatArray:
    """Return half the sum of four normal numbers each, by the transform of Box and Muller.

    The two results of a transform go into different numbers.
    """
    pairs = -(-count // 2)
    words = np.frombuffer(secrets.token_bytes(8 * 2 * 4 * pairs), dtype=np.uint64)
    uniform = (words >> np.uint64(11)).astype(np.float64).reshape(2, 4, pairs) * _UNIT
    radius = np.sqrt(-2 * np.log1p(-uniform[0]))  # (4, pairs); 1 - uniform is in (0, 1]
    angle = 2 * np.pi * uniform[1]
    halves = (radius * np.cos(angle)).sum(axis=0) / 2, (radius * np.sin(angle)).sum(axis=0) / 2
    return np.concatenate(halves)[:count]
