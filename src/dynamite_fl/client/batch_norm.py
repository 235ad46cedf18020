"""Batch normalisation, which computes a sample's outputs from the whole batch."""

from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

NORMALISED_BATCH = 8  # samples, below which the statistics of a batch say little about the data


def depends_on_batch(module: nn.Module) -> bool:
    """Return whether a module has a layer that normalises over the batch.

    Example:
        >>> depends_on_batch(nn.BatchNorm1d(3)), depends_on_batch(nn.LayerNorm(3))
        (True, False)
    """
    return any(isinstance(layer, _BatchNorm) for layer in module.modules())


def accept_single_values(module: nn.Module) -> None:
    """Let layers of batch normalisation train on one value per channel.

    A controller may choose a batch of one sample, and a client may have no more. A single value has
    no variance, and torch refuses it. It is then normalised by the running statistics, as in an
    evaluation, and they stay as they are.

    Example:
        >>> import torch
        >>> layer = nn.BatchNorm1d(2, eps=0.0)
        >>> accept_single_values(layer)
        >>> layer(torch.tensor([[3.0, 4.0]])).tolist(), layer.training
        ([[3.0, 4.0]], True)
    """
    for layer in module.modules():
        if isinstance(layer, _BatchNorm) and layer.track_running_stats:
            _SingleValues(layer)


class _SingleValues:
    """Puts a layer into evaluation mode while it computes single values."""

    def __init__(self, layer: _BatchNorm) -> None:
        self._are_single = False
        layer.register_forward_pre_hook(self._before, with_kwargs=True)
        layer.register_forward_hook(self._after, always_call=True)

    def _before(self, layer: nn.Module, inputs: Sequence[Tensor], named: dict[str, Tensor]) -> None:
        (values,) = (*inputs, *named.values())
        self._are_single = layer.training and values.dim() > 1 and values[:, :1].numel() == 1
        if self._are_single:
            layer.eval()

    def _after(self, layer: nn.Module, *_: Any) -> None:
        if self._are_single:
            layer.train()
