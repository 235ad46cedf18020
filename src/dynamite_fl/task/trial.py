"""A trial of a task before any training, so that a mistake in it shows at once."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn

from dynamite_fl._random import random_stream
from dynamite_fl.errors import DynamiteError, InvalidInput
from dynamite_fl.task.batch import (
    Batch,
    batch_length,
    map_tensors,
    predict,
    with_targets,
)
from dynamite_fl.task.broadcasting import compares_all_pairs
from dynamite_fl.task.keyed_random import keyed_random
from dynamite_fl.task.metrics import Metric, binary_accuracy
from dynamite_fl.task.mistakes import explained, shapes
from dynamite_fl.task.output_kind import check_output_kind
from dynamite_fl.task.task import Task, TrainingStep
from dynamite_fl.task.trial_samples import all_batches, trial_batches
from dynamite_fl.task.unseen_labels import warn_of_unseen_labels

_NOTABLE = 0.02  # the share of constants in what is sent that is worth a warning
_SAME = 1e-3  # the relative difference below which two losses count as the same


def try_task(task: Task, *, needs_test_data: bool = True, needs_train_data: bool = True) -> None:
    """Put batches of two and three samples through the model, the loss and the metrics.

    If targets are numbers in a tensor, the smallest and the largest one are among them.

    Args:
        task: The task.
        needs_test_data: Whether the task must have test data, as it must for an evaluation.
        needs_train_data: Whether the task must have training data.

    Raises:
        InvalidInput: Data is missing, the loss or a metric does not return a number, or a mistake
            was made that is known; the message says what to change.
        UserCodeError: The data, the model, the loss or a metric raised another exception.
    """
    with explained("Task.model", "it is called without arguments, such as lambda: Net(10)"):
        model = task.new_model(seed=0)
        _refuse_shared(model, task.new_model(seed=0))
    with keyed_random(random_stream(0, "trial"), torch.device("cpu")):
        if needs_train_data or task.has_train_data:
            buffers = {name: buffer.clone() for name, buffer in _sent_buffers(model).items()}
            for batch in trial_batches(task.train, "train_data"):
                _try_training(task, model, batch)
            _warn_of_constants(model, buffers)
        if needs_test_data or task.has_test_data:
            _try_evaluation(task, model, trial_batches(task.test, "test_data"))
    if needs_train_data and needs_test_data:  # one machine of several may have some classes only
        warn_of_unseen_labels(task)


def _refuse_shared(model: nn.Module, other: nn.Module) -> None:
    """Refuse two new models if one has memory of what is trained in the other."""
    if model is other:
        raise InvalidInput(
            "Task.model returns the same model each time, so that one training would change "
            "it for the next: let it make a new one, or return copy.deepcopy(model)"
        )
    places = {tensor.data_ptr() for tensor in _sent_tensors(other).values()} - {0}
    for name, tensor in _sent_tensors(model).items():
        if tensor.data_ptr() in places:
            raise InvalidInput(
                f"the models that Task.model returns share the memory of {name}, so that one "
                "training would change it for the next: copy what is made outside of the function, "
                "by copy.deepcopy(layer) or tensor.clone()"
            )


def _sent_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Return the trained weights and the buffers that are sent."""
    trained = {name: w for name, w in model.named_parameters() if w.requires_grad}
    return {**trained, **_sent_buffers(model)}


def _try_training(task: Task, model: nn.Module, batch: Batch) -> None:
    """Compute the loss of a batch and its gradient."""
    loss = _try_loss(task, model.train(), batch)
    if not loss.requires_grad:
        raise InvalidInput(
            "the loss does not depend on a weight with requires_grad=True: nothing can be learned "
            "(is the model detached, or are all weights frozen?)"
        )
    with explained("the gradient of the loss"):
        loss.mean().backward()  # type: ignore[no-untyped-call]


