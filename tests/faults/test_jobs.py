"""Job files that are not what they should be: one line and an exit code, never a traceback."""

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests._cli.commands import invoke
from tests.faults.mutants import PARTITIONS, PLANNING, SHORT, WHOLE, Mutant, mutants, to_toml
from tests.processes import HANG_SECONDS

JOBS: list[tuple[str, dict[str, Any]]] = [
    ("run", WHOLE),
    ("run", SHORT),
    ("plan", PLANNING),
    *(("run", {**SHORT, "partition": partition}) for partition in PARTITIONS),
]
SEED = 17
pytestmark = pytest.mark.faults


@pytest.fixture(autouse=True)
def _no_hang() -> Iterator[None]:
    """End the process if a command hangs."""
    signal.alarm(int(HANG_SECONDS) * 6)
    yield
    signal.alarm(0)


def use(command: str, text: str, folder: Path, name: str) -> tuple[int, str]:
    """Run a command with a job file; return its exit code and what it says is wrong."""
    job = folder / "job.toml"
    job.write_text(text, encoding="utf-8")
    more: list[str | Path] = ["--runs", folder / "runs", "--name", name] if command == "run" else []
    result = invoke(command, job, *more)  # which raises what would be a traceback
    lines = result.stderr.splitlines()
    return result.exit_code, "\n".join(line for line in lines if not line.startswith("warning:"))


def judge(command: str, mutant: Mutant, folder: Path, name: str) -> str | None:
    """Return what is wrong with how a mutant is taken; None if nothing is."""
    try:
        code, words = use(command, mutant.text, folder, name)
    except Exception as error:
        return f"{mutant.what}: {type(error).__name__}: {error}"
    if code not in (0, 2, 3):
        return f"{mutant.what}: exit code {code}: {words}"
    if code == 0 and mutant.is_wrong:
        return f"{mutant.what}: accepted"
    if code and len(words.splitlines()) != 1:
        return f"{mutant.what}: not one line: {words}"
    return None


def try_mutants(count: int, folder: Path, seed: int) -> list[str]:
    """Return all that is wrong with how some mutants of each job are taken."""
    found = []
    for place, (command, tables) in enumerate(JOBS):
        code, words = use(command, to_toml(tables), folder, f"sound-{place}")
        assert code == 0, words
        for number, mutant in enumerate(mutants(tables, seed + place, count)):
            wrong = judge(command, mutant, folder, f"{place}-{number}")
            if wrong is not None:
                found.append(wrong)
    return found


def test_mutants_are_refused_in_one_line_or_used(tmp_path: Path) -> None:
    assert try_mutants(20, tmp_path, SEED) == []


@pytest.mark.slow
def test_many_mutants_are_refused_in_one_line_or_used(tmp_path: Path, figure: Any) -> None:
    found = try_mutants(400, tmp_path, SEED + 1000)
    figure(f"job files: {400 * len(JOBS):,} mutants, {len(found)} taken wrongly")
    assert found == []


@pytest.mark.parametrize("setting", ["training.learning_rate", "controller.local_steps", "track"])
def test_lists_that_are_nested_deeply_are_refused(setting: str, tmp_path: Path) -> None:
    deep = "[" * 20_000 + "]" * 20_000
    job = tmp_path / "job.toml"
    job.write_text(f"{setting} = {deep}\n")
    for command in ("run", "plan"):
        result = invoke(command, job)
        assert result.exit_code == 2
        assert "nested too deeply" in result.stderr
        assert len(result.stderr.splitlines()) == 1
    if setting == "track":
        return
    result = invoke("run", "--set", f"{setting}={deep}", "--runs", tmp_path)
    assert result.exit_code == 2
