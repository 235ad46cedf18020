"""Tasks by name: a model and a dataset, or what a user's own function returns."""

import importlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from torch import Tensor, nn

from dynamite_fl.task import losses, models
from dynamite_fl.task.dataset import Dataset
from dynamite_fl.task.datasets import load_dataset
from dynamite_fl.task.download import Progress
from dynamite_fl.task.names import unknown
from dynamite_fl.task.task import Task


@dataclass(frozen=True)
class _Model:
    """How a model is made for some data, and what it is judged by."""

    maker: Callable[[Dataset], Callable[[], nn.Module]]
    loss: Callable[[Tensor, Tensor], Tensor] = losses.cross_entropy
    correct: Callable[[Tensor, Tensor], Tensor] = losses.largest_is_target
    penalty: float = 0.0


def _softmax(data: Dataset) -> Callable[[], nn.Module]:
    return partial(models.softmax_regression, _features(data), data.classes)


def _svm(data: Dataset) -> Callable[[], nn.Module]:
    return partial(models.support_vector_machine, _features(data))


def _perceptron(data: Dataset) -> Callable[[], nn.Module]:
    return partial(models.perceptron, _features(data), data.classes)


def _cnn(data: Dataset) -> Callable[[], nn.Module]:
    shape = tuple(data.train_inputs.shape[1:])
    if len(shape) != 3:
        raise ValueError(f"the model cnn needs images, but samples of {data.name} are rows")
    return partial(models.convolutional_network, shape, data.classes)


MODELS = {
    "softmax": _Model(_softmax),
    "svm": _Model(_svm, losses.squared_hinge, losses.sign_is_parity, penalty=0.1),
    "perceptron": _Model(_perceptron),
    "cnn": _Model(_cnn),
}


def make_task(
    model: str,
    dataset: str,
    data_dir: Path | str | None = None,
    seed: int = 0,
    *,
    clients: int = 30,
    fetch: bool = True,
    progress: Progress | None = None,
) -> Task:
    """Learn a dataset by a model.

    Args:
        model: softmax, svm (even against odd labels), perceptron or cnn.
        dataset: As ``load_dataset`` knows it; so are the other arguments.
        data_dir: Where to look for files first.
        seed: Of data that are drawn.
        clients: For ``synthetic``, how many clients to draw.
        fetch: Whether to download what is missing.
        progress: Called during a download.

    Example:
        >>> task = make_task("softmax", "digits")
        >>> task.name, task.new_model(seed=0)(task.test_inputs).shape
        ('softmax on digits', torch.Size([360, 10]))
    """
    _kind(model)  # before data are loaded
    data = load_dataset(
        dataset, data_dir, seed=seed, clients=clients, fetch=fetch, progress=progress
    )
    return learn(model, data)


def learn(model: str, data: Dataset) -> Task:
    """As ``make_task``, for data at hand."""
    kind = _kind(model)
    return Task(
        name=f"{model} on {data.name}",
        make_model=kind.maker(data),
        loss=kind.loss,
        correct=kind.correct,
        train_inputs=data.train_inputs,
        train_targets=data.train_labels,
        test_inputs=data.test_inputs,
        test_targets=data.test_labels,
        penalty=kind.penalty,
        train_clients=data.train_clients,
    )


def load_task(spec: str) -> Task:
    """The task that a user's function returns, named as ``module:function``.

    The module may be installed or a file in the current folder, which is put first on
    Python's path, as ``python -m`` does.

    Raises:
        ValueError: The module, the function or its result is not what it should be. Errors of
            the function itself are passed on.
    """
    module_name, colon, function_name = spec.partition(":")
    if not (module_name and colon and function_name):
        raise ValueError(f"task is {spec!r}: write it as module:function")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:  # a module may do anything when imported
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"task {spec}: {module_name} cannot be imported ({reason})") from error
    function = getattr(module, function_name, None)
    if not callable(function):
        names = [name for name, value in vars(module).items() if callable(value)]
        raise ValueError(f"task {spec}: {unknown('function', function_name, names)}")
    task = function()
    if not isinstance(task, Task):
        raise ValueError(f"task {spec} returned {type(task).__name__}, not a Task")
    return task


def _kind(model: str) -> _Model:
    if model not in MODELS:
        raise ValueError(unknown("model", model, MODELS))
    return MODELS[model]


def _features(data: Dataset) -> int:
    return data.train_inputs[0].numel()
