"""The layer rules of the design: which package may import which, and what starts without what."""

import ast
import json
import sys
from functools import cache
from importlib.resources import files
from pathlib import Path

import pytest

import dynamite_fl
from tests._cli.commands import invoke
from tests.processes import run_python

SOURCE = Path(dynamite_fl.__file__).parent

# What every package above these modules may use. Among themselves they have rules of their own.
BASE = {"errors", "records", "reports", "_validate", "_atomic", "_random", "_csv", "_format"}
BASE |= {"_allocator", "_json", "_leading_metric", "_regular", "_traceback", "_extras"}
# What commands and ``train()`` show of a training. Rich is at home in it and in ``_cli``.
VIEW = "_progress"
# For every module or package at the top: what else of ours it may import. A longer name, such as
# ``training.history``, allows only that module.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "_allocator": set(),
    "_atomic": {"errors"},
    "_format": set(),
    "_json": set(),
    "_leading_metric": set(),
    "_regular": set(),
    "_traceback": set(),
    "_extras": {"errors"},
    "_validate": {"errors"},
    "_csv": {"errors", "_regular", "_validate"},
    "_load": {"errors", "_validate"},
    "_random": {"errors", "records"},
    "records": {"errors", "_validate"},
    "reports": {"records"},
    "_notebook": set(),
    VIEW: {"_notebook", "training.history", "training.round_record"},
    "plan": set(),
    "control": {"plan", "_load"},
    "stream": set(),
    "task": {"_load"},
    "metrics": {"task.metrics"},
    "partitions": {"task"},
    "client": {"_load", "task", "stream"},
    "training": {"_load", "control", "plan", "client", "task", "stream", "tracking"},
    "tracking": {"training.history", "training.round_record"},
    "simulation": {"_load", "training", "control", "plan", "client", "task", "stream"},
    "job": {"simulation", "training", "tracking", "control", "plan", "client", "task", "stream"}
    | {"_load", "partitions"},
    "flower": {"job", "training", "tracking", "control", "plan", "client", "task", "stream"},
    "compare": {"job", "training", "tracking", "control", "plan", "task", "stream"},
    "report": {"training.history", "training.round_record", "training.run_folder"}
    | {"compare.summary", "compare.hindsight", "compare.names", "compare.tuning"}
    | {"job.read", "job.training", "job.devices", "job.runs", "control", "plan", "stream"},
    "experiments": {"compare", "job", "training", "tracking", "control", "plan", "task", "stream"},
    "controllers": {"control"},
    "server": {"training"},
    "api": {
        VIEW,
        "client",
        "job",
        "training",
        "tracking",
        "control",
        "simulation",
        "task",
        "stream",
        "partitions",
    },
    "testing": {"training", "simulation", "control", "plan", "task", "stream", "partitions"},
    "_cli": {"job", "training", "tracking", "simulation", "flower", "compare", "report"}
    | {"experiments", "control", "plan", "task", "stream", "api", VIEW},
}
TORCH = {
    "task",
    "metrics",
    "partitions",
    "client",
    "training",
    "simulation",
    "job",
    "flower",
    "compare",
}
TORCH |= {"experiments", "api", "testing", "_cli", "tracking"}
FLOWER = {"flwr", "ray", "uvicorn", "fastapi", "starlette", "httpx", "cryptography"}
# Libraries that only one file may import.
HOMES = {
    "plotly": "report/page.py",
    "matplotlib": "experiments/figure.py",
    "torch.utils.tensorboard": "tracking/tensorboard.py",
    "mlflow": "tracking/mlflow.py",
    "opacus": "training/accountant.py",
}
HEAVY = {"torch", "flwr", "matplotlib", "plotly", "tensorboard", "mlflow", "opacus"}


