"""The layer rules of the design: which package may import which, and what starts without what."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dynamite_fl

SOURCE = Path(dynamite_fl.__file__).parent

# What every package may use.
BASE = {"errors", "records", "reports", "_validate", "_atomic", "_random", "_csv", "_format"}
BASE |= {"_json", "_load", "_traceback"}
# For every module or package at the top: what else of ours it may import. A longer name, such as
# ``training.history``, allows only that module.
MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "_atomic": set(),
    "_format": set(),
    "_json": set(),
    "_traceback": set(),
    "_validate": set(),
    "_csv": set(),
    "_load": set(),
    "_random": set(),
    "records": set(),
    "reports": set(),
    "plan": set(),
    "control": {"plan"},
    "stream": set(),
    "task": set(),
    "partitions": {"task"},
    "client": {"task", "stream"},
    "training": {"control", "plan", "client", "task", "stream", "tracking"},
    "tracking": {"training.history", "training.round_record"},
    "simulation": {"training", "control", "plan", "client", "task", "stream"},
    "job": {"simulation", "training", "tracking", "control", "plan", "client", "task", "stream"}
    | {"partitions"},
    "flower": {"job", "training", "tracking", "control", "plan", "client", "task", "stream", "api"},
    "compare": {"job", "training", "tracking", "control", "plan", "task", "stream"},
    "report": {"training.history", "training.round_record", "training.run_folder"}
    | {"compare.summary", "compare.hindsight", "job.read", "job.training", "job.devices"}
    | {"job.runs", "control", "plan", "stream"},
    "experiments": {"compare", "job", "training", "tracking", "control", "plan", "task", "stream"},
    "controllers": {"control"},
    "api": {"job", "training", "tracking", "control", "simulation", "task", "stream", "partitions"},
    "testing": {"training", "simulation", "control", "plan", "task", "stream", "partitions"},
    "_cli": {"job", "training", "tracking", "simulation", "flower", "compare", "report"}
    | {"experiments", "control", "plan", "task", "stream", "api"},
}
TORCH = {"task", "partitions", "client", "training", "simulation", "job", "flower", "compare"}
TORCH |= {"experiments", "api", "testing", "_cli", "tracking"}
FLOWER = {"flwr", "ray", "uvicorn", "fastapi", "starlette", "httpx", "cryptography"}
# Libraries that only one file may import.
HOMES = {
    "plotly": "report/page.py",
    "matplotlib": "experiments/figure.py",
    "torch.utils.tensorboard": "tracking/tensorboard.py",
    "mlflow": "tracking/mlflow.py",
}
HEAVY = {"torch", "flwr", "matplotlib", "plotly", "tensorboard", "mlflow"}


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
    allowed = MAY_IMPORT[package] | BASE | {package}
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
            if package == "report":
                known |= {"plotly"}
            if package == "flower":
                continue
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


def run_script(script: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", script],
        check=False,
        capture_output=True,
        text=True,
        timeout=600,  # only ends a hang
        cwd=cwd,
    )


STARTS = """
import sys
from dynamite_fl._cli.main import app
try:
    app({words!r})
except SystemExit as end:
    assert not end.code, end.code
loaded = {without!r} & set(sys.modules)
assert not loaded, loaded
"""


@pytest.mark.parametrize(
    ("words", "without"),
    [
        (["plan"], HEAVY),
        (["plan", "--json"], HEAVY),
        (["plan", "--help"], HEAVY | {"numpy"}),
        (["run", "--help"], HEAVY | {"numpy"}),
        (["run", "--set", "limits.rounds=2", "--set", "task.model=softmax"], HEAVY - {"torch"}),
    ],
)
def test_commands_start_without_what_they_do_not_use(
    words: list[str], without: set[str], tmp_path: Path
) -> None:
    result = run_script(STARTS.format(words=words, without=without), tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("command", ["show", "report"])
def test_looking_at_a_run_needs_no_pytorch(command: str, tmp_path: Path) -> None:
    short = ["--set", "limits.rounds=2", "--set", "task.model=softmax"]
    words = ["run", *short, "--runs", str(tmp_path), "--name", "a"]
    made = run_script(STARTS.format(words=words, without=set()), tmp_path)
    assert made.returncode == 0, made.stderr
    words = [command, str(tmp_path / "a")]
    result = run_script(STARTS.format(words=words, without={"torch", "flwr"}), tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (["serve", "--name", "a"], "flower"),
        (["node", "--name", "a"], "flower"),
        (["keys", "a"], "flower"),
        (["run", "--engine", "ray"], "ray"),
    ],
)
def test_without_an_extra_it_says_what_to_install(
    words: list[str], extra: str, tmp_path: Path
) -> None:
    missing = ["flwr", "cryptography"] if extra == "flower" else ["ray"]
    script = f"""
import sys
sys.modules.update(dict.fromkeys({missing!r}))
from dynamite_fl._cli.main import app
app({words!r})
"""
    result = run_script(script, tmp_path)
    assert result.returncode == 2, result.stderr
    assert f"pip install 'dynamite-fl[{extra}]'" in result.stderr
    assert not list(tmp_path.iterdir())


def test_public_names() -> None:
    for name in dynamite_fl.__all__:
        value = getattr(dynamite_fl, name)
        assert name == "__version__" or value.__name__.rpartition(".")[2] == name
        assert name == "__version__" or value.__doc__, name
    assert dir(dynamite_fl) == sorted(dynamite_fl.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(dynamite_fl, "nothing")  # noqa: B009  mypy would see an attribute
