"""A short outline of a model, which must be the same on a server and on its nodes.

Only trained weights are sent, as one vector. A node whose layers have another order, or whose
frozen weights are others, could take part without any error, but would learn something else.
"""

import hashlib
from dataclasses import dataclass

import torch
from torch import nn

_DIGEST_BYTES = 8
_SAME = 1e-3  # relative to the size of a weight: machines round the same weights differently


@dataclass(frozen=True)
class ModelOutline:
    """The layers of a model, and its frozen weights.

    Attributes:
        layers: A digest of the names, types and shapes of all weights, in their order, and of which
            of them are trained.
        frozen: The root mean square and the mean of each frozen weight, one after the other.
    """

    layers: str = ""
    frozen: tuple[float, ...] = ()


def outline_of(module: nn.Module) -> ModelOutline:
    """Return the outline of a model.

    Example:
        >>> len(outline_of(nn.Linear(2, 1)).frozen)
        0
        >>> len(outline_of(nn.Linear(2, 1).requires_grad_(False)).frozen)
        4
    """
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    frozen: list[float] = []
    for name, weight in module.named_parameters():
        known_name = name.replace("_orig_mod.", "")  # which torch.compile adds
        layer = (known_name, str(weight.dtype), tuple(weight.shape), weight.requires_grad)
        digest.update(repr(layer).encode())
        if not weight.requires_grad:
            values = weight.detach()
            square = torch.linalg.vector_norm(values.flatten(), dtype=torch.float64).square()
            count = max(values.numel(), 1)
            frozen += [float(square / count) ** 0.5, float(values.sum(dtype=torch.float64)) / count]
    return ModelOutline(digest.hexdigest(), tuple(frozen))


def difference(ours: ModelOutline, theirs: ModelOutline) -> str | None:
    """Say in what another model differs from ours; None if it does not.

    Example:
        >>> difference(outline_of(nn.Linear(2, 1)), outline_of(nn.Linear(1, 2)))
        'its layers are not those of this model'
    """
    if ours.layers != theirs.layers or len(ours.frozen) != len(theirs.frozen):
        return "its layers are not those of this model"
    for place in range(0, len(ours.frozen), 2):
        size = ours.frozen[place]
        for mine, other in zip(ours.frozen[place:][:2], theirs.frozen[place:][:2], strict=True):
            if not abs(mine - other) <= _SAME * size:  # true for NaN
                return "its frozen weights are not those of this model"
    return None
