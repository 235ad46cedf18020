"""``dynamite new``: what it makes is really run."""

import json
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from safetensors.torch import load_file

from dynamite_fl.training.history import read_history
from tests._cli.commands import invoke
from tests._cli.machines import run_command

FILES = {".gitignore", "README.md", "job.toml", "task.py", "test_task.py"}
SHORT = ("--set", "limits.rounds=4")


@pytest.fixture
def _modules() -> Iterator[None]:
    """Forget the modules of a project, because the next one has others of the same names."""
    before, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if name == "task":
            del sys.modules[name]


def made(folder: Path, *options: str) -> Path:
    result = invoke("new", folder, *options)
    assert result.exit_code == 0, result.stderr
    return folder


def blocks(readme: Path, language: str = "") -> list[str]:
    """Return the blocks of code in a README."""
    found = re.findall(r"^```(\w*)\n(.*?)^```$", readme.read_text(), re.DOTALL | re.MULTILINE)
    return [text for kind, text in found if kind == language]


def commands(readme: Path) -> list[list[str]]:
    """Return the commands in the README's blocks, without ``dynamite``."""
    lines = [line for block in blocks(readme) for line in block.splitlines()]
    assert all(line.startswith("dynamite ") for line in lines)
    return [shlex.split(line)[1:] for line in lines]


@pytest.mark.usefixtures("_modules")
def test_every_command_of_a_simulated_project_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = made(tmp_path / "leaves")
    assert {path.name for path in project.iterdir()} == FILES | {"devices.csv"}
    assert "{{" not in "".join(path.read_text() for path in project.iterdir())
    assert (project / "README.md").read_text().startswith("# leaves\n")
    monkeypatch.chdir(project)
    words = commands(Path("README.md"))
    assert [each[0] for each in words] == ["run", "show", "report", "plan"]
    for each in words:
        result = invoke(*each)
        assert result.exit_code == 0, (each, result.stderr)
    history = read_history(Path("runs/first/history.jsonl"))
    assert history.final > 0.8
    (block,) = blocks(Path("README.md"), "python")
    monkeypatch.syspath_prepend(project)
    names: dict[str, object] = {}
    exec(block, names)  # noqa: S102  it is our own
    assert set(load_file("runs/first/model.safetensors")) == set(names["model"].state_dict())  # type: ignore[attr-defined]


@pytest.mark.usefixtures("_modules")
@pytest.mark.parametrize("kind", ["simulation", "machines"])
def test_the_test_of_a_project_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    project = made(tmp_path / "leaves", "--on", kind)
    monkeypatch.syspath_prepend(project)
    tests = runpy.run_path(str(project / "test_task.py"))
    tests["test_a_short_training_learns"]()
    tests["make_task"].__globals__["make_model"] = lambda: None
    with pytest.raises(Exception, match="model"):
        tests["test_a_short_training_learns"]()


def test_a_project_for_machines_has_their_commands(tmp_path: Path) -> None:
    project = made(tmp_path / "leaves", "--on", "machines")
    assert {path.name for path in project.iterdir()} == FILES
    words = commands(project / "README.md")
    assert [each[0] for each in words] == ["cluster", "report", "keys", "serve", "node", "node"]
    for each in words:  # options that do not exist would end with 2 and say so
        result = invoke(*each, "--help")
        assert result.exit_code == 0, (each, result.output)


@pytest.mark.slow
def test_a_project_for_machines_trains(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(made(tmp_path / "leaves", "--on", "machines"))
    for words in commands(Path("README.md"))[:2]:
        more = SHORT if words[0] == "cluster" else ()
        result = run_command(*words, *more)
        assert result.returncode == 0, result.stderr
    assert len(read_history(Path("runs/trial/history.jsonl"))) == 4


def test_nothing_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    for path in (tmp_path, tmp_path / "notes.txt"):
        result = invoke("new", path, "--json")
        assert result.exit_code == 2
        assert "exists already and is not empty" in json.loads(result.stdout)["error"]
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]
    (tmp_path / "empty").mkdir()
    assert set(json.loads(invoke("new", tmp_path / "empty", "--json").stdout)["files"]) > FILES
