"""Checkpoints: what a resumed training goes on from."""

import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from dynamite_fl.errors import RunFolderError
from dynamite_fl.training.checkpoint import restore, save
from dynamite_fl.training.history import read_history
from dynamite_fl.training.history_file import HistoryFile
from dynamite_fl.training.identity import Identity
from dynamite_fl.training.line_checks import check_of
from dynamite_fl.training.loop import begin, rounds
from dynamite_fl.training.progress import Progress
from dynamite_fl.training.rate_schedule import RateSchedule
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.server_optimizer import SERVER_OPTIMIZERS
from dynamite_fl.training.session import Session
from dynamite_fl.training.training import Training
from tests.training.records import record
from tests.trainings import STREAM, training


def keep(given: Training, folder: RunFolder, progress: Progress) -> None:
    """Save a progress, with a history of as many rounds."""
    folder.history.unlink(missing_ok=True)
    file = HistoryFile(folder)
    for number in range(1, progress.ledger.rounds + 1):
        file.append(record(number))
    save(given, folder, progress, file.last_check)


def after(given: Training, count: int) -> Progress:
    """Return the progress after some rounds."""
    *_, (progress, _) = islice(rounds(given, begin(given)), count)
    return progress


@pytest.mark.parametrize("stream", [None, STREAM])
def test_what_is_saved_is_restored(tmp_path: Path, stream: dict[str, object] | None) -> None:
    given, folder = training("dynamite", stream=stream), RunFolder(tmp_path)
    progress = after(given, 3)
    keep(given, folder, progress)
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
    save(given, folder, after(given, 2), check_of(lines[1].decode()) or "")
    other = training("fedavg")
    assert restore(other, folder, begin(other)).ledger.rounds == 2
    assert folder.history.read_bytes() == b"".join(lines[:2])
    assert len(read_history(folder.history)) == 2


def test_a_run_has_ended_only_if_its_progress_says_so(tmp_path: Path) -> None:
    given, folder = training("fedavg"), RunFolder(tmp_path)
    keep(given, folder, after(given, 1))
    assert not folder.is_finished
    keep(given, folder, after(training("fedavg"), 99))
    assert folder.stopped_by() in ("rounds", "deadline", "budget")


def test_a_checkpoint_of_another_controller_is_refused(tmp_path: Path) -> None:
    given, folder = training("dynamite"), RunFolder(tmp_path)
    keep(given, folder, after(given, 1))
    other = training("dynamite-feedback")
    with pytest.raises(RunFolderError):
        restore(other, folder, begin(other))


def damage(file: Path, place: int = -1) -> None:
    """Flip one bit of a file."""
    content = bytearray(file.read_bytes())
    content[place] ^= 4
    file.write_bytes(content)


def test_a_damaged_checkpoint_is_replaced_by_the_one_before_it(tmp_path: Path) -> None:
    given, folder = training("fedavg"), RunFolder(tmp_path)
    Session(given, folder, seconds_between_checkpoints=0.0).run()
    whole = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    damage(folder.checkpoint)
    with pytest.warns(UserWarning, match="its checksum is wrong; .* goes on after round"):
        Session(training("fedavg"), folder, seconds_between_checkpoints=0.0).run()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == whole
    damage(folder.checkpoint)
    damage(folder.earlier_checkpoint)
    with pytest.raises(RunFolderError, match="remove it to begin the training anew"):
        Session(training("fedavg"), folder).run()


def test_a_kill_between_two_names_leaves_the_earlier_checkpoint(tmp_path: Path) -> None:
    given, folder = training("fedavg"), RunFolder(tmp_path)
    Session(given, folder, seconds_between_checkpoints=0.0).run()
    whole = folder.checkpoint.read_bytes()
    folder.checkpoint.unlink()
    other = training("fedavg")
    assert restore(other, folder, begin(other)).ledger.rounds > 0
    Session(training("fedavg"), folder).run()
    assert folder.checkpoint.read_bytes() == whole