def _sent_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Return the buffers of floating-point numbers that a state has, which are sent."""
    state = model.state_dict()
    buffers = model.named_buffers()
    return {name: b for name, b in buffers if name in state and b.is_floating_point()}


def _warn_of_constants(model: nn.Module, before: Mapping[str, Tensor]) -> None:
    """Warn of large buffers that training steps have not changed, but that every round sends."""
    after = _sent_buffers(model)
    same = [name for name in before if name in after and torch.equal(before[name], after[name])]
    sizes = {name: before[name].numel() for name in same if bool(before[name].isfinite().all())}
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    sent = trained + sum(buffer.numel() for buffer in after.values())
    if sum(sizes.values()) > _NOTABLE * sent:
        largest = max(sizes, key=sizes.__getitem__)
        warnings.warn(
            f"training does not seem to change {sum(sizes.values()) / sent:.0%} of what each round "
            f"sends, such as the model's buffer {largest}: register constant buffers with "
            "persistent=False, so that they are not sent",
            stacklevel=2,
        )


def _try_evaluation(task: Task, model: nn.Module, batches: Sequence[Batch]) -> None:
    """Compute the loss and the metrics of batches."""
    model.eval()
    with torch.no_grad():
        for batch in batches:
            loss = _try_loss(task, model, batch)
            _check_mean(task, model, batch, float(loss.mean()))
        if task.all_metrics:
            results = [_predict(task, model, batch) for batch in batches]
            for name, metric in task.all_metrics.items():
                _try_metric(task, model, name, metric, results)


def _try_metric(
    task: Task, model: nn.Module, name: str, metric: Metric, results: Sequence[tuple[Any, Any]]
) -> None:
    """Compute a metric of a few samples, or of all test data if it needs more samples.

    Args:
        task: The task.
        model: The model, in evaluation mode.
        name: The name of the metric.
        metric: The metric.
        results: The outputs and the targets of a few samples, by batch.
    """
    if metric is binary_accuracy and _gives_probabilities(task, model):
        raise InvalidInput(
            "metric binary_accuracy takes positive outputs for the second class, but the model's "
            "outputs are probabilities: leave the sigmoid out and use nn.BCEWithLogitsLoss, or "
            "give lambda outputs, targets: ((outputs > 0.5) == (targets > 0.5)).float().mean()"
        )
    try:
        _compute(name, metric, results)
    except DynamiteError:
        _compute(name, metric, [_predict(task, model, batch) for batch in all_batches(task.test)])
    outputs, targets = results[-1]
    _refuse_all_pairs(f"metric {name}", lambda o, t: metric.compute([o], [t]), outputs, targets)


def _gives_probabilities(task: Task, model: nn.Module) -> bool:
    """Return whether the loss takes probabilities, or the model's last layer is a sigmoid."""
    takes = isinstance(task.loss, nn.BCELoss) or task.loss is nn.functional.binary_cross_entropy
    return takes or isinstance(list(model.modules())[-1], nn.Sigmoid)


def _compute(name: str, metric: Metric, results: Sequence[tuple[Any, Any]]) -> None:
    outputs, targets = [pair[0] for pair in results], [pair[1] for pair in results]
    action = f"metric {name}, on outputs of {shapes(outputs[0])},"
    with explained(action, "it is called with outputs and targets"):
        try:
            metric.compute(outputs, targets)
        except InvalidInput as error:
            raise InvalidInput(f"metric {name}: {error}") from None


def _try_loss(task: Task, model: nn.Module, batch: Batch) -> Tensor:
    """Return the loss of a batch; refuse what is not one number, nor one for each sample."""
    if task.training_step is not None:
        field, samples = "Task.training_step", batch_length(batch)
        with explained(field, "it is called with the model and a batch"):
            loss = task.training_step(model, batch)
        _refuse_all_pairs(field, *_step_as_loss(task.training_step, model, batch))
    else:
        field = "Task.loss"
        outputs, targets = _predict(task, model, batch)
        samples = batch_length((targets, batch))  # packed sequences count steps, targets samples
        loss_of: Any = task.loss
        action = f"Task.loss, on outputs of {shapes(outputs)}, targets of {shapes(targets)},"
        with explained(action, "it is called with outputs and targets"):
            loss = loss_of(outputs, targets)
        check_output_kind(task.loss, outputs)
        _refuse_all_pairs(field, loss_of, outputs, targets)
    _check_loss(field, loss, samples)
    return loss


