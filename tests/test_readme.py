"""The README: its blocks run, and show what the program shows."""

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import dynamite_fl as fl
from dynamite_fl._cli.main import app
from dynamite_fl.job.build import build_stream
from dynamite_fl.job.training import load_training_job
from tests._cli.commands import dynamite, invoke

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
DOCUMENTS = [README]
COMMANDS: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]


def blocks(language: str, document: Path = README) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", document.read_text(), re.MULTILINE | re.DOTALL)
    return [block for name, block in found if name == language]


def block_with(words: str, language: str, document: Path = README) -> str:
    """Return the only block of a language that has some words in it."""
    (block,) = (block for block in blocks(language, document) if words in block)
    return block


def run_block(code: str) -> tuple[dict[str, Any], str]:
    """Run Python code to its end, and return its names and what it printed."""
    names: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, names)  # noqa: S102  our own README
    return names, printed.getvalue()


def assert_shown(block: str, output: str) -> None:
    """Check that a block shows an output, where ``...`` stands for any lines."""
    lines = "\n".join(line.rstrip() for line in output.splitlines()).strip()
    _, shown = block.strip().split("\n", 1)  # the first line is the command
    parts = [re.escape(part) for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE)]
    assert re.fullmatch(r"(?:.*\n)*?.*".join(parts), lines), lines


def test_every_block_is_tested_here() -> None:
    """A new block needs a test; this one fails until it is counted."""
    assert len(blocks("python")) == 2
    assert len(blocks("toml")) == 2


def test_plan_output_is_current() -> None:
    assert_shown(block_with("$ dynamite plan", ""), dynamite("plan", columns=80).stdout)


@pytest.mark.slow
def test_run_output_is_current(tmp_path: Path) -> None:
    result = dynamite("run", "--name", "digits", columns=80, cwd=tmp_path)
    first, *_ = result.stdout.splitlines()
    summary = result.stdout[result.stdout.rindex("dynamite-feedback, runs/digits") :]
    assert_shown(block_with("$ dynamite run", ""), f"{first}\n{summary}")


def test_the_job_can_be_run(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(block_with("[task]", "toml"))
    words = ("--runs", tmp_path, "--name", "a", "--set", "limits.rounds=2")
    result = invoke("run", tmp_path / "job.toml", *words)
    assert result.exit_code == 0, result.stderr
    history = fl.read_history(tmp_path / "a" / "history.jsonl")
    assert [len(record.clients or ()) for record in history] == [10, 10]


def test_the_model_can_be_trained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is then refused with another learning rate, as the README says."""
    monkeypatch.chdir(tmp_path)
    code = block_with("fl.train(", "python")
    names, _ = run_block(code)
    result = names["result"]
    assert result.metrics["accuracy"] > 0.8
    assert not result.model.training
    assert (tmp_path / "products.pt").exists()
    assert invoke("show", "runs/products").exit_code == 0
    again = fl.resume("runs/products", task=names["task"])
    assert again.history == result.history
    with pytest.raises(fl.RunFolderError) as refused:
        run_block(code.replace("learning_rate=0.1", "learning_rate=0.2"))
    assert block_with("runs/products holds", "").strip() == str(refused.value)


def test_the_controller_passes_its_checks_and_runs_from_a_job(tmp_path: Path) -> None:
    code = block_with("class FewerSteps", "python")
    run_block(code)
    (tmp_path / "my_module.py").write_text(code)
    job = '[controller]\nname = "my_module:FewerSteps"\nfirst_steps = 9\n' + _embedded("controller")
    (tmp_path / "job.toml").write_text(job)
    words = ("--runs", tmp_path, "--name", "a", "--set", "limits.rounds=2")
    result = invoke("run", tmp_path / "job.toml", *words)
    assert result.exit_code == 0, result.stderr
    history = fl.read_history(tmp_path / "a" / "history.jsonl")
    assert [record.local_steps for record in history] == [9, 8]


def test_the_stream_can_be_trained_on(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(f"{_embedded()}\n{block_with('[stream]', 'toml')}")
    job = tmp_path / "job.toml"
    stream = build_stream(load_training_job(job))
    assert stream is not None
    assert (stream.buffer, stream.buffer_size) == ("reservoir", 500)
    words = ("--runs", tmp_path, "--name", "a", "--set", "limits.rounds=2")
    assert invoke("run", job, *words).exit_code == 0


def test_the_job_can_be_tracked(tmp_path: Path) -> None:
    (track,) = re.findall(r"`(track = [^`]*)`", README.read_text())
    job = _embedded().replace("[training]\n", f"[training]\n{track}\n")
    (tmp_path / "job.toml").write_text(job)
    assert load_training_job(tmp_path / "job.toml").trackers == ("tensorboard", "mlflow")


def test_the_files_of_a_run_are_named(tmp_path: Path) -> None:
    words = ("--set", "limits.rounds=1", "--set", "task.model=softmax")
    assert invoke("run", "--runs", tmp_path, "--name", "a", *words).exit_code == 0
    for name in ("job.toml", "run.json", "history.jsonl", "model.safetensors"):
        assert (tmp_path / "a" / name).exists()
        assert f"`{name}`" in README.read_text()


def command_lines() -> Iterator[str]:
    """Yield the command lines in the blocks of all documents, without prompts and comments."""
    for document in DOCUMENTS:
        for block in blocks("", document):
            for line in block.splitlines():
                if found := re.match(r"(?:\w*\$ +|ExecStart=\S*/)?(dynamite [^#]*|make \w+)", line):
                    yield found[1].strip()


@pytest.mark.parametrize("line", sorted(set(command_lines())))
def test_command_lines_can_be_parsed(line: str) -> None:
    program, name, *words = shlex.split(line)
    if program == "make":
        assert f"\n{name}:" in (ROOT / "Makefile").read_text()
    else:
        COMMANDS[name].make_context(name, words)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_commands_in_sentences_exist(document: Path) -> None:
    for name, words in re.findall(r"`dynamite (\w[\w-]*)([^`]*)`", document.read_text()):
        known = {option for parameter in COMMANDS[name].params for option in parameter.opts}
        assert set(re.findall(r"--[\w-]+", words)) <= known


def _embedded(*without: str) -> str:
    """Return the embedded job, without some of its tables."""
    text = resources.files("dynamite_fl.job").joinpath("training.toml").read_text()
    for table in without:
        text = re.sub(rf"^\[{table}\]\n(?:[^\[\n].*\n|\n)*", "", text, flags=re.MULTILINE)
    return text
