"""Who may import whom: the rules of CONTRIBUTING.md."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import dynamite_fl

SOURCE = Path(dynamite_fl.__file__).parent
# What a package may import of ours; a file at the top that is not listed may import all.
MAY_IMPORT = {
    "columns": set[str](),
    "tables": set[str](),
    "records": {"columns"},
    "files": set[str](),
    "reports": {"records"},
    "chance": {"records"},
    "plan": {"records"},
    "stream": {"records", "chance"},
    "control": {"records", "reports", "plan"},
}
HEAVY = {"torch", "flwr", "matplotlib", "plotly", "tensorboard", "mlflow"}


def imports(file: Path) -> set[str]:
    """All modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} imports relatively"
            found.add(node.module or "")
    return found


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_packages_import_only_what_they_may(package: str) -> None:
    files = [SOURCE / f"{package}.py"]
    if (SOURCE / package).is_dir():
        files = list((SOURCE / package).rglob("*.py"))
    assert files
    for file in files:
        for module in imports(file):
            top, _, rest = module.partition(".")
            assert top not in HEAVY, f"{file} imports {module}"
            if top == "dynamite_fl":
                ours = rest.split(".")[0]
                assert ours == package or ours in MAY_IMPORT[package], f"{file} imports {module}"
            else:
                assert top == "numpy" or top in sys.stdlib_module_names, f"{file} imports {module}"


def test_what_a_report_needs_is_imported_by_it_alone() -> None:
    """Of ours it imports records and files; each library has one file that uses it."""
    homes = {
        "plotly": "page.py",
        "matplotlib": "figure.py",
        "torch.utils.tensorboard": "tensorboard.py",
        "mlflow": "mlflow.py",
    }
    reports = SOURCE / "report"
    for file in SOURCE.rglob("*.py"):
        for module in imports(file):
            top, _, rest = module.partition(".")
            home = homes.get(top, homes.get(module))
            if home is not None:
                assert file == reports / home, f"{file} imports {module}"
            elif file.parent == reports and top == "dynamite_fl":
                assert rest.split(".")[0] in ("report", "records", "files"), f"{file}: {module}"
            elif file.parent == reports:
                assert top in sys.stdlib_module_names, f"{file} imports {module}"


def test_a_training_starts_without_what_it_does_not_use(tmp_path: Path) -> None:
    script = f"""
import sys
from dynamite_fl.cli import app
words = ["--set", "limits.rounds=2", "--set", "task.model=softmax", "--runs", {str(tmp_path)!r}]
try:
    app(["run", *words])
except SystemExit as end:
    assert not end.code, end.code
heavy = {HEAVY - {"torch"}!r} & set(sys.modules)
assert not heavy, heavy
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=120)


def test_only_what_is_for_real_machines_imports_flower() -> None:
    """So that all else works without the extra: its home, and the two files that use it."""
    may = {SOURCE / "flower.py", SOURCE / "flower_command.py"}
    needs = {"flwr", "ray", "uvicorn", "fastapi", "starlette", "httpx", "cryptography"}
    for file in SOURCE.rglob("*.py"):
        if file in may or file.is_relative_to(SOURCE / "engine" / "flower"):
            continue
        for module in imports(file):
            assert module.split(".")[0] not in needs, f"{file} imports {module}"
            if module.startswith("dynamite_fl.engine.flower"):
                assert file.name in ("flower_cli.py", "run_command.py"), f"{file} imports {module}"


@pytest.mark.parametrize("arguments", [["plan"], ["plan", "--json"], ["plan", "--help"]])
def test_planning_starts_light(arguments: list[str]) -> None:
    script = f"""
import sys
from dynamite_fl.cli import app
try:
    app({arguments!r})
except SystemExit as end:
    assert not end.code, end.code
heavy = {HEAVY!r} & set(sys.modules)
assert not heavy, heavy
assert "numpy" not in sys.modules or "--help" not in {arguments!r}
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, timeout=60)


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
from dynamite_fl.cli import app
app({words!r})
"""
    result = subprocess.run(
        [sys.executable, "-c", script],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
    )
    assert result.returncode == 2, result.stderr
    assert f"pip install 'dynamite-fl[{extra}]'" in result.stderr
    assert not list(tmp_path.iterdir())


def test_public_names() -> None:
    assert all(getattr(dynamite_fl, name).__name__ == name for name in dynamite_fl.__all__)
    assert dir(dynamite_fl) == sorted(dynamite_fl.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(dynamite_fl, "nothing")  # noqa: B009  mypy would see an attribute
    assert set(dynamite_fl.__all__) == {
        "Fleet",
        "Infeasible",
        "LearningRateWarning",
        "Limits",
        "LossGeometry",
        "Plan",
        "constant_time_plan",
        "cooptimize",
        "simulate",
        "tradeoff",
        "uniform_plan",
    }
