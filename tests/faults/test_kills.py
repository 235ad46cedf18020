"""Kills at any moment, and at the moments of writing: what is resumed ends the same."""

import random
import time
from pathlib import Path
from typing import Any

import pytest

from tests._cli.commands import invoke
from tests.faults.kills import (
    MOMENTS,
    killed_after,
    killed_at_write,
    same_files,
    save_each_round,
)
from tests.processes import HANG_SECONDS, main

pytestmark = [pytest.mark.faults, pytest.mark.slow]
SHORT = ("--set", "limits.rounds=30", "--set", "task.model=softmax")
AIMED, ANY_TIME = 30, 70


def words_of(folder: Path) -> list[str | Path]:
    """Return the command that begins a run, or goes on with what there is of it."""
    if (folder / "job.toml").exists():
        return ["resume", folder]
    return ["run", "--runs", folder.parent, "--name", folder.name, *SHORT]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "a"
    result = invoke(*words_of(folder))
    assert result.exit_code == 0, result.stderr
    return folder


def test_kills_at_the_moments_of_writing(whole: Path, tmp_path: Path, figure: Any) -> None:
    """A run is killed at one write after the other, in the same folder, until it ends."""
    chance, kills = random.Random(5), 0  # noqa: S311  nothing here is secret
    folder, runs = tmp_path / "0" / "a", 1

    def act() -> None:
        save_each_round()
        main(*words_of(folder))

    while kills < AIMED:
        write, moment = chance.randrange(12), chance.choice(MOMENTS)
        if killed_at_write(act, write, moment, tmp_path / "output.txt"):
            kills += 1
            continue
        assert same_files(folder, whole)
        runs += 1
        folder = tmp_path / str(runs) / "a"
    result = invoke(*words_of(folder))
    assert result.exit_code == 0, result.stderr
    assert same_files(folder, whole)
    figure(f"kills aimed at writes: {kills} in {runs} runs, all identical afterwards")


def test_kills_at_any_time(whole: Path, tmp_path: Path, figure: Any) -> None:
    """A run is killed after a while, and begun again, until it ends.

    The while is a share of the time that a whole run takes here, so that kills meet all its parts.
    """
    chance, kills, runs = random.Random(6), 0, 1  # noqa: S311  nothing here is secret
    folder, output = tmp_path / "1" / "a", tmp_path / "output.txt"

    def act() -> None:
        save_each_round()
        main(*words_of(folder))

    began = time.monotonic()
    assert not killed_after(act, HANG_SECONDS, output)
    longest = 0.6 * (time.monotonic() - began)
    folder = tmp_path / "2" / "a"
    rounds_at_kill = set()
    while kills < ANY_TIME:
        if killed_after(act, chance.uniform(0.0, longest), output):
            kills += 1
            rounds_at_kill.add(rounds_played(folder))
            continue
        assert same_files(folder, whole)
        runs += 1
        folder = tmp_path / str(runs + 1) / "a"
    result = invoke(*words_of(folder))
    assert result.exit_code == 0, result.stderr
    assert same_files(folder, whole)
    assert len(rounds_at_kill) > 10  # they did not all come at the same moment
    figure(
        f"kills at any time: {kills} in {runs} runs, after {len(rounds_at_kill)} different rounds, "
        "all identical afterwards"
    )


def rounds_played(folder: Path) -> int:
    history = folder / "history.jsonl"
    return len(history.read_bytes().splitlines()) if history.exists() else 0
