"""The guard: it notices when the averaged model is ruined, and keeps the last good one.

Too large a learning rate ruins a model while the losses of clients still fall within their rounds.
So the guard judges the averaged model itself. Every round begins with the loss of each client's
first batch at the global model, which costs nothing. A model is ruined in one of two ways:

- Its loss has lost half of what the training has gained, by more than chance explains. At a rate
  that the job gives, this must last for some rounds: large rates often raise the loss at first and
  lower it later.
- Nothing is learned from the start, as if the first rounds had killed the hidden units. The guard
  counts such rounds, and ``recovery.py`` decides when they are too many.

Where data streams in, new samples raise the loss of a good model. So if clients have many new
samples, a loss that is too high is excused, unless it is absurd. Later ones are compared with it.
"""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from torch import Tensor

from dynamite_fl.records import FloatArray
from dynamite_fl.training.server_step import ServerState

_LOST_SHARE = 0.5  # of what was gained, which a ruined model has lost
_LEAST_RISE = 0.01  # the least rise of the loss that counts, relative to the best loss
_LARGEST_LOSS = 3.0  # of a client, as a multiple of the median, so that one word does not decide
_ALONE = 0.25  # the standard error of the loss of a single client, relative to the loss
_STANDARD_ERRORS = 3.0  # how far beyond chance the rise must be
_MEMORY = 0.7  # the weight of earlier losses beside a new one
_LEARNED = 0.02  # the fall of the loss from which on something is learned, relative to the first
_NEW_SHARE = 0.05  # the growth of clients' data after which it is not the data of before
_LARGEST_EXCUSED = 3.0  # the largest loss that new data explains, relative to the first loss


@dataclass(frozen=True, eq=False)
class Guard:
    """What the guard knows.

    Attributes:
        good_weights: The last good model, (d,). It is the first model until something is learned,
            and None before the first measurement.
        good_server: The state of the server's optimiser at that model.
        first_loss: The loss of the first model; NaN before it was measured.
        recent_loss: The mean loss of recent models that are not in doubt.
        best_loss: The least ``recent_loss`` so far.
        doubtful: The losses of the models since the last good one, and their variances.
        idle_rounds: The rounds since the first model in which nothing was learned.
        stalls: How often the training has returned because nothing was learned.
        returns: How often the training has returned to the last good model in a row.
        is_back: Whether the present model is that model, because the training has returned to it.
        is_judged: Whether the present model was judged already, because its round was discarded.
        growth: How much clients' data has grown since it was that of ``best_loss``, as a factor.
    """

    good_weights: Tensor | None = None
    good_server: ServerState = field(default_factory=ServerState)
    first_loss: float = math.nan
    recent_loss: float = math.nan
    best_loss: float = math.nan
    doubtful: tuple[tuple[float, float], ...] = ()
    idle_rounds: int = 0
    stalls: int = 0
    returns: int = 0
    is_back: bool = False
    is_judged: bool = False
    growth: float = 1.0

    @property
    def limit(self) -> float:
        """The loss above which a model is in doubt."""
        lost = _LOST_SHARE * (self.first_loss - self.best_loss)
        return self.best_loss + max(lost, _LEAST_RISE * abs(self.best_loss))

    @property
    def has_learned(self) -> bool:
        """Whether the loss has fallen since the first model."""
        return self.best_loss < self.first_loss - _LEARNED * abs(self.first_loss)


