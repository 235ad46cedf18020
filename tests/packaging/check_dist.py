"""Try the wheel and the source archive in clean environments, which is what ``make dist`` does.

The wheel is installed without extras: planning works, and everything else says what to install. The
source archive is installed with the extra ``train``: a short training runs. Both installs use the
pins of ``constraints.txt``.

Run it as ``python tests/packaging/check_dist.py FOLDER`` with the folder of both files.
"""

import json
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
IN_THE_WHEEL = ["py.typed", "job/planning.toml", "job/training.toml", "report/style.css"]
IN_THE_WHEEL += ["report/live.html", "templates/simulation/task.py.template"]
IN_THE_WHEEL += ["templates/machines/.gitignore.template"]
IN_THE_ARCHIVE = ["README.md", "LICENSE", "CHANGELOG.md", "Makefile", "constraints.txt"]
IN_THE_ARCHIVE += ["tests/conftest.py", "docs/paper.md", "examples/README.md"]
SHORT = ["--set", "limits.rounds=3", "--set", "task.model=softmax", "--json"]
PLAN = """
import dynamite_fl as fl
fleet = fl.Fleet(samples=[90, 90], gradient_variance=1, samples_per_second=[9, 20], comm_seconds=1)
limits = fl.Limits(deadline=100, budget=50, cost_per_sample=0.01, cost_per_round=1)
plan = fl.fixed_plan(fleet, limits)
assert plan.rounds > 1, plan
try:
    fl.train
except fl.MissingExtra as error:
    print(error)
"""


class Environment:
    """A virtual environment that holds one file of ours and what that file needs."""

    def __init__(self, folder: Path, requirement: str) -> None:
        venv.create(folder, with_pip=True)
        self.bin, self.folder = folder / "bin", folder
        pip = [str(self.bin / "python"), "-m", "pip", "install", "--quiet", "--constraint"]
        subprocess.run([*pip, str(ROOT / "constraints.txt"), requirement], check=True)

    def run(self, *words: str, code: int = 0) -> str:
        """Run a program of the environment, check its exit code, and return its output."""
        command = [str(self.bin / words[0]), *words[1:]]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        assert done.returncode == code, f"{' '.join(words)} ended with {done.returncode}:\n{said}"
        return done.stdout if code == 0 else said

    def installed(self) -> set[str]:
        """Return the names of the installed distributions."""
        listed = self.run("python", "-m", "pip", "list", "--format", "json")
        return {package["name"].lower() for package in json.loads(listed)}


def check_contents(wheel: Path, archive: Path) -> None:
    """Check that nothing is missing in either file."""
    names = zipfile.ZipFile(wheel).namelist()
    for name in IN_THE_WHEEL:
        assert f"dynamite_fl/{name}" in names, f"{wheel.name} lacks {name}"
    assert not [name for name in names if name.startswith("tests/")]
    with tarfile.open(archive) as opened:
        members = {name.partition("/")[2] for name in opened.getnames()}
    for name in IN_THE_ARCHIVE:
        assert name in members, f"{archive.name} lacks {name}"


def check_planning(environment: Environment) -> None:
    """Plan without extras, and look at what the rest says."""
    heavy = {"torch", "flwr", "scikit-learn", "safetensors", "plotly", "matplotlib"}
    assert not heavy & environment.installed()
    assert json.loads(environment.run("dynamite", "plan", "--json"))["local_steps"] >= 1
    assert "dynamite-fl[train]" in environment.run("python", "-c", PLAN)
    assert "dynamite-fl[train]" in environment.run("dynamite", "run", code=2)
    assert "dynamite-fl[flower]" in environment.run("dynamite", "serve", "--name", "a", code=2)


def check_training(environment: Environment) -> None:
    """Run a short training and a new project, and look at what they leave."""
    assert json.loads(environment.run("dynamite", "run", "--name", "a", *SHORT))["round"] == 3
    assert "3, ended by the rounds" in environment.run("dynamite", "show", "runs/a")
    environment.run("dynamite", "new", "leaves")
    environment.run("dynamite", "run", "leaves/job.toml", "--name", "b")
    assert "ended by" in environment.run("dynamite", "show", "runs/b")
    assert "dynamite-fl[report]" in environment.run("dynamite", "report", "runs/a", code=2)


def main(folder: Path) -> None:
    """Check the only wheel and the only source archive in a folder."""
    (wheel,), (archive,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    check_contents(wheel, archive)
    with tempfile.TemporaryDirectory() as scratch:
        check_planning(Environment(Path(scratch) / "plan", str(wheel.resolve())))
        print(f"{wheel.name}: planning works without extras")  # noqa: T201
        check_training(Environment(Path(scratch) / "train", f"{archive.resolve()}[train]"))
        print(f"{archive.name}: training works with the extra train")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
