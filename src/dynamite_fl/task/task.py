"""What is learned: a model, a loss for each sample, and data."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from dynamite_fl.records import IntArray


@dataclass(frozen=True, eq=False)
class Task:
    """A learning task. Any ``nn.Module``, loss and tensors make one.

    Attributes:
        name: What to call it.
        make_model: A new model with its first weights; called under a fixed seed.
        loss: From outputs (b, ...) and targets (b, ...) to losses (b,), one a sample.
        correct: From outputs and targets to whether each sample is right, (b,) booleans.
        train_inputs: All clients' data, (D, ...); partitions are indices into it.
        train_targets: (D, ...).
        test_inputs: (T, ...).
        test_targets: (T, ...).
        penalty: lambda of a term lambda/2 |w|^2 that the loss of every batch has in addition.
        train_clients: Which client each training sample is of, where the data say so, (D,).
    """

    name: str
    make_model: Callable[[], nn.Module]
    loss: Callable[[Tensor, Tensor], Tensor]
    correct: Callable[[Tensor, Tensor], Tensor]
    train_inputs: Tensor
    train_targets: Tensor
    test_inputs: Tensor
    test_targets: Tensor
    penalty: float = 0.0
    train_clients: IntArray | None = None

    def new_model(self, seed: int) -> nn.Module:
        """A model with the first weights of this seed; the global generator is left alone."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.make_model()
