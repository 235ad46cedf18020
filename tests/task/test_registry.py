import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.func import functional_call

from dynamite_fl.errors import DatasetError, InvalidInput, UserCodeError
from dynamite_fl.task.partition import Partition
from dynamite_fl.task.registry import MODELS, load_task, make_task
from dynamite_fl.task.task import Task

OWN_TASK = """
import torch
from torch import nn
from dynamite_fl.task.task import Task

number = 3

def make_task():
    x = torch.rand(20, 3)
    y = x.sum(dim=1, keepdim=True)
    return Task(name="sum", model=lambda: nn.Linear(3, 1), loss=nn.MSELoss(),
                train_data=(x, y), test_data=(x, y))

def make_part(part, *, scale=1.0):
    x = torch.full((part, 3), scale)
    return Task(name=f"part {part}", model=lambda: nn.Linear(3, 1), loss=nn.MSELoss(),
                train_data=(x, x[:, :1]), test_data=(x, x[:, :1]))

def make_nothing():
    return None

def divide():
    return 1 / 0

def use_missing_data():
    from dynamite_fl.errors import DatasetError
    raise DatasetError("the files are missing")
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    return tmp_path


@pytest.mark.parametrize("model", MODELS)
def test_every_model_learns_digits(model: str) -> None:
    task = make_task(model, "digits")
    torch.manual_seed(0)
    net = task.new_model(seed=0)
    rate, steps = (0.05, 100) if model == "cnn" else (0.2, 150)
    for _ in range(steps):
        batch = task.train.batch(torch.randint(len(task.train), (60,)).numpy())
        loss = task.batch_loss(net, batch)
        assert loss.shape == ()
        gradients = torch.autograd.grad(loss, list(net.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(net.parameters(), gradients, strict=True):
                parameter.sub_(rate * (gradient + task.penalty * parameter))
    assert list(task.all_metrics) == ["accuracy"]
    outputs, targets = task.outputs_and_targets(net, task.test.batch(np.arange(len(task.test))))
    accuracy = task.all_metrics["accuracy"].compute([outputs], [targets])
    if model != "svm":
        assert accuracy == float((outputs.argmax(1) == targets).double().mean())
    assert accuracy > (0.7 if model == "svm" else 0.8)


@pytest.mark.parametrize("model", MODELS)
def test_tasks_can_be_pickled(model: str) -> None:
    task = make_task(model, "digits")
    copy = pickle.loads(pickle.dumps(task))  # noqa: S301  our own
    state = task.new_model(seed=3).state_dict()
    inputs, _ = task.test.batch(np.arange(2))
    outputs = functional_call(copy.new_model(seed=1), state, (inputs,))
    torch.testing.assert_close(outputs, task.new_model(seed=3)(inputs))


def test_only_the_svm_has_a_penalty() -> None:
    penalties = {model: make_task(model, "digits").penalty for model in MODELS}
    assert penalties == {"softmax": 0.0, "svm": 0.1, "perceptron": 0.0, "cnn": 0.0}


def test_targets_of_the_svm_stay_labels_for_partitions() -> None:
    assert set(make_task("svm", "digits").train_labels().tolist()) == set(range(10))


def test_synthetic_keeps_its_clients() -> None:
    task = make_task("softmax", "synthetic-0.5-0.5", seed=2, clients=4)
    assert task.name == "softmax on synthetic-0.5-0.5"
    assert task.train_clients is not None
    assert len(Partition.from_owners(task.train_clients)) == 4
    inputs, _ = task.train.batch(np.arange(3))
    assert task.new_model(seed=0)(inputs).shape == (3, 10)


def test_unknown_names_and_unfit_data_are_refused() -> None:
    with pytest.raises(ValueError, match="did you mean 'softmax'"):
        make_task("sofmax", "digits")
    with pytest.raises(ValueError, match="did you mean 'digits'"):
        make_task("softmax", "digit")
    with pytest.raises(ValueError, match="cnn needs images"):
        make_task("cnn", "synthetic", clients=2)
    with pytest.raises(ValueError, match="no model 'zzz': use one of softmax, svm"):
        make_task("zzz", "digits")


def test_the_source_of_a_task_says_how_to_make_it_again(here: Path) -> None:
    (here / "own_task_s.py").write_text(OWN_TASK)
    named = make_task("softmax", "digits")
    assert named.source == {"model": "softmax", "dataset": "digits"}
    assert make_task(**named.source).name == named.name
    assert load_task("own_task_s:make_task").source == {"use": "own_task_s:make_task"}
    part = load_task("own_task_s:make_part", arguments={"part": 3})
    assert part.source == {"use": "own_task_s:make_part", "part": 3}


def test_a_task_of_ones_own(here: Path) -> None:
    (here / "own_task_a.py").write_text(OWN_TASK)
    task = load_task("own_task_a:make_task")
    assert isinstance(task, Task)
    assert task.name == "sum"
    assert len(task.train) == len(task.test) == 20


def test_a_task_with_arguments(here: Path) -> None:
    (here / "own_task_p.py").write_text(OWN_TASK)
    task = load_task("own_task_p:make_part", arguments={"part": 4, "scale": 2.0})
    assert task.name == "part 4"
    inputs, _ = task.train.batch(np.arange(4))
    assert inputs.tolist() == [[2.0] * 3] * 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, r"cannot be called: missing a required argument: 'part'.* takes \(part, \*, scale=1"),
        ({"part": 1, "sclae": 2}, "unexpected keyword argument 'sclae'.*keys beside use"),
    ],
)
def test_arguments_that_a_function_does_not_take_are_refused(
    here: Path, arguments: dict[str, Any], message: str
) -> None:
    (here / "own_task_q.py").write_text(OWN_TASK)
    with pytest.raises(InvalidInput, match=message):
        load_task("own_task_q:make_part", arguments=arguments)


def test_a_module_is_found_in_a_given_folder_first(here: Path) -> None:
    (here / "own_task_f.py").write_text("def make_task(): return None")
    (here / "job").mkdir()
    (here / "job" / "own_task_f.py").write_text(OWN_TASK)
    assert load_task("own_task_f:make_task", [here / "job"]).name == "sum"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("own_task_b", "write it as module:name"),
        (":make_task", "write it as module:name"),
        ("own_task_b:", "write it as module:name"),
        ("own_task_z:make_task", "there is no module 'own_task_z' in .* or on Python's path"),
        ("own_task_b:mak_task", "has no 'mak_task': did you mean 'make_task'"),
        ("own_task_b:number", "is not a function that makes a Task"),
        ("own_task_b:make_nothing", "returned NoneType, not a Task"),
    ],
)
def test_a_wrong_specification_is_refused(here: Path, spec: str, message: str) -> None:
    (here / "own_task_b.py").write_text(OWN_TASK)
    with pytest.raises(InvalidInput, match=message):
        load_task(spec)


@pytest.mark.parametrize(
    ("module", "cause"),
    [
        ("import not_there_at_all", ModuleNotFoundError),
        ("def f(:", SyntaxError),
        ("raise KeyError('x')", KeyError),
        (OWN_TASK + "\nmake_task = divide", ZeroDivisionError),
    ],
)
def test_an_exception_in_the_users_code_is_the_cause(
    here: Path, module: str, cause: type[Exception]
) -> None:
    name = f"own_task_{cause.__name__.lower()}"
    (here / f"{name}.py").write_text(module)
    with pytest.raises(
        UserCodeError, match=f"task {name}:make_task.* {cause.__name__}: "
    ) as failure:
        load_task(f"{name}:make_task")
    assert isinstance(failure.value.__cause__, cause)


def test_our_own_errors_in_the_users_code_stay_as_they_are(here: Path) -> None:
    (here / "own_task_d.py").write_text(OWN_TASK)
    with pytest.raises(DatasetError, match="the files are missing"):
        load_task("own_task_d:use_missing_data")
