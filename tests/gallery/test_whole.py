"""Every example as it is: run as a program, and on a cluster of two nodes."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from dynamite_fl.job.read import to_toml
from tests._cli.machines import run_command
from tests.gallery.checks import assert_same_weights
from tests.gallery.nodes import NODES
from tests.gallery.quick import EXAMPLES, FOLDER, Example
from tests.processes import HANG_SECONDS

pytestmark = pytest.mark.slow
every_example = pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)

# The leading metric of each example, and what it is after training: between chance and the best.
REACHED = {
    "adamw_clipping": ("accuracy", 0.9, 1.0),
    "imbalanced": ("f1", 0.4, 1.0),
    "lora_transformer": ("accuracy", 0.8, 1.0),
    "memory_mapped": ("accuracy", 0.6, 1.0),
    "resnet_cifar10": ("accuracy", 0.2, 1.0),
    "tabular_regression": ("rmse", 0.0, 0.85),
    "text_lengths": ("accuracy", 0.85, 1.0),
}


def needs_cifar(example: Example) -> None:
    data = os.environ.get("DYNAMITE_DATA")
    if example.name == "resnet_cifar10" and not (data and any(Path(data).rglob("test_batch*"))):
        pytest.skip("no CIFAR-10: set DYNAMITE_DATA")


@every_example
def test_a_program_trains_and_prints_its_result(example: Example, tmp_path: Path) -> None:
    needs_cifar(example)
    done = subprocess.run(
        [sys.executable, FOLDER / f"{example.name}.py"],
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    printed = re.match(r"<Result: (\w+) ([0-9.]+)(%?),", done.stdout)
    assert printed, done.stdout
    name, least, most = REACHED[example.name]
    assert printed[1] == name
    assert least < float(printed[2]) / (100 if printed[3] else 1) <= most, done.stdout


@every_example
def test_a_cluster_computes_what_a_simulation_computes(example: Example, tmp_path: Path) -> None:
    """All data of the example is used, and the commands are those of users."""
    needs_cifar(example)
    arguments: dict[str, Any] = {"clients": NODES} if example.clients else {}
    if example.data:
        arguments[example.data] = str(tmp_path / "data")
    tables = {
        "averaging": "mean",  # nodes have another default
        "task": {"use": f"{example.name}:make_task", **arguments},
        "devices": {"samples_per_second": [100.0, 200.0]},
        "limits": {
            "deadline": 1e6,
            "budget": 1e6,
            "cost_per_sample": 0.001,
            "cost_per_round": 1.0,
            "rounds": 4,
        },
        "controller": {"name": "fedavg", "local_steps": 4, "batch_size": 16},
        "optimizer": example.optimizer,
        "training": {"learning_rate": example.learning_rate, "evaluate_every": 4},
    }
    for module in FOLDER.glob("*.py"):
        (tmp_path / module.name).write_text(module.read_text())
    (tmp_path / "job.toml").write_text(to_toml(tables))
    for command in ("run", "cluster"):
        result = run_command(command, tmp_path / "job.toml", "--name", command, "--runs", tmp_path)
        assert result.returncode == 0, result.stderr
    simulated, on_nodes = (
        load_file(tmp_path / name / "model.safetensors") for name in ("run", "cluster")
    )
    assert_same_weights(on_nodes, simulated)