@cache
def imports(file: Path) -> set[str]:
    """Return all modules that a file imports, wherever in it; names after ``import`` included."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def files_of(package: str) -> list[Path]:
    folder = SOURCE / package
    return list(folder.rglob("*.py")) if folder.is_dir() else [SOURCE / f"{package}.py"]


def test_every_package_has_a_rule() -> None:
    there = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py"}
    there |= {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    assert there - {"__init__"} == MAY_IMPORT.keys()


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_only_what_they_may(package: str) -> None:
    is_base = package in BASE | {"_load"}
    allowed = MAY_IMPORT[package] | {package} | (set() if is_base else BASE)
    for file in files_of(package):
        for module in imports(file):
            top, _, rest = module.partition(".")
            if top != "dynamite_fl" or not rest:
                continue
            names = rest.split(".")
            prefixes = {".".join(names[:count]) for count in range(1, len(names) + 1)}
            assert prefixes & allowed or names[0] in ("__version__",), f"{file}: {module}"


@pytest.mark.parametrize("package", sorted(MAY_IMPORT.keys() - TORCH))
def test_packages_without_pytorch(package: str) -> None:
    for file in files_of(package):
        for module in imports(file):
            top = module.partition(".")[0]
            known = {"numpy", "dynamite_fl", *sys.stdlib_module_names}
            known |= {"report": {"plotly"}, VIEW: {"rich"}, "_notebook": {"rich"}}.get(
                package, set()
            )
            assert top in known, f"{file} imports {module}"


def test_each_special_library_has_one_home() -> None:
    for file in SOURCE.rglob("*.py"):
        for module in imports(file):
            for library, home in HOMES.items():
                if module == library or module.startswith(f"{library}."):
                    assert file == SOURCE / home, f"{file} imports {module}"


def test_only_what_is_for_real_machines_imports_flower() -> None:
    """So that everything else works without the extra."""
    for file in SOURCE.rglob("*.py"):
        if file.is_relative_to(SOURCE / "flower") or file == SOURCE / "simulation" / "ray.py":
            continue
        for module in imports(file):
            assert module.split(".")[0] not in FLOWER, f"{file} imports {module}"


def test_nobody_imports_the_command_line() -> None:
    for file in SOURCE.rglob("*.py"):
        if not file.is_relative_to(SOURCE / "_cli"):
            assert not any(module.startswith("dynamite_fl._cli") for module in imports(file)), file


# What the modules of a process show once a command has run in it. The order is from little to
# much, so that one process is enough.
STARTS = """
import sys
from dynamite_fl._cli.all_commands import app
for words, without in {commands!r}:
    try:
        app(words)
    except SystemExit as end:
        assert not end.code, (words, end.code)
    loaded = without & set(sys.modules)
    assert not loaded, (words, loaded)
"""
TINY = ["--set", "limits.rounds=2", "--set", "task={model='softmax', dataset='synthetic'}"]


def test_commands_start_without_what_they_do_not_use(tmp_path: Path) -> None:
    commands = [
        (["plan", "--help"], HEAVY | {"numpy"}),
        (["run", "--help"], HEAVY | {"numpy"}),
        (["plan"], HEAVY),
        (["plan", "--json"], HEAVY),
        (["run", *TINY], HEAVY - {"torch"}),
    ]
    result = run_python(STARTS.format(commands=commands), cwd=tmp_path)
    assert result.returncode == 0, result.stderr


def test_looking_at_runs_needs_no_pytorch(tmp_path: Path) -> None:
    """This holds for one run and for several side by side."""
    for name in ("a", "b"):
        made = invoke("run", *TINY, "--runs", tmp_path, "--name", name)
        assert made.exit_code == 0, made.stderr
    run, heavy = str(tmp_path / "a"), {"torch", "flwr"}
    commands = [(["show", run], heavy), (["report", run], heavy)]
    commands.append((["report", str(tmp_path), "--out", str(tmp_path / "both.html")], heavy))
    result = run_python(STARTS.format(commands=commands), cwd=tmp_path)
    assert result.returncode == 0, result.stderr


# Commands, and the extras that they need; in one process without any of the optional packages.
NEED_EXTRAS = [
    (["serve", "--name", "a"], "flower"),
    (["node", "--name", "a"], "flower"),
    (["keys", "a"], "flower"),
    (["experiment", "optimal-tau", "--scale", "smoke"], "report"),
    (["experiment", "results"], "report"),
    (["run", "--set", 'training.track=["tensorboard"]', *TINY], "tensorboard"),
    (["run", "--set", 'training.track=["mlflow"]', *TINY], "mlflow"),
]
WITHOUT_EXTRAS = """
import json, sys
sys.modules.update(dict.fromkeys({missing!r}))
from typer.testing import CliRunner
from dynamite_fl._cli.all_commands import app
results = [CliRunner().invoke(app, words) for words in {commands!r}]
print(json.dumps([(result.exit_code, result.stderr) for result in results]))
"""


def test_without_an_extra_a_command_says_what_to_install(tmp_path: Path) -> None:
    missing = ["cryptography", "flwr", "matplotlib", "mlflow", "tensorboard"]
    commands = [words for words, _ in NEED_EXTRAS]
    script = WITHOUT_EXTRAS.format(missing=missing, commands=commands)
    done = run_python(script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for (words, extra), (code, said) in zip(NEED_EXTRAS, json.loads(done.stdout), strict=True):
        assert code == 2, (words, said)
        assert f"pip install 'dynamite-fl[{extra}]'" in said, words
    assert not list(tmp_path.iterdir())


NEED_PYTORCH = [
    (["run"], "train"),
    (["compare"], "train"),
    (["plan", "job.toml"], "train"),
    (["plan", "--pilot"], "train"),
    (["serve", "--name", "a"], "flower"),
    (["node", "--name", "a"], "flower"),
    (["cluster", "--name", "a"], "flower"),
]
PLANNING_ALONE = """
import json, sys
sys.modules.update(dict.fromkeys({missing!r}))
from typer.testing import CliRunner
from dynamite_fl._cli.all_commands import app
import dynamite_fl as fl
names = {{}}
for name in fl.__all__:
    try:
        getattr(fl, name)
    except fl.MissingExtra as error:
        names[name] = str(error)
