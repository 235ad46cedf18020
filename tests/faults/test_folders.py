"""Run folders that were damaged: refused in one line, or made right; never silently wrong."""

import os
import random
import shutil
import signal
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from dynamite_fl.errors import RunFolderError
from dynamite_fl.training.history_file import HistoryFile
from dynamite_fl.training.round_record import RoundRecord
from tests._cli.commands import invoke
from tests.faults import served
from tests.faults.folders import NAMES, SERVED, harmed
from tests.faults.kills import same_files, save_each_round
from tests.processes import HANG_SECONDS, main, run_forked

pytestmark = [pytest.mark.faults, pytest.mark.filterwarnings("ignore:.*goes on after round")]
SHORT = (
    *("--set", "limits.rounds=4", "--set", "limits.max_local_steps=5"),
    *("--set", "task.model=softmax"),
)


def begin_run(runs: Path, name: str, seed: int, rounds: int | None) -> Path:
    """Run a job, with a checkpoint after each round; kill it after some rounds, or never."""

    def run() -> None:
        append = HistoryFile.append

        def append_and_die(file: HistoryFile, record: RoundRecord) -> None:
            append(file, record)
            if record.round == rounds:
                os.kill(os.getpid(), signal.SIGKILL)

        save_each_round()
        with patch.object(HistoryFile, "append", append_and_die):
            main("run", "--runs", runs, "--name", name, *SHORT, "--set", f"training.seed={seed}")

    code = run_forked(run, runs / f"{name}.txt")
    assert code == (0 if rounds is None else -signal.SIGKILL), (runs / f"{name}.txt").read_text()
    return runs / name


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a run that has ended, one that was killed, and both again with another seed."""
    root = tmp_path_factory.mktemp("runs")
    return {
        name: begin_run(root, name, seed, rounds)
        for name, seed, rounds in (
            ("ended", 0, None),
            ("killed", 0, 3),
            ("other-ended", 1, None),
            ("other-killed", 1, 3),
        )
    }


def one_line(result: Any) -> bool:
    lines = [line for line in result.stderr.splitlines() if not line.startswith("warning:")]
    return len(lines) == 1 and lines[0].startswith("dynamite: ")


def judge_show(folder: Path, true_lines: list[str]) -> str | None:
    """Return what is wrong with what ``dynamite show`` says of a damaged folder."""
    shown = invoke("show", folder, "--json")
    if shown.exit_code == 0:
        return None if shown.stdout in (*true_lines, "{}\n") else f"it shows {shown.stdout}"
    return None if shown.exit_code == 2 and one_line(shown) else f"it says {shown.stderr}"


def judge_resume(folder: Path, whole: Path) -> str | None:
    """Return what is wrong with what ``dynamite resume`` makes of a damaged folder."""
    resumed = invoke("resume", folder)
    if resumed.exit_code == 0:
        return None if same_files(folder, whole) else "its files are others"
    return None if resumed.exit_code == 2 and one_line(resumed) else f"it says {resumed.stderr}"


def judge_report(folder: Path) -> str | None:
    reported = invoke("report", folder, "--out", folder.parent / "report.html", "--json")
    if reported.exit_code == 0:
        return None
    return None if reported.exit_code == 2 and one_line(reported) else reported.stderr


def try_folders(count: int, runs: dict[str, Path], target: Path, seed: int) -> list[str]:
    """Damage as many folders, use them, and return all that goes wrong."""
    chance, wrong = random.Random(seed), list[str]()  # noqa: S311  nothing here is secret
    true_lines = [invoke("show", runs["ended"], "--json").stdout]
    history = (runs["ended"] / "history.jsonl").read_text().splitlines()
    true_lines += [line[: line.index(', "check"')] + "}\n" for line in history]
    for number in range(count):
        name = ("ended", "killed")[number % 2]
        folder = target / str(number)
        what = harmed(runs[name], runs[f"other-{name}"], folder, chance)
        signal.alarm(int(HANG_SECONDS))  # only ends a hang
        try:
            found = {
                "show": judge_show(folder, true_lines),
                "report": judge_report(folder),
                "resume": judge_resume(folder, runs["ended"]),
            }
        except Exception as error:
            found = {"all": f"{type(error).__name__}: {error}"}
        finally:
            signal.alarm(0)
        wrong += [f"{name}, {what}, {how}: {it}" for how, it in found.items() if it is not None]
    return wrong


def test_damaged_folders_are_refused_or_made_right(runs: dict[str, Path], tmp_path: Path) -> None:
    assert try_folders(20, runs, tmp_path, seed=3) == []


def judge_served(folder: Path, nodes: Path, names: list[str], epsilon: float) -> str | None:
    """Return what is wrong with what a server makes of a damaged folder."""
    try:
        result = served.trained(folder, nodes)
    except RunFolderError as error:
        return None if len(str(error).splitlines()) == 1 else f"it says {error}"
    if served.names_in(folder) != names:
        return f"its nodes are {served.names_in(folder)}"
    spent = result.history[-1].epsilon
    return None if spent is not None and spent >= epsilon else f"it has spent {spent}"


def try_served(count: int, target: Path, seed: int) -> list[str]:
    """Damage as many folders of a server that was killed, go on with them, and return all wrongs.

    The killed round was given away, so that no folder may say that less was spent than with it.
    """
    chance, wrong = random.Random(seed), list[str]()  # noqa: S311  nothing here is secret
    whole = served.begun(target / "whole", target / "nodes", seed=0)
    other = served.begun(target / "other", target / "nodes", seed=1)
    names, copy = served.names_in(whole), target / "copy"
    shutil.copytree(whole, copy)
    epsilon = served.trained(copy, target / "nodes").history[-1].epsilon
    assert epsilon is not None
    for number in range(count):
        files = SERVED if number % 3 else NAMES
        folder = target / str(number)
        what = harmed(whole, other, folder, chance, files)
        try:
            found = judge_served(folder, target / "nodes", names, epsilon)
        except Exception as error:
            found = f"{type(error).__name__}: {error}"
        if found is not None:
            wrong.append(f"served, {what}: {found}")
    return wrong


def test_a_damaged_ledger_of_privacy_or_list_of_nodes_is_noticed(tmp_path: Path) -> None:
    assert try_served(20, tmp_path, seed=5) == []


@pytest.mark.slow
def test_many_damaged_folders_are_refused_or_made_right(
    runs: dict[str, Path], tmp_path: Path, figure: Any
) -> None:
    wrong = try_folders(400, runs, tmp_path / "simulated", seed=4)
    wrong += try_served(100, tmp_path / "served", seed=6)
    figure(
        f"run folders: 500 damaged, 100 of them of a server with a ledger of privacy, "
        f"{len(wrong)} taken wrongly {dict(Counter(wrong)) or ''}"
    )
    assert wrong == []
