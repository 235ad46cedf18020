"""Tasks by name: a model and a dataset, or a user's own function that returns a task."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from dynamite_fl._load import load_object, user_code
from dynamite_fl._validate import check_name
from dynamite_fl.errors import InvalidInput, UserCodeError
from dynamite_fl.task import losses, metrics, models
from dynamite_fl.task.datasets.dataset import Dataset
from dynamite_fl.task.datasets.download import Progress
from dynamite_fl.task.datasets.load import load_dataset
from dynamite_fl.task.metrics import Metric, accuracy_of
from dynamite_fl.task.task import Task


@dataclass(frozen=True)
class _Model:
    """A model by name.

    Attributes:
        maker: A function from a dataset to a function that makes a new model for it.
        loss: The loss of each sample.
        accuracy: The metric of the model's outputs.
        penalty: The factor of the penalty on the weights, as in ``Task``.
    """

    maker: Callable[[Dataset], Callable[[], nn.Module]]
    loss: Callable[[Tensor, Tensor], Tensor] = losses.cross_entropy
    accuracy: Metric = metrics.accuracy
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
        raise InvalidInput(f"the model cnn needs images, but samples of {data.name} are rows")
    return partial(models.convolutional_network, shape, data.classes)


MODELS = {
    "softmax": _Model(_softmax),
    "svm": _Model(_svm, losses.squared_hinge, accuracy_of(losses.sign_is_parity), penalty=0.1),
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
    """Return the task of learning a dataset with a model, both by name.

    Args:
        model: softmax, svm (which tells even from odd labels), perceptron or cnn.
        dataset: The name of a dataset, as in ``load_dataset``.
        data_dir: The folder to search first for the files of the dataset.
        seed: The seed of the dataset ``synthetic``.
        clients: The number of clients of the dataset ``synthetic``.
        fetch: Whether to download missing files.
        progress: A function that is called during a download, as in ``load_dataset``.

    Example:
        >>> task = make_task("softmax", "digits")
        >>> task.name, len(task.train), len(task.test)
        ('softmax on digits', 1437, 360)
    """
    check_name("model", model, MODELS)  # before data is loaded
    data = load_dataset(
        dataset, data_dir, seed=seed, clients=clients, fetch=fetch, progress=progress
    )
    entry = MODELS[model]
    task = Task(
        name=f"{model} on {data.name}",
        model=entry.maker(data),
        loss=entry.loss,
        train_data=(data.train_inputs, data.train_labels),
        test_data=(data.test_inputs, data.test_labels),
        metrics={"accuracy": entry.accuracy},
        penalty=entry.penalty,
        train_clients=data.train_clients,
    )
    return task.with_source({"model": model, "dataset": dataset})


def load_task(
    spec: str, folders: Sequence[Path] = (), arguments: Mapping[str, Any] | None = None
) -> Task:
    """Return the task that a user's own function returns.

    Args:
        spec: The function, as ``module:function``.
        folders: The folders to search for the module before the current folder and Python's path.
        arguments: The arguments of the function: the other keys of a job's table ``task``.

    Raises:
        InvalidInput: The module or the function was not found, it does not take these arguments,
            or it returned no ``Task``.
        UserCodeError: The module or the function raised an exception.
    """
    arguments = dict(arguments or {})
    function = load_object(spec, "task", folders)
    if not callable(function):
        raise InvalidInput(f"task {spec} is not a function that makes a Task")
    _check_arguments(spec, function, arguments)
    try:
        with user_code(f"task {spec}"):
            task = function(**arguments)
    except UserCodeError as error:
        missing = error.__cause__
        if not isinstance(missing, FileNotFoundError) or missing.filename is None:
            raise
        raise InvalidInput(
            f"task {spec}: there is no file {missing.filename}, seen from {Path.cwd()}: change the "
            "function, or its arguments in the table task"
        ) from missing
    if not isinstance(task, Task):
        raise InvalidInput(f"task {spec} returned {type(task).__name__}, not a Task")
    return task.with_source({"use": spec, **arguments})


def _check_arguments(spec: str, function: Callable[..., Any], arguments: dict[str, Any]) -> None:
    """Refuse arguments that a function does not take, and say which ones it needs."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function that is not written in Python
        return
    try:
        signature.bind(**arguments)
    except TypeError as error:
        raise InvalidInput(
            f"task {spec} cannot be called: {error}. Its arguments are the keys beside use in the "
            f"table task, and it takes {signature}"
        ) from None


def _features(data: Dataset) -> int:
    return data.train_inputs[0].numel()
