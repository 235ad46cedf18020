"""Files, names, commands, keys and links in the documentation exist, and its pages are complete."""

import ast
import importlib.util
import inspect
import json
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
from typer.main import get_command

import dynamite_fl
from dynamite_fl._cli.all_commands import app
from dynamite_fl.job.training import NEEDED_TABLES, OPTIONAL_TABLES
from dynamite_fl.task.metrics import NAMED
from dynamite_fl.training.round_record import FIELDS
from tests._cli.commands import invoke
from tests.documents import DOCS, DOCUMENTS, ROOT, blocks

SOURCE = Path(dynamite_fl.__file__).parent
CHECKED = ["CONTRIBUTING.md", "docs/paper.md", "docs/control.md", "docs/training.md"]
CHECKED += ["docs/privacy.md"]
LINKED = [str(page.relative_to(ROOT)) for page in DOCUMENTS]
LINKED += [
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "benchmarks/README.md",
    "examples/README.md",
]
LINKED += ["examples/flower/README.md", "examples/flower_strategy/README.md"]
# Names of other tools and of the paper, which no file of ours defines.
FOREIGN = {
    ".venv",
    "docs/_build/html",
    "$DYNAMITE_DATA",
    "fedavg@0.1",
    "fedadam@0.1x0.01",
    "pre-commit install",
    ".venv/bin/pip freeze",
    "<=",
    "until k<K",
    "pip install '.[privacy]'",
    "FitRes",
    "DefaultWorkflow",
    "SecAggPlusWorkflow",
    "Strategy.aggregate_fit",
    "flwr/common/secure_aggregation/secaggplus_utils.py",
    "pseudo_rand_gen",
    "secaggplus_mod",
    "send_and_receive",
    "RandomState",
}


def quoted(document: str) -> Iterator[tuple[str, str]]:
    """Yield what a document has in backquotes outside blocks, each with its line."""
    text = re.sub(r"^```.*?^```$", "", (ROOT / document).read_text(), flags=re.M | re.S)
    for line in text.splitlines():
        for words in re.findall(r"`([^`]+)`", line):
            yield words, line


def find_file(name: str) -> Path | None:
    """Return a file or folder of the source tree or of the repository; None if there is none."""
    return next((base / name for base in (SOURCE, ROOT) if (base / name).exists()), None)


@cache
def names_in(file: Path) -> frozenset[str]:
    """Return all names that a file defines, and the words that it has as text."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.arg):
            names.add(node.arg)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.add(node.value)
    return frozenset(names)


@cache
def all_names() -> frozenset[str]:
    files = [*SOURCE.rglob("*.py"), *(ROOT / "tests").rglob("test_*.py")]
    return frozenset[str]().union(*map(names_in, files))


def is_in_module_or_class(owner: str, name: str) -> bool:
    """Return whether a module, or the module of a class, defines a name."""
    return any(
        name in names_in(file)
        for file in SOURCE.rglob("*.py")
        if file.stem == owner or owner in names_in(file)
    )


def exists(words: str) -> bool:
    """Return whether a file, a name or a command of ours exists."""
    if words in FOREIGN or find_file(words) is not None:
        return True
    if words.startswith("make "):
        return f"\n{words.removeprefix('make ')}:" in (ROOT / "Makefile").read_text()
    if words.startswith("python "):
        return (ROOT / words.split()[1]).exists()
    if words.startswith("dynamite "):
        return words.split()[1] in get_command(app).commands  # type: ignore[attr-defined]
    if "<-" in words:
        return all(map(exists, re.findall(r"\w+", words)))
    name = words.partition("=")[0].rstrip()
    owner, _, member = name.rpartition(".")
    if owner:
        return is_in_module_or_class(owner, member)
    return (SOURCE / f"{name}.py").exists() or name in all_names()


@pytest.mark.parametrize("document", CHECKED)
def test_files_and_names_exist(document: str) -> None:
    missing = {words for words, _ in quoted(document) if not exists(words)}
    assert not missing


def test_the_paper_s_table_names_the_right_files() -> None:
    """A name stands behind the file that defines it."""
    table = (ROOT / "docs" / "paper.md").read_text().partition("## Symbols")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    assert len(rows) > 30
    for row in rows:
        file = None
        for words in re.findall(r"`([^`]+)`", row):
            if words.endswith(".py"):
                file = SOURCE / words
            elif file is not None:
                assert words in names_in(file), f"{file} does not define {words}"


def test_the_map_shows_every_package() -> None:
    (tree,) = re.findall(r"^```\n(src/.*?)^```$", _text("CONTRIBUTING.md"), re.M | re.S)
    shown = set(re.findall(r"^  ?([\w/.* ]+?)  ", tree, re.M))
    entries = {entry.rstrip("/") for line in shown for entry in line.split()}
    packages = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
    modules = {path.name for path in SOURCE.glob("[!_]*.py")} - {"api.py"}
    assert packages | modules <= entries
    assert all(find_file(entry) for entry in entries if "*" not in entry)


@pytest.mark.parametrize("document", LINKED)
def test_links_lead_somewhere(document: str) -> None:
    file = ROOT / document
    for target in re.findall(r"\]\((?!http)([^)]+)\)", file.read_text()):
        path, _, heading = target.partition("#")
        if path.startswith(("reference/", "../reference/", "docs/reference/")):
            continue  # a page that is generated with the site
        linked = file.parent / path if path else file
        assert linked.exists(), target
        if heading:
            assert heading in anchors(linked), target


def anchors(file: Path) -> set[str]:
    """Return the anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", file.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("document", LINKED)