def test_a_checkpoint_and_a_history_of_other_runs_are_refused(tmp_path: Path) -> None:
    """All have the same model and the same number of rounds."""
    folders = [RunFolder(tmp_path / name) for name in ("a", "b")]
    for seed, folder in enumerate(folders):
        folder.begin("", Identity({}, job=str(seed)))
        Session(training("fedavg", seed=seed), folder).run()
    ours, theirs = folders
    kept = {path: path.read_bytes() for path in (ours.checkpoint, ours.history)}
    for file, complaint in (
        (theirs.checkpoint, "is of another run"),
        (theirs.history, "line 1 is damaged or of another run"),
    ):
        (ours.path / file.name).write_bytes(file.read_bytes())
        with pytest.raises(RunFolderError, match=complaint):
            Session(training("fedavg"), ours).run()
        for path, content in kept.items():
            path.write_bytes(content)
    assert Session(training("fedavg"), ours).run().stopped_by is not None


def lines_of(content: bytes) -> list[bytes]:
    return content.splitlines(keepends=True)


HARMS: dict[str, Callable[[bytes], bytes]] = {
    "emptied": lambda _: b"",
    "shortened": lambda content: b"".join(lines_of(content)[:-2]),
    "doubled": lambda content: content + content,
    "without its first line": lambda content: b"".join(lines_of(content)[1:]),
    "with a line twice": lambda content: b"".join(lines_of(content)[:1] + lines_of(content)[:-1]),
    "with another number": lambda content: content.replace(b'"cost": ', b'"cost": 1', 1),
    "without checks": lambda content: re.sub(rb', "check": "\w+"', b"", content),
}


@pytest.mark.parametrize("harm", HARMS)
@pytest.mark.parametrize("finished", [True, False])
def test_a_harmed_history_is_refused(tmp_path: Path, harm: str, finished: bool) -> None:
    folder = RunFolder(tmp_path)
    folder.begin("", Identity({}))
    Session(training("fedavg"), folder).run()
    if not finished:
        given, lines = training("fedavg"), folder.history.read_text().splitlines(keepends=True)
        folder.history.write_text("".join(lines[:4]))
        folder.ended.unlink()
        save(given, folder, after(given, 4), check_of(lines[3]) or "")
    harmed = HARMS[harm](folder.history.read_bytes())
    folder.history.write_bytes(harmed)
    with pytest.raises(RunFolderError, match=r"history\.jsonl is damaged"):
        read_history(folder.history)
    if harm == "doubled":  # what follows the rounds of the checkpoint is cut off anyway
        assert Session(training("fedavg"), folder).run().stopped_by is not None
    else:
        with pytest.raises(RunFolderError, match="does not hold the rounds"):
            Session(training("fedavg"), folder).run()
        assert folder.history.read_bytes() == harmed


@pytest.mark.parametrize("server", SERVER_OPTIMIZERS)
def test_a_resumed_training_ends_like_an_uninterrupted_one(tmp_path: Path, server: str) -> None:
    """The server's state and the share of the limits that the rate follows are both restored."""

    def make() -> Training:
        rate = RateSchedule(0.1, "cosine", warmup=0.2)
        return training("fedavg", server=server, rate=rate, limits={"deadline": 99.0})

    folder, given, other = RunFolder(tmp_path), make(), make()
    whole = after(make(), 99)
    keep(given, folder, after(given, 3))
    *_, (resumed, _) = rounds(other, restore(other, folder, begin(other)))
    assert whole.ledger.rounds == 8
    assert resumed.ledger == whole.ledger
    assert torch.equal(resumed.weights, whole.weights)
    for name in ("first_moment", "second_moment", "last_movement"):
        moment, expected = getattr(resumed.server, name), getattr(whole.server, name)
        assert (moment is None and expected is None) or torch.equal(moment, expected)


@pytest.mark.parametrize("name", ["history", "checkpoint", "earlier_checkpoint", "model", "ended"])
def test_a_file_that_is_none_is_refused(tmp_path: Path, name: str) -> None:
    """A model that is written to /dev/zero would be lost without a word."""
    folder = RunFolder(tmp_path)
    Session(training("fedavg"), folder).run()
    file = getattr(folder, name)
    file.unlink(missing_ok=True)
    file.symlink_to("/dev/zero")
    with pytest.raises(RunFolderError, match="is not a regular file: remove it"):
        Session(training("fedavg"), folder).run()
