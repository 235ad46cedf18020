"""What is learned: a model, a loss and data."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from dynamite_fl._leading_metric import LeadingMetric
from dynamite_fl._random import random_stream
from dynamite_fl._validate import check_whole
from dynamite_fl.errors import InvalidInput
from dynamite_fl.records import IntArray
from dynamite_fl.task import batch as batches
from dynamite_fl.task.batch import Batch
from dynamite_fl.task.dataset_samples import Collate
from dynamite_fl.task.keyed_random import keyed_random, seed_torch
from dynamite_fl.task.losses import cross_entropy
from dynamite_fl.task.metrics import LOSS, Metric, as_metrics
from dynamite_fl.task.samples import JoinedSamples, Samples, as_samples

TrainingStep = Callable[[nn.Module, Batch], Tensor]
Predict = Callable[[nn.Module, Batch], tuple[Any, Any]]


@dataclass(frozen=True, eq=False, kw_only=True)
class Task:
    """A learning task, made of any ``nn.Module``, loss and data.

    Data is a pair ``(inputs, targets)`` of tensors, arrays or memory maps, where inputs may be a
    tuple or a dict; a map-style dataset, such as torch's or Hugging Face's; or a list with one of
    these for each client. How a batch is split into inputs and targets is said in
    ``task/batch.py``: the last entry of a tuple holds the targets, and so does ``labels`` of a
    dict.

    Attributes:
        model: A function that returns a new model with its first weights. It is called under a
            fixed seed. Weights with ``requires_grad=False`` stay as they are and are not sent.
        loss: A function from outputs and targets to the mean loss of a batch, such as
            ``nn.CrossEntropyLoss()``, or to the loss of each sample, (b,).
        training_step: A function from model and batch to the batch's loss, instead of ``loss``.
        predict: A function from model and batch to outputs and targets, for metrics. Default: the
            model is called with the batch's inputs.
        train_data: The training data of all clients. None on a server, which needs none.
        test_data: The test data. None on a device, which needs none. A list has one entry for each
            client; each client's own metric is then recorded too.
        metrics: Metrics by name, or a list of names; the first leads. Default: ``accuracy`` if
            targets are labels of classes, otherwise only the loss.
        collate_fn: A function from a list of a dataset's samples to a batch. Default: torch's.
        labels: The label of each training sample, (D,). Only partitions by label need them, and
            only if ``train_data`` does not state them.
        train_clients: The client that each training sample comes from, (D,), where the data says
            so.
        least_batch: The least number of samples in a batch that a controller may choose. Default: 8
            if the model has batch normalisation, otherwise 1.
        penalty: The factor lambda of the term lambda/2 |w|^2 that is added to the loss of every
            batch.
        name: The name of the task in reports.
        source: How the task can be made again: a job's table ``task``. None if it was made by hand
            or changed since.

    Example:
        >>> inputs = torch.randn(60, 4)
        >>> task = Task(
        ...     model=lambda: nn.Linear(4, 3),
        ...     loss=nn.CrossEntropyLoss(),
        ...     train_data=(inputs, inputs.argmax(dim=1) % 3),
        ...     test_data=(inputs, inputs.argmax(dim=1) % 3),
        ... )
        >>> len(task.train), list(task.all_metrics)
        (60, ['accuracy'])
    """

    model: Callable[[], nn.Module]
    loss: Callable[[Any, Any], Tensor] | None = None
    training_step: TrainingStep | None = None
    predict: Predict | None = None
    train_data: Any = None
    test_data: Any = None
    metrics: Any = None
    collate_fn: Collate | None = None
    labels: ArrayLike | None = None
    train_clients: IntArray | None = None
    least_batch: int | None = None
    penalty: float = 0.0
    name: str = "own task"
    source: Mapping[str, Any] | None = field(init=False, default=None)
    _train: Samples | None = field(init=False, repr=False, default=None)
    _test: Samples | None = field(init=False, repr=False, default=None)
    all_metrics: Mapping[str, Metric] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.model, nn.Module):
            raise InvalidInput(
                "Task.model is a model: give a function that returns a new one, such as "
                "lambda: Net()"
            )
        for name in ("model", "loss", "training_step", "predict", "collate_fn"):
            self._check_function(name)
        if (self.loss is None) == (self.training_step is None):
            raise InvalidInput("Task needs either a loss or a training_step: give one of them")
        if isinstance(self.loss, nn.Module) and any(
            w.requires_grad for w in self.loss.parameters()
        ):
            raise InvalidInput(
                "Task.loss has weights of its own, which would not be trained: make them part of "
                "the model, and compute the loss in Task.training_step"
            )
        self._set("_train", self._samples("train_data"))
        self._set("_test", self._samples("test_data"))
        if self.has_own_data and self.train_clients is not None:
            raise InvalidInput(
                "Task.train_data is a list with one dataset for each client, which says where each "
                "sample comes from: leave Task.train_clients out"
            )
        if self.least_batch is not None:
            check_whole("Task.least_batch", self.least_batch)
        for name in ("train_clients", "labels"):
            values = getattr(self, name)
            if values is not None and self._train is not None and len(values) != len(self._train):
                raise InvalidInput(
                    f"Task.{name} has {len(values)} entries for {len(self._train)} training "
                    "samples: each sample needs one"
                )
        given = self.metrics if self.metrics is not None else self._default_metrics()
        self._set("all_metrics", as_metrics(given))

    @property
    def train(self) -> Samples:
        """The training samples.

        Raises:
            InvalidInput: The task has no training data.
        """
        if self._train is None:
            raise InvalidInput("the task has no training data: give Task.train_data")
        return self._train

    @property
    def test(self) -> Samples:
        """The test samples.

        Raises:
            InvalidInput: The task has no test data.
        """
        if self._test is None:
            raise InvalidInput("the task has no test data: give Task.test_data")
        return self._test

    @property
    def has_train_data(self) -> bool:
        """Whether the task has training data."""
        return self._train is not None

    @property
    def has_test_data(self) -> bool:
        """Whether the task has test data."""
        return self._test is not None

    @property
    def has_own_data(self) -> bool:
        """Whether the training data is a list with one dataset for each client."""
        return isinstance(self._train, JoinedSamples)

    @property
    def leading_metric(self) -> LeadingMetric:
        """The first metric; the loss if there is none."""
        for name, metric in self.all_metrics.items():
            return LeadingMetric(name, metric.higher_is_better)
        return LeadingMetric(LOSS, higher_is_better=False)

    @property
    def learns_classes(self) -> bool:
        """Whether the loss is a cross-entropy, or a metric is an accuracy."""
        is_accuracy = any(metric.per_sample is not None for metric in self.all_metrics.values())
        return is_accuracy or self._has_cross_entropy

    @property
    def _has_cross_entropy(self) -> bool:
        functions = (nn.functional.cross_entropy, cross_entropy)
        return isinstance(self.loss, nn.CrossEntropyLoss) or self.loss in functions

    @property
    def owners(self) -> IntArray | None:
        """The client that each training sample comes from, (D,); None if the data does not say."""
        return self._train.owners if isinstance(self._train, JoinedSamples) else self.train_clients

    def train_labels(self) -> NDArray[Any]:
        """Return the label, or the target, of each training sample, (D, ...)."""
        return np.asarray(self.labels) if self.labels is not None else self.train.labels()

    def with_source(self, source: Mapping[str, Any]) -> "Task":
        """Return the task with a note on how it can be made again."""
        task = replace(self)
        task._set("source", source)
        return task

    def new_model(self, seed: int) -> nn.Module:
        """Return a model with the first weights of a seed; shared generators are unchanged.

        Layers that are lazy get their shapes from the first sample.
        """
        with keyed_random(random_stream(seed, "model"), torch.device("cpu")):
            seed_torch(seed, torch.device("cpu"))
            model = self.model()
            if not isinstance(model, nn.Module):
                raise InvalidInput(
                    f"Task.model returned a {type(model).__name__}: it must return an nn.Module"
                )
            if any(is_lazy(tensor) for tensor in (*model.parameters(), *model.buffers())):
                self._make_weights(model)
        return model

    def outputs_and_targets(self, model: nn.Module, batch: Batch) -> tuple[Any, Any]:
        """Return the model's outputs for a batch, and the batch's targets."""
        return (self.predict or batches.predict)(model, batch)

    def batch_loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the mean loss of a batch, without the penalty."""
        if self.training_step is not None:
            return self.training_step(model, batch).mean()
        assert self.loss is not None  # __post_init__ has checked it  # noqa: S101
        return self.loss(*self.outputs_and_targets(model, batch)).mean()

    def _make_weights(self, model: nn.Module) -> None:
        """Put one sample through a model, so that lazy layers make their weights."""
        samples = self._train if self._train is not None else self.test
        batch = samples.batch(np.zeros(1, dtype=np.int64))
        model.eval()
        with torch.no_grad():
            if self.training_step is not None:
                self.training_step(model, batch)
            else:
                self.outputs_and_targets(model, batch)
        model.train()

    def _check_function(self, field_name: str) -> None:
        """Refuse what cannot be called, and the class of a loss instead of an object of it."""
        value = getattr(self, field_name)
        if isinstance(value, type) and field_name == "loss":
            raise InvalidInput(
                f"Task.loss is the class {value.__name__}: give an object of it, such as "
                f"{value.__name__}()"
            )
        if value is not None and not callable(value):
            raise InvalidInput(f"Task.{field_name} is a {type(value).__name__}: give a function")

    def _samples(self, field_name: str) -> Samples | None:
        data = getattr(self, field_name)
        return None if data is None else as_samples(f"Task.{field_name}", data, self.collate_fn)

    def _default_metrics(self) -> list[str]:
        """Return ``accuracy`` if the loss is that of classes and targets are labels."""
        data = self._test if self._test is not None else self._train
        if data is None or not self._has_cross_entropy:
            return []
        targets = _first_targets(data)
        is_label = isinstance(targets, Tensor) and targets.dim() == 1
        whole = is_label and not targets.is_floating_point() and targets.dtype != torch.bool
        return ["accuracy"] if whole else []

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)  # the dataclass is frozen


def _first_targets(samples: Samples) -> Any:
    """Return the targets of the first sample; None if its batch has none that we know."""
    try:
        with keyed_random(random_stream(0, "targets"), torch.device("cpu")):
            return batches.split_batch(samples.batch(np.zeros(1, dtype=np.int64)))[2]
    except InvalidInput:
        return None
