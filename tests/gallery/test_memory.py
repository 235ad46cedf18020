"""Data that is larger than the memory that a training may use."""

from pathlib import Path

import pytest

from tests.gallery.quick import FOLDER
from tests.processes import run_python

# The peak is that of this program alone: getrusage would count the process that started it too.
_TRAINING = """
import sys
from pathlib import Path
import dynamite_fl as fl

sys.path.insert(0, sys.argv[1])
from memory_mapped import make_task

task = make_task(sys.argv[2], samples=int(sys.argv[3]))
fl.train(
    task,
    devices=fl.Devices(samples_per_second=[1000, 2000, 4000]),
    limits=fl.Limits(deadline=60, budget=9, cost_per_sample=0.0001, cost_per_round=1, rounds=5),
    learning_rate=0.01,
    folder=Path(sys.argv[2]) / "run",
)
peak = next(line for line in Path("/proc/self/status").open() if line.startswith("VmHWM"))
print(1024 * int(peak.split()[1]))
"""


@pytest.mark.slow
def test_a_training_on_1_2_gb_needs_less_than_0_6_gb(tmp_path: Path) -> None:
    done = run_python(_TRAINING, FOLDER, tmp_path, "300000")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "inputs.npy").stat().st_size > 1.2e9
    assert int(done.stdout) < 0.6e9
