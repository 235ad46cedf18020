"""Everything that the README, the site and ``--help`` show is run, from top to bottom."""

import re
import shlex
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from dynamite_fl._cli.all_commands import app
from dynamite_fl.job.training import load_training_job, resolve_tables
from tests.documents import DOCUMENTS, ROOT, blocks, commands, run_document

# A command in a block that is not run, behind the name of a machine or in a service's file.
SHOWN = r"^(?:\w+\$ +|ExecStart=\S*/)?(dynamite [^:\n]*?)(?:  +#.*)?$"
COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]

# Documents that run in a few seconds altogether. All others are run by ``make test-all``, as a user
# would: each command in a process of its own.
QUICK = {"plan.md", "own-model.md", "use-the-model.md", "gpu.md", "figures.md"}
WITH_BLOCKS = [page for page in DOCUMENTS if any(b.language != "text" for b in blocks(page))]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an empty folder the current one, in which modules are found."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delenv("COLUMNS", raising=False)
    return tmp_path


def names(pages: list[Path]) -> list[str]:
    return [str(page.relative_to(ROOT)) for page in pages]


@pytest.mark.parametrize("document", names([p for p in WITH_BLOCKS if p.name in QUICK]))
def test_a_document_runs(document: str, folder: Path) -> None:
    run_document(ROOT / document, folder, in_process=True)


@pytest.mark.slow
@pytest.mark.parametrize("document", names([p for p in WITH_BLOCKS if p.name not in QUICK]))
def test_a_document_runs_as_a_user_runs_it(document: str, folder: Path) -> None:
    run_document(ROOT / document, folder, in_process=False)


def test_parts_of_jobs_can_be_used(folder: Path) -> None:
    """All of them, because their documents may be slow."""
    embedded = load_training_job().tables
    parts = [block for page in DOCUMENTS for block in blocks(page) if block.language == "toml"]
    for block in parts:
        if not block.words:
            resolve_tables({**embedded, **tomllib.loads(block.text)}, folder)
    assert sum(not block.words for block in parts) > 5


def command_lines() -> Iterator[str]:
    """Yield the command lines in the blocks of all documents, and in ``--help``."""
    for document in DOCUMENTS:
        for block in blocks(document):
            if block.language == "console":
                yield from (command.line for command in commands(block.text))
            elif block.language == "text":
                yield from re.findall(SHOWN, block.text, re.MULTILINE)
    yield from help_examples()


def help_examples() -> Iterator[str]:
    """Yield the examples that ``--help`` shows."""
    for command in COMMANDS.values():
        for line in re.sub(r"\[/?(?:bold|dim)\]", "", command.epilog or "").splitlines():
            if re.match(r"(?:\w+=\S+ )?dynamite ", line):
                yield line.partition("  #")[0].strip()


@pytest.mark.parametrize("line", sorted(set(command_lines())))
def test_command_lines_can_be_parsed(line: str) -> None:
    words = shlex.split(line.partition(" | ")[0])
    while "=" in words[0]:  # a variable of the environment
        words.pop(0)
    program, name, *others = words
    if program == "make":
        assert f"\n{name}:" in (ROOT / "Makefile").read_text()
    elif program == "dynamite":
        COMMANDS[name].make_context(name, others)
    else:
        assert program == "python"


@pytest.mark.parametrize("document", names(DOCUMENTS))
def test_commands_in_sentences_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    for name, words in re.findall(r"`dynamite (\w[\w-]*)([^`]*)`", text):
        known = {option for parameter in COMMANDS[name].params for option in parameter.opts}
        for command in getattr(COMMANDS[name], "commands", {}).values():
            known |= {option for parameter in command.params for option in parameter.opts}
        assert set(re.findall(r"--[\w-]+", words)) <= known


# Examples of ``--help`` that are not run by themselves, and where the same is run.
ELSEWHERE = {
    "dynamite serve": "tutorials/real-machines.md, together with its nodes",
    "dynamite node": "tutorials/real-machines.md, together with its server",
    "dynamite experiment": "tests/_cli/test_experiment.py, on few rounds; they need datasets",
    "RAY_ADDRESS=": "how-to/ray.md, without a cluster",
    "dynamite resume runs/from-python": "tests/_cli/test_resume.py, with a run made in Python",
    "dynamite watch": "tests/_cli, which ends it; it serves until Ctrl-C",
}
RUN_EXAMPLES = sorted(
    line
    for line in set(help_examples())
    if not line.startswith(tuple(ELSEWHERE)) and "~/data" not in line
)
JOB = """
[task]
model = "softmax"
dataset = "digits"

[devices]
samples_per_second = [200, 400, 800]
latency = 0.1

[limits]
rounds = 20
deadline = 60
budget = 60
cost_per_sample = 0.0005
cost_per_round = 1

[training]
learning_rate = 0.05
"""
STREAM = """
[stream]
arrivals = "smooth"
order = "iid"
initial = 50
size = 10
every = 2
buffer_size = 80
"""


@pytest.fixture
def prepared(folder: Path) -> Path:
    """Fill the folder with what the examples of ``--help`` name."""
    from tests._cli.commands import invoke

    (folder / "job.toml").write_text(JOB)
    (folder / "stream.toml").write_text(JOB + STREAM)
    page = ROOT / "docs" / "tutorials" / "own-controller.md"
    (module,) = (block.text for block in blocks(page) if block.words == "my_module.py")
    (folder / "my_module.py").write_text(module.replace("FewerSteps", "MyController"))
    for name in ("tuesday", "wednesday", "compare-2026-01-31-120000"):
        made = invoke("run", folder / "job.toml", "--name", name, "--set", "limits.rounds=2")
        assert made.exit_code == 0
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("line", RUN_EXAMPLES)
def test_examples_of_help_run(line: str, prepared: Path) -> None:
    """They run to their end; trainings with few rounds, so that it does not take all night."""
    from tests.documents import _run_in_shell

    if "jq" in line and shutil.which("jq") is None:
        line = line.partition(" | ")[0]
    if line.startswith("dynamite plan job.toml") and "--pilot" not in line:
        page = ROOT / "docs" / "plan.md"
        (job,) = (block.text for block in blocks(page) if block.language == "toml")
        (prepared / "job.toml").write_text(job)
        columns = "samples,gradient_variance,samples_per_second,comm_seconds\n"
        (prepared / "fleet.csv").write_text(f"{columns}900,4,300,0.2\n4000,9,900,0.1\n")
    if line.startswith(("dynamite run", "dynamite compare", "dynamite cluster")):
        command, bar, rest = line.partition(" | ")
        line = f"{command} --set limits.rounds=3{bar}{rest}"
    if line.startswith(("dynamite run", "dynamite compare")):
        line = line.replace("tuesday", "another")
    _run_in_shell(line, prepared)