planned = CliRunner().invoke(app, ["plan", "--json"])
assert planned.exit_code == 0, planned.stderr
results = [CliRunner().invoke(app, words) for words in {commands!r}]
print(json.dumps([names, [(result.exit_code, result.stderr) for result in results]]))
"""


def test_planning_needs_no_extra_and_all_else_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(
        files("dynamite_fl.job").joinpath("training.toml").read_text()
    )
    missing = ["torch", "safetensors", "sklearn", "scipy", "flwr", "cryptography", "plotly"]
    commands = [words for words, _ in NEED_PYTORCH]
    script = PLANNING_ALONE.format(missing=missing, commands=commands)
    done = run_python(script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    names, results = json.loads(done.stdout)
    for name in ("train", "resume", "Task", "Result", "make_task", "metrics"):
        assert names[name] == (
            f"dynamite_fl.{name} needs an optional dependency: pip install 'dynamite-fl[train]'"
        )
    for name in ("Fleet", "Limits", "cooptimize", "tradeoff", "Infeasible", "read_history"):
        assert name not in names
    for (words, extra), (code, said) in zip(NEED_PYTORCH, results, strict=True):
        assert code == 2, (words, said)
        assert f"pip install 'dynamite-fl[{extra}]'" in said, words
    assert [path.name for path in tmp_path.iterdir()] == ["job.toml"]


def test_without_ray_a_run_on_ray_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("flwr")
    monkeypatch.setitem(sys.modules, "ray", None)
    result = invoke("run", "--engine", "ray", "--runs", tmp_path, *TINY)
    assert result.exit_code == 2, result.stderr
    assert "pip install 'dynamite-fl[ray]'" in result.stderr
    assert not list(tmp_path.iterdir())


def test_without_plotly_a_report_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert invoke("run", *TINY, "--runs", tmp_path, "--name", "a").exit_code == 0
    monkeypatch.setitem(sys.modules, "plotly", None)
    monkeypatch.setitem(sys.modules, "plotly.offline", None)
    result = invoke("report", tmp_path / "a", "--out", tmp_path / "a.html")
    assert result.exit_code == 2, result.stderr
    assert "pip install 'dynamite-fl[report]'" in result.stderr
    assert not (tmp_path / "a.html").exists()


def test_public_names() -> None:
    for name in dynamite_fl.__all__:
        value = getattr(dynamite_fl, name)
        assert name == "__version__" or value.__name__.rpartition(".")[2] == name
        assert name == "__version__" or value.__doc__, name
    assert dir(dynamite_fl) == sorted(dynamite_fl.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(dynamite_fl, "nothing")  # noqa: B009  mypy would see an attribute
