import pickle
import sys
from pathlib import Path

import pytest
import torch
from torch.func import functional_call

from dynamite_fl.task.datasets import load_dataset
from dynamite_fl.task.partition import by_owner
from dynamite_fl.task.task import Task
from dynamite_fl.task.tasks import MODELS, learn, load_task, make_task

OWN_TASK = """
import torch
from torch import nn
from dynamite_fl.task.task import Task

number = 3

def make_task():
    x = torch.rand(20, 3)
    y = x.sum(dim=1, keepdim=True)
    return Task("sum", lambda: nn.Linear(3, 1), lambda o, t: (o - t).square().sum(1),
                lambda o, t: (o - t).abs()[:, 0] < 0.1, x, y, x, y)

def make_nothing():
    return None
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
        batch = torch.randint(len(task.train_targets), (60,))
        loss = task.loss(net(task.train_inputs[batch]), task.train_targets[batch])
        assert loss.shape == (60,)
        gradients = torch.autograd.grad(loss.mean(), list(net.parameters()))
        with torch.no_grad():
            for parameter, gradient in zip(net.parameters(), gradients, strict=True):
                parameter.sub_(rate * (gradient + task.penalty * parameter))
    correct = task.correct(net(task.test_inputs), task.test_targets)
    assert correct.dtype == torch.bool
    assert correct.float().mean() > (0.7 if model == "svm" else 0.8)


@pytest.mark.parametrize("model", MODELS)
def test_tasks_travel_to_other_processes(model: str) -> None:
    task = make_task(model, "digits")
    copy = pickle.loads(pickle.dumps(task))  # noqa: S301  our own
    state = task.new_model(seed=3).state_dict()
    outputs = functional_call(copy.new_model(seed=1), state, (task.test_inputs[:2],))
    torch.testing.assert_close(outputs, task.new_model(seed=3)(task.test_inputs[:2]))


def test_only_the_svm_has_a_penalty() -> None:
    penalties = {model: make_task(model, "digits").penalty for model in MODELS}
    assert penalties == {"softmax": 0.0, "svm": 0.1, "perceptron": 0.0, "cnn": 0.0}


def test_targets_stay_labels_so_that_partitions_can_use_them() -> None:
    assert set(make_task("svm", "digits").train_targets.tolist()) == set(range(10))


def test_synthetic_keeps_its_clients() -> None:
    task = make_task("softmax", "synthetic-0.5-0.5", seed=2, clients=4)
    assert task.name == "softmax on synthetic-0.5-0.5"
    assert task.train_clients is not None
    assert len(by_owner(task.train_clients)) == 4
    assert task.new_model(seed=0)(task.train_inputs[:3]).shape == (3, 10)


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="did you mean softmax"):
        make_task("sofmax", "digits")
    with pytest.raises(ValueError, match="did you mean digits"):
        make_task("softmax", "digit")
    with pytest.raises(ValueError, match="cnn needs images"):
        make_task("cnn", "synthetic", clients=2)
    with pytest.raises(ValueError, match="no model is called 'zzz': there are softmax, svm"):
        learn("zzz", load_dataset("digits"))


def test_a_task_of_ones_own(here: Path) -> None:
    (here / "own_task_a.py").write_text(OWN_TASK)
    task = load_task("own_task_a:make_task")
    assert isinstance(task, Task)
    assert task.loss(task.new_model(0)(task.test_inputs), task.test_targets).shape == (20,)


def test_what_is_wrong_with_ones_own_task(here: Path) -> None:
    (here / "own_task_b.py").write_text(OWN_TASK)
    (here / "own_task_c.py").write_text("import not_there_at_all")
    (here / "own_task_d.py").write_text("def f(:")
    for spec, message in {
        "own_task_b": "write it as module:function",
        ":make_task": "write it as module:function",
        "own_task_z:make_task": "own_task_z cannot be imported .*No module named 'own_task_z'",
        "own_task_c:make_task": "own_task_c cannot be imported .*'not_there_at_all'",
        "own_task_d:make_task": "own_task_d cannot be imported .*SyntaxError",
        "own_task_b:mak_task": "did you mean make_task",
        "own_task_b:number": "no function is called 'number'",
        "own_task_b:make_nothing": "returned NoneType, not a Task",
    }.items():
        with pytest.raises(ValueError, match=message):
            load_task(spec)