def _step_as_loss(
    step: TrainingStep, model: nn.Module, batch: Batch
) -> tuple[Callable[[Any, Any], Tensor], Any, Any]:
    """Return a training step as a function of outputs and targets, with both of a batch.

    Outputs and targets are None if the batch does not say which of its parts are the targets, or
    if the step does not call the model with the others.
    """

    def loss_of(outputs: Any, targets: Any) -> Tensor:
        hook = model.register_forward_hook(lambda *_: outputs)
        try:
            return step(model, with_targets(batch, targets))
        finally:
            hook.remove()

    with suppress(Exception), torch.no_grad():
        return loss_of, *predict(model, batch)
    return loss_of, None, None


def _refuse_all_pairs(
    name: str, function: Callable[[Any, Any], Any], outputs: Any, targets: Any
) -> None:
    """Refuse a function that compares each output with each target because of their shapes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if compares_all_pairs(function, outputs, targets):
            raise InvalidInput(
                f"{name} compares each output with each target, because outputs have the shape "
                f"{tuple(outputs.shape)} and targets {tuple(targets.shape)}: give targets the "
                "shape of the outputs"
            )


def _predict(task: Task, model: nn.Module, batch: Batch) -> tuple[Any, Any]:
    if task.predict is not None:
        with explained("Task.predict", "it is called with the model and a batch"):
            pair = task.predict(model, batch)
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InvalidInput(
                f"Task.predict returned a {type(pair).__name__}: it must return a pair of outputs "
                "and targets"
            )
        return pair
    how = "it is called with the inputs of a batch, a dict by its keys; or give Task.predict"
    with explained(f"the model, on a batch of {shapes(batch)},", how):
        return task.outputs_and_targets(model, batch)


def _check_loss(field: str, loss: object, samples: int) -> None:
    """Refuse a loss that is not one number, nor one for each sample."""
    advice = "return the mean loss of the batch, as nn.CrossEntropyLoss() does"
    if not isinstance(loss, Tensor):
        raise InvalidInput(f"{field} returned a {type(loss).__name__}, not a tensor: {advice}")
    if tuple(loss.shape) not in ((), (1,), (samples,)) or not loss.is_floating_point():
        shape = f"{loss.dtype} of the shape {tuple(loss.shape)} for {samples} samples"
        raise InvalidInput(f"{field} returned {shape}: {advice}")
    if not bool(torch.isfinite(loss.detach()).all()):
        raise InvalidInput(
            f"{field} is {float(loss.detach().mean())} for the first samples: look at the data and "
            "the loss"
        )


def _check_mean(task: Task, model: nn.Module, batch: Batch, loss: float) -> None:
    """Refuse a loss that doubles if every sample is there twice, because it is a sum.

    Args:
        task: The task.
        model: The model, in evaluation mode.
        batch: A batch.
        loss: The loss of this batch.
    """
    samples = batch_length(batch)

    def twice(tensor: Tensor) -> Tensor:
        has_rows = tensor.dim() > 0 and len(tensor) == samples
        return torch.cat([tensor, tensor]) if has_rows else tensor

    doubled = math.nan
    with warnings.catch_warnings(), suppress(Exception):  # not every batch can be doubled
        warnings.simplefilter("ignore")
        doubled = float(task.batch_loss(model, map_tensors(twice, batch)))
    if abs(doubled - 2 * loss) < _SAME * abs(loss):
        field = "Task.loss" if task.training_step is None else "Task.training_step"
        raise InvalidInput(
            f"{field} returns the sum over a batch, not the mean, so that steps would grow with "
            'the batch size: leave reduction="sum" out, or divide by the number of samples'
        )