def test_tables_have_equal_rows(document: str) -> None:
    """A row with another number of cells is shown wrongly."""
    text = re.sub(r"^```.*?^```$", "", _text(document), flags=re.M | re.S)
    for table in re.findall(r"(?:^\|.*\n)+", text, re.M):
        cells = [len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()]
        assert len(set(cells)) == 1, table.splitlines()[0]


def test_the_page_on_training_names_all_metrics() -> None:
    text = _text("docs/training.md")
    assert all(f"`{name}`" in text for name in NAMED)


def test_the_page_on_planning_names_all_keys() -> None:
    """The keys of jobs, and those that scripts read."""
    text = _text("docs/plan.md")
    (job,) = (block.text for block in blocks(DOCS / "plan.md") if block.words == "job.toml")
    for table in ("limits", "fleet"):
        assert all(f"`{table}.{key}`" in text for key in tomllib.loads(job)[table])
    shown = json.loads(invoke("plan", "--json").stdout)
    assert not {key for key in shown if f"`{key}`" not in text}


def test_the_files_of_a_run_are_named(tmp_path: Path) -> None:
    words = ("--set", "limits.rounds=1", "--set", "task.model=softmax")
    assert invoke("run", "--runs", tmp_path, "--name", "a", *words).exit_code == 0
    for name in ("job.toml", "run.json", "history.jsonl", "model.safetensors"):
        assert (tmp_path / "a" / name).exists()
        assert f"`{name}`" in _text("docs/how-to/resume.md")


@cache
def reference() -> Any:
    """Return the module that writes the reference pages."""
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_complete(tmp_path: Path) -> None:
    """Every key, field, command, option, error and public name is there, with a sentence."""
    reference().write_reference(tmp_path)
    pages = {page.stem: page.read_text() for page in tmp_path.iterdir()}
    for kind in (dynamite_fl.Limits, dynamite_fl.Devices, dynamite_fl.Stream):
        for name in inspect.signature(kind).parameters:
            assert re.search(rf"^\| `{name}` \|.*\| \S[^|]* \|$", pages["job"], re.M), name
    assert not re.findall(r"^\| `.*\|  \|$", pages["job"], re.M)  # a key without a sentence
    for table in (*NEEDED_TABLES, *OPTIONAL_TABLES):
        assert re.search(rf"^##+ `\[?{table}\]?`$", pages["job"], re.M), table
    for name in FIELDS:
        assert f"| `{name}` |" in pages["history"]
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        assert f"## `dynamite {name}`" in pages["commands"]
        options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
        assert all(f"`{option.opts[0]}`" in pages["commands"] for option in options)
    for name in dynamite_fl.__all__:
        value = getattr(dynamite_fl, name)
        if isinstance(value, type) and issubclass(value, dynamite_fl.DynamiteError):
            section = pages["errors"].partition(f"## `{name}`\n")[2].partition("\n## ")[0]
            assert re.search(r"\*\*What to do:\*\* \w", section), name
        elif not name.startswith("_") and not inspect.ismodule(value):
            assert f"dynamite_fl.{name}" in pages["api"], name


def _text(document: str) -> str:
    return (ROOT / document).read_text()


def test_the_page_on_threats_names_tests_that_exist() -> None:
    named = [words for words, _ in quoted("docs/threats.md") if words.startswith("test_")]
    assert len(named) > 20
    tests = {name for file in (ROOT / "tests").rglob("test_*.py") for name in names_in(file)}
    files = {file.name for file in (ROOT / "tests").rglob("test_*.py")}
    assert set(named) <= tests | files
