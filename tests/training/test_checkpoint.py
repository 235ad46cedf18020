"""Checkpoints: what a resumed training goes on from."""

from itertools import islice
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dynamite_fl.errors import RunFolderError
from dynamite_fl.training.checkpoint import restore, save
from dynamite_fl.training.history import read_history
from dynamite_fl.training.loop import Progress, Training, begin, rounds
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.server_optimizer import SERVER_OPTIMIZERS
from dynamite_fl.training.session import Session
from tests.training.records import record
from tests.trainings import STREAM, training


def after(given: Training, count: int) -> Progress:
    """Return the progress after some rounds."""
    *_, (progress, _) = islice(rounds(given, begin(given)), count)
    return progress


@pytest.mark.parametrize("stream", [None, STREAM])
def test_what_is_saved_is_restored(tmp_path: Path, stream: dict[str, object] | None) -> None:
    given, folder = training("dynamite", stream=stream), RunFolder(tmp_path)
    progress = after(given, 3)
    save(given, folder, progress)
    folder.history.write_text("".join(record(k).to_line() for k in (1, 2, 3)))
    other = training("dynamite", stream=stream)
    found = restore(other, folder, begin(other))
    assert torch.equal(found.weights, progress.weights)
    assert found.ledger == progress.ledger
    assert repr(other.controller.describe(found.control)) == repr(
        given.controller.describe(progress.control)
    )
    assert other.engine.states.keys() == given.engine.states.keys()
    named = given.engine.state_dict(progress.weights)
    for name, weights in load_file(folder.model).items():
        assert torch.equal(weights, named[name])


def test_without_a_checkpoint_a_training_begins_anew(tmp_path: Path) -> None:
    given, folder = training("fedavg"), RunFolder(tmp_path)
    folder.history.write_text("half of a line")
    fresh = begin(given)
    assert restore(given, folder, fresh) is fresh
    assert folder.history.read_text() == ""


def test_rounds_after_the_checkpoint_are_cut_off_the_history(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    Session(training("fedavg"), folder).run()
    lines = folder.history.read_bytes().splitlines(keepends=True)
    given = training("fedavg")
    save(given, folder, after(given, 2))
    other = training("fedavg")
    assert restore(other, folder, begin(other)).ledger.rounds == 2
    assert folder.history.read_bytes() == b"".join(lines[:2])
    assert len(read_history(folder.history)) == 2


def test_a_run_has_ended_only_if_its_progress_says_so(tmp_path: Path) -> None:
    given, folder = training("fedavg"), RunFolder(tmp_path)
    save(given, folder, after(given, 1))
    assert not folder.is_finished
    save(given, folder, after(training("fedavg"), 99))
    assert folder.stopped_by() in ("rounds", "deadline", "budget")


def test_a_checkpoint_of_another_controller_is_refused(tmp_path: Path) -> None:
    given, folder = training("dynamite"), RunFolder(tmp_path)
    save(given, folder, after(given, 1))
    other = training("dynamite-feedback")
    with pytest.raises(RunFolderError):
        restore(other, folder, begin(other))


@pytest.mark.parametrize("server", SERVER_OPTIMIZERS)
def test_a_resumed_training_ends_like_an_uninterrupted_one(tmp_path: Path, server: str) -> None:
    """The server's state and the share of the limits that the rate follows are both restored."""

    def make() -> Training:
        rate = RateSchedule(0.1, "cosine", warmup=0.2)
        return training("fedavg", server=server, rate=rate, limits={"deadline": 99.0})

    folder, given, other = RunFolder(tmp_path), make(), make()
    whole = after(make(), 99)
    save(given, folder, after(given, 3))
    folder.history.write_text("".join(record(k).to_line() for k in (1, 2, 3)))
    *_, (resumed, _) = rounds(other, restore(other, folder, begin(other)))
    assert whole.ledger.rounds == 8
    assert resumed.ledger == whole.ledger
    assert torch.equal(resumed.weights, whole.weights)
    for name in ("first_moment", "second_moment"):
        moment, expected = getattr(resumed.server, name), getattr(whole.server, name)
        assert (moment is None and expected is None) or torch.equal(moment, expected)