def mean_loss(losses: FloatArray, samples: FloatArray) -> tuple[float, float]:
    """Return the mean of clients' losses, weighted by samples, and the variance of that mean.

    Entries that are NaN in ``samples`` are of absent clients. A single client does not show how
    much its losses vary, so that a quarter of its loss is taken for the standard error. Clients
    whose loss is not finite are left out, unless they are more than half of all. Then both numbers
    are NaN. A loss counts as three times the median at most.

    Example:
        >>> mean_loss(np.array([1.0, 3.0, 9.0]), np.array([10.0, 10.0, np.nan]))
        (2.0, 1.0)
    """
    present = ~np.isnan(samples)
    usable = present & np.isfinite(losses)
    if 2 * usable.sum() < present.sum():
        return math.nan, math.nan
    share, own = samples[usable] / samples[usable].sum(), losses[usable]
    median = float(np.median(own))
    if median > 0:
        own = np.minimum(own, _LARGEST_LOSS * median)
    mean = float(share @ own)
    if share.size == 1:
        return mean, (_ALONE * mean) ** 2
    squares = float(share**2 @ (own - mean) ** 2)
    return mean, squares * share.size / (share.size - 1)


def judge(
    guard: Guard,
    loss: float,
    variance: float,
    weights: Tensor,
    server: ServerState,
    patience: int = 1,
    growth: float = 1.0,
) -> tuple[Guard, bool]:
    """Judge a global model by the loss that was measured at it.

    A model whose loss is too high is in doubt. The losses of all models in doubt since the last
    good one count together, so that small batches, whose losses vary much, decide after some
    rounds.

    Args:
        guard: The guard before this judgement.
        loss: The measured loss, ``mean_loss`` of the clients' losses.
        variance: The variance of that loss.
        weights: The model, (d,).
        server: The state of the server's optimiser at the model.
        patience: The number of models in doubt, one after another, before one counts as ruined. A
            loss that is not a number ends all patience.
        growth: How much clients' data has grown in this round, as a factor.

    Returns:
        The guard, and whether the model is ruined.
    """
    guard = replace(guard, growth=guard.growth * growth)
    has_new_data = guard.growth > 1 + _NEW_SHARE
    if has_new_data:
        guard = replace(guard, growth=1.0)
    is_excused = has_new_data and loss <= _LARGEST_EXCUSED * abs(guard.first_loss)
    if math.isnan(guard.first_loss) and math.isfinite(loss):
        first = replace(guard, good_weights=weights, good_server=server)
        return replace(first, first_loss=loss, recent_loss=loss, best_loss=loss), False
    if loss <= guard.limit:
        return _without_doubt(guard, loss, weights, server), False
    if is_excused or (guard.is_back and math.isfinite(loss)):
        # If the model is the good one, the loss has also risen because the data has changed.
        risen = replace(guard, recent_loss=loss, best_loss=loss, doubtful=(), is_back=False)
        return replace(risen, first_loss=max(guard.first_loss, loss)), False
    doubtful = (*guard.doubtful, (loss, variance))
    losses, variances = zip(*doubtful, strict=True)
    error = math.sqrt(sum(variances)) / len(doubtful)
    is_good = sum(losses) / len(losses) <= guard.limit + _STANDARD_ERRORS * error  # False for NaN
    is_late = len(doubtful) >= patience or not math.isfinite(loss)
    return replace(guard, doubtful=doubtful), is_late and not is_good


def _without_doubt(guard: Guard, loss: float, weights: Tensor, server: ServerState) -> Guard:
    """Return the guard after a model whose loss is not too high.

    The model is good, or nothing was learned so far.
    """
    recent = _MEMORY * guard.recent_loss + (1 - _MEMORY) * loss
    best = min(guard.best_loss, recent)
    after = replace(guard, recent_loss=recent, best_loss=best, doubtful=(), is_back=False)
    if after.has_learned:
        returns = guard.returns if guard.is_back else 0
        learned = replace(after, good_weights=weights, good_server=server, idle_rounds=0)
        return replace(learned, returns=returns)
    return replace(after, idle_rounds=guard.idle_rounds + 1)


def after_return(guard: Guard, *, is_stalled: bool) -> Guard:
    """Return the guard after the training has returned to the last good model.

    Args:
        guard: The guard before the return.
        is_stalled: Whether the training has returned because nothing was learned.
    """
    return replace(
        guard,
        doubtful=(),
        idle_rounds=0,
        stalls=guard.stalls + is_stalled,
        returns=guard.returns + 1,
        is_back=True,
    )
