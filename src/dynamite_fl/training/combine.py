"""The average of a round's local models, by each way of ``averaging.py``."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from dynamite_fl.records import FloatArray
from dynamite_fl.training.aggregate import average
from dynamite_fl.training.averaging import (
    Averaging,
    GeometricMedian,
    Mean,
    Median,
    TrimmedMean,
)

_PIECE = 2**16  # numbers that are sorted at once, to bound memory
_MOST_SAMPLES = 4.0  # that a client counts for, as a multiple of the clients' median
_MOST_SHARE = 1 / 3  # that a client has in the average, whatever its samples
_LEAST_CLIENTS = 3  # with fewer, there is no majority that could overrule one of them
_MOST_ITERATIONS = 1000  # of Weiszfeld's method
_ACCURACY = 1e-10  # of the shares, at which Weiszfeld's method ends
_SMOOTHING = 1e-6  # the smallest distance that counts, relative to the median movement


@dataclass(frozen=True, eq=False)
class Combined:
    """The average of local models.

    Attributes:
        average: The average, (d,).
        shares: The weight of each client, p_i, (m,). They add up to 1.
        scales: The factor by which each client's movement was shortened, c_i, (m,).
        linear: w + sum_i p_i c_i (w_i - w), (d,). For means and the geometric median, it is the
            average. For medians and trimmed means of single weights, there are no such factors:
            these are those of the clipped mean, and so is this.
    """

    average: Tensor
    shares: FloatArray
    scales: FloatArray
    linear: Tensor


def combine(
    averaging: Averaging,
    weights: Tensor,
    updates: Sequence[Tensor],
    samples: FloatArray,
    trained: int,
) -> Combined:
    """Average the local models of a round, which must be finite and of the model's shape.

    Statistics, such as those of batch normalisation, are averaged in the same way as the trained
    weights, but apart from them: they have other magnitudes.

    Args:
        averaging: The way to average.
        weights: The global model before the round, w, (d,).
        updates: The local models, w_i.
        samples: The number of samples of each client, D_i, (m,).
        trained: The number of trained weights, which come first in a model's vector.

    Example:
        >>> models = [torch.tensor([1.0, 5.0]), torch.tensor([2.0, 5.0]), torch.tensor([9e9, 5.0])]
        >>> combine(Median(), torch.zeros(2), models, np.ones(3), trained=1).average
        tensor([2., 5.])
    """
    parts = [slice(0, trained), slice(trained, None)]
    combined = [
        _combine_part(averaging, weights[part], [update[part] for update in updates], samples)
        for part in parts
        if weights[part].numel()
    ]
    return Combined(
        torch.cat([part.average for part in combined]),
        combined[0].shares,
        combined[0].scales,
        torch.cat([part.linear for part in combined]),
    )


def _combine_part(
    averaging: Averaging, weights: Tensor, updates: Sequence[Tensor], samples: FloatArray
) -> Combined:
    ones = np.ones(len(updates))
    if isinstance(averaging, Mean):
        mean = average(updates, samples)
        return Combined(mean, samples / samples.sum(), ones, mean)
    shares = capped_shares(samples)
    if isinstance(averaging, GeometricMedian):
        shares = geometric_median_shares(_products(weights, updates), shares)
        mean = _moved(weights, updates, shares)
        return Combined(mean, shares, ones, mean)
    scales = clip_scales(_movements(weights, updates))
    result = clipped = _moved(weights, updates, shares * scales)
    if isinstance(averaging, Median):
        result = trimmed_mean(updates, (len(updates) - 1) // 2)
    elif isinstance(averaging, TrimmedMean):
        result = trimmed_mean(updates, int(averaging.share * len(updates)))
    return Combined(result, shares, scales, clipped)


def capped_shares(samples: FloatArray) -> FloatArray:
    """Return p_i = D_i / D, with D_i at most four times the median, and p_i at most a third.

    With fewer than three clients, nobody can tell which of them exaggerates, so nothing is capped.

    Example:
        >>> capped_shares(np.array([500.0, 500.0, 500.0, 1e7])).round(3)
        array([0.222, 0.222, 0.222, 0.333])
    """
    shares: FloatArray = samples / samples.sum()
    if samples.size < _LEAST_CLIENTS:
        return shares
    shares = np.minimum(samples, _MOST_SAMPLES * _low_median(samples))
    shares = shares / shares.sum()
    for _ in range(2):  # two at most have more than a third, the second maybe only now
        largest = shares >= min(shares.max(), _MOST_SHARE)
        if shares.max() <= _MOST_SHARE or largest.all():
            break
        rest = 1 - _MOST_SHARE * largest.sum()
        others = shares[~largest].sum()
        shares = np.where(largest, _MOST_SHARE, shares * rest / others)
    return shares


def clip_scales(norms: FloatArray) -> FloatArray:
    """Return the factors that shorten movements to the median length, at most 1.

    Of an even number of lengths, the median is the smaller one of the middle two.

    Example:
        >>> clip_scales(np.array([1.0, 2.0, 8.0, 4.0]))
        array([1.  , 1.  , 0.25, 0.5 ])
    """
    limit, scales = _low_median(norms), np.ones(norms.size)
    np.divide(limit, norms, out=scales, where=norms > limit)
    return scales


def trimmed_mean(updates: Sequence[Tensor], cut: int) -> Tensor:
    """Return the mean of each number without its ``cut`` largest and smallest values.

    With (m - 1) // 2 values cut, it is the median.

    Example:
        >>> trimmed_mean([torch.tensor([value]) for value in (1.0, 2.0, 6.0, 99.0)], 1)
        tensor([4.])
    """
    result = torch.empty_like(updates[0])
    for start in range(0, result.numel(), _PIECE):
        piece = slice(start, start + _PIECE)
        ordered = torch.stack([update[piece] for update in updates]).sort(dim=0).values
        result[piece] = ordered[cut : len(updates) - cut].double().mean(dim=0)
    return result


def geometric_median_shares(products: FloatArray, shares: FloatArray) -> FloatArray:
    """Return the weights of clients whose mean is their geometric median, by Weiszfeld's method.

    Args:
        products: The inner products of the clients' movements, (m, m).
        shares: The weight of each client in the sum of distances, (m,).

    Example:
        >>> points = np.array([[0.0], [1.0], [50.0]])
        >>> equal = np.ones(3) / 3
        >>> geometric_median_shares(points @ points.T, equal).round(3) @ points
        array([1.])
    """
    squares = np.diag(products)
    least = _SMOOTHING * float(np.median(np.sqrt(squares))) + np.finfo(np.float64).tiny
    weights = shares * clip_scales(np.sqrt(squares) + least)  # near the others, whatever they are
    weights = weights / weights.sum()
    for _ in range(_MOST_ITERATIONS):
        distances = squares - 2 * products @ weights + weights @ products @ weights
        closeness = shares / np.maximum(np.sqrt(np.maximum(distances, 0.0)), least)
        before, weights = weights, closeness / closeness.sum()
        if np.abs(weights - before).max() < _ACCURACY:
            break
    result: FloatArray = weights
    return result


def _moved(weights: Tensor, updates: Sequence[Tensor], factors: FloatArray) -> Tensor:
    """Return w + sum_i factor_i (w_i - w), summed in double precision."""
    result = torch.empty_like(weights)
    for start in range(0, result.numel(), _PIECE):
        piece = slice(start, start + _PIECE)
        begin = weights[piece].double()
        total = begin.clone()
        for update, factor in zip(updates, factors, strict=True):
            total.add_(update[piece].double() - begin, alpha=float(factor))
        result[piece] = total
    return result


def _movements(weights: Tensor, updates: Sequence[Tensor]) -> FloatArray:
    """Return the length of each movement, |w_i - w|, (m,)."""
    squares = np.zeros(len(updates))
    for start in range(0, weights.numel(), _PIECE):
        piece = slice(start, start + _PIECE)
        for place, update in enumerate(updates):
            moved = update[piece].double() - weights[piece].double()
            squares[place] += float(moved.dot(moved))
    return np.sqrt(squares)


def _products(weights: Tensor, updates: Sequence[Tensor]) -> FloatArray:
    """Return the inner products of all movements, (m, m)."""
    total = torch.zeros(len(updates), len(updates), dtype=torch.float64)
    for start in range(0, weights.numel(), _PIECE):
        piece = slice(start, start + _PIECE)
        moved = (
            torch.stack([update[piece].double() for update in updates]) - weights[piece].double()
        )
        total += moved @ moved.T
    products: FloatArray = total.numpy()
    return products


def _low_median(values: FloatArray) -> float:
    return float(np.sort(values)[(values.size - 1) // 2])
