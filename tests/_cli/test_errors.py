"""What a person sees when something is wrong: one line, their own frames, or a traceback."""

import json
from pathlib import Path

import pytest

from dynamite_fl._cli.errors import INTERRUPTED, errors
from tests._cli.commands import dynamite, invoke

TASK = """
import torch
from torch import nn
import helper
from dynamite_fl import Task

def loss(outputs, targets):
    {loss}

def make_task():
    {make}
    x = torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
    y = (x.sum(1) > 0).long()
    return Task(
        name="mine",
        model=helper.model,
        loss=loss,
        train_data=(x, y),
        test_data=(x, y),
        metrics=["accuracy"],
    )
"""
GOOD_LOSS = 'return nn.functional.cross_entropy(outputs, targets, reduction="none")'
CONTROLLER = """
from dataclasses import dataclass
from dynamite_fl.controllers import FedAvg

@dataclass(frozen=True, kw_only=True)
class Three(FedAvg):
    local_steps: int = 3
"""
JOB = """
task = "mine:make_task"
controller = "mine_too:Three"
devices = { samples_per_second = [100, 200] }

[limits]
deadline = 60
budget = 30
cost_per_sample = 0.001
cost_per_round = 1
rounds = 3

[training]
learning_rate = 0.1
"""


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """A job with a task and a controller of the user's own beside it, not where the user is."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "helper.py").write_text(
        "from torch import nn\n\ndef model():\n    return nn.Linear(4, 2)\n"
    )
    (folder / "mine.py").write_text(TASK.format(loss=GOOD_LOSS, make="pass"))
    (folder / "mine_too.py").write_text(CONTROLLER)
    (folder / "job.toml").write_text(JOB)
    return folder / "job.toml"


def test_modules_beside_the_job_file_are_found(job: Path, tmp_path: Path) -> None:
    result = invoke("run", job, "--runs", tmp_path, "--name", "a")
    assert result.exit_code == 0, result.stderr
    last = json.loads(invoke("show", tmp_path / "a", "--json").stdout)
    assert last["local_steps"] == 3
    resumed = invoke("resume", tmp_path / "a")  # whose job file lies elsewhere
    assert resumed.exit_code == 0, resumed.stderr


def test_a_module_that_is_nowhere_is_one_line_that_says_where_it_was_sought(
    job: Path, tmp_path: Path
) -> None:
    result = invoke("run", job, "--runs", tmp_path, "--set", "controller=mine_to:Three")
    assert result.exit_code == 2
    assert "mine_to" in result.stderr
    assert str(job.parent) in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("loss", "make"),
    [("raise KeyError('no such label')", "pass"), (GOOD_LOSS, "raise KeyError('no such label')")],
)
def test_an_exception_in_the_users_code_shows_their_frames_only(
    job: Path, tmp_path: Path, loss: str, make: str
) -> None:
    (job.parent / "mine.py").write_text(TASK.format(loss=loss, make=make))
    result = invoke("run", job, "--runs", tmp_path, "--name", "a")
    assert result.exit_code in (1, 2)
    assert "mine.py" in result.stderr
    assert "no such label" in result.stderr
    assert "dynamite_fl/" not in result.stderr
    assert "bug" not in result.stderr


def test_a_broken_invariant_in_the_planner_keeps_its_traceback() -> None:
    broken = """
from dynamite_fl.plan import _allocate
def allocate(*_):
    raise ValueError("sizes exceed their ceilings")
_allocate.allocate = allocate
import dynamite_fl.plan._sizing
dynamite_fl.plan._sizing.allocate = allocate
"""
    result = dynamite("plan", before=broken)
    assert result.returncode == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert "ValueError: sizes exceed their ceilings" in result.stderr
    assert "This is a bug in dynamite" in result.stderr
    assert "issue tracker" in result.stderr


def test_errors_are_json_too(tmp_path: Path) -> None:
    result = invoke("run", "--json", "--runs", tmp_path, "--set", "limits.dedline=1")
    assert result.exit_code == 2
    assert "did you mean 'deadline'?" in json.loads(result.stdout)["error"]


def test_ctrl_c_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end, errors():
        raise KeyboardInterrupt
    assert end.value.code == INTERRUPTED
    assert capsys.readouterr() == ("", "Interrupted.\n")
