"""The state of a device on its own disk."""

from pathlib import Path

import pytest

from dynamite_fl.client.messages import ClientState
from dynamite_fl.flower.node_state import StateFiles


@pytest.fixture
def files(tmp_path: Path) -> StateFiles:
    files = StateFiles(tmp_path)
    for round_index in (1, 2):
        files.save("monday", round_index, ClientState(gradient_variance=float(round_index)))
    return files


def test_the_state_before_a_round_is_that_of_the_round_before(files: StateFiles) -> None:
    assert [files.before("monday", k).gradient_variance for k in (1, 2, 3)] == [None, 1.0, 2.0]


def test_a_state_of_another_training_is_not_used(files: StateFiles) -> None:
    assert files.before("tuesday", 3).gradient_variance is None


@pytest.mark.parametrize("damage", [lambda data: data[:40], lambda _: b"", lambda d: d[::-1]])
def test_a_damaged_file_is_as_if_it_were_not_there(
    files: StateFiles, tmp_path: Path, damage: object
) -> None:
    for file in tmp_path.glob("state-*"):
        file.write_bytes(damage(file.read_bytes()))  # type: ignore[operator]
    assert files.before("monday", 3).gradient_variance is None
