"""What is learned: a model, a loss for each sample, and data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn

from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import IntArray


@dataclass(frozen=True, eq=False)
class Task:
    """A learning task, made of any ``nn.Module``, loss and tensors.

    Attributes:
        name: The name of the task in reports.
        make_model: A function that returns a new model with its first weights. It is called
            under a fixed seed.
        loss: A function from outputs (b, ...) and targets (b, ...) to the loss of each sample,
            (b,).
        correct: A function from outputs and targets to booleans (b,): whether the output of each
            sample is correct.
        train_inputs: The inputs of all clients' training samples, (D, ...). A partition holds
            rows of it.
        train_targets: The targets of the training samples, (D, ...).
        test_inputs: The inputs of the test samples, (T, ...).
        test_targets: The targets of the test samples, (T, ...).
        penalty: The factor lambda of the term lambda/2 |w|^2 that is added to the loss of every
            batch.
        train_clients: The client that each training sample comes from, (D,), where the data says
            so.
        source: How the task can be made again: ``{"model": ..., "dataset": ...}`` for
            ``make_task``, ``"module:function"`` for ``load_task``, None if it was made by hand or
            changed since.
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
    source: str | Mapping[str, str] | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        for part in ("train", "test"):
            inputs = _checked(f"Task.{part}_inputs", getattr(self, f"{part}_inputs"))
            targets = _checked(f"Task.{part}_targets", getattr(self, f"{part}_targets"))
            if len(inputs) != len(targets):
                raise InvalidInput(
                    f"Task.{part}_inputs has {len(inputs)} samples, but Task.{part}_targets has "
                    f"{len(targets)}: each input needs one target"
                )
        if self.train_clients is not None and len(self.train_clients) != len(self.train_inputs):
            raise InvalidInput(
                f"Task.train_clients has {len(self.train_clients)} entries for "
                f"{len(self.train_inputs)} training samples: each sample needs one"
            )

    def with_source(self, source: str | Mapping[str, str]) -> "Task":
        """Return the task with a note on how it can be made again."""
        task = replace(self)
        object.__setattr__(task, "source", source)  # the dataclass is frozen
        return task

    def new_model(self, seed: int) -> nn.Module:
        """Return a model with the first weights of a seed; torch's own generator is unchanged."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self.make_model()
        if not isinstance(model, nn.Module):
            raise InvalidInput(
                f"Task.make_model returned a {type(model).__name__}: it must return an nn.Module"
            )
        return model


def _checked(field: str, values: Tensor) -> Tensor:
    """Return a tensor; refuse one without samples, and one with NaN or infinity."""
    if not isinstance(values, Tensor) or values.dim() == 0:
        kind = f"a {type(values).__name__}" if not isinstance(values, Tensor) else "one number"
        raise InvalidInput(f"{field} is {kind}: it must be a torch.Tensor with a row per sample")
    if values.numel() == 0:
        raise InvalidInput(f"{field} is empty: it needs at least one sample")
    if values.is_floating_point():
        extremes = torch.stack(torch.aminmax(values.detach()))  # NaN if any value is NaN
        if not torch.isfinite(extremes).all():
            finite = torch.isfinite(values.detach()).reshape(len(values), -1).all(dim=1)
            row = int(finite.logical_not().nonzero()[0])
            raise InvalidInput(f"{field}[{row}] has NaN or infinity: remove or replace such values")
    return values
