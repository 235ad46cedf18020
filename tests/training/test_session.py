"""The only driver of a training."""

import signal
import threading
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from dynamite_fl._leading_metric import LeadingMetric
from dynamite_fl.control.baselines.fedavg import FedAvg
from dynamite_fl.control.registry import CONTROLLERS
from dynamite_fl.plan.feasibility import Infeasible
from dynamite_fl.training.history import read_history
from dynamite_fl.training.round_record import RoundRecord
from dynamite_fl.training.run_folder import RunFolder
from dynamite_fl.training.session import Session
from tests.faults.kills import MOMENTS, killed_at_write, same_files
from tests.training.discarding import BeginsAgain
from tests.trainings import digits, training


def test_callbacks_see_each_round_once_it_is_on_disk(tmp_path: Path) -> None:
    folder, seen = RunFolder(tmp_path), list[int]()

    def check(record: RoundRecord) -> None:
        assert read_history(folder.history)[-1] == record
        seen.append(record.round)

    outcome = Session(training("fedavg"), folder, on_round=[check]).run()
    assert seen == [record.round for record in outcome.history]
    assert outcome.stopped_by == folder.stopped_by()


def test_without_a_folder_the_history_is_the_same(tmp_path: Path) -> None:
    kept = Session(training("dynamite"), RunFolder(tmp_path)).run()
    assert Session(training("dynamite")).run().history == kept.history


def test_the_history_is_judged_by_the_metric_of_the_task(tmp_path: Path) -> None:
    task = replace(digits(), metrics=["perplexity", "accuracy"])
    for folder in (None, RunFolder(tmp_path)):
        history = Session(training("fedavg", task=task), folder).run().history
        assert history.leading_metric == LeadingMetric("perplexity", higher_is_better=False)
        assert list(history[-1].metrics or ()) == ["perplexity", "accuracy"]
        values = history.columns()["perplexity"]
        assert history.best == min(values)
        assert history.final == values[-1] < values[0]


def test_limits_that_allow_no_round_leave_no_file(tmp_path: Path) -> None:
    given = training("dynamite", limits={"deadline": 0.01})
    opened = list[str]()
    with pytest.raises(Infeasible):
        Session(given, RunFolder(tmp_path / "a"), open_folder=lambda: opened.append("")).run()
    assert not opened
    assert not (tmp_path / "a").exists()


def test_ctrl_c_waits_for_the_round_and_saves(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    whole = Session(training("dynamite")).run()

    def press(record: RoundRecord) -> None:
        if record.round == 3:
            signal.raise_signal(signal.SIGINT)

    cut = Session(training("dynamite"), folder, on_round=[press]).run()
    assert cut.stopped_by is None
    assert len(cut.history) == 3
    assert folder.checkpoint.exists()
    resumed = Session(training("dynamite"), folder).run()
    assert resumed.history == whole.history
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("name", CONTROLLERS)
def test_an_interruption_changes_no_byte_with_any_controller(tmp_path: Path, name: str) -> None:
    """The training is stopped after its second round, and goes on in a new session."""
    whole, cut = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "cut")
    for folder in (whole, cut):
        folder.path.mkdir()
    Session(training(name), whole).run()
    seen = list[RoundRecord]()
    stopped = Session(
        training(name), cut, on_round=[seen.append], should_stop=lambda: len(seen) == 2
    ).run()
    assert stopped.stopped_by is None
    Session(training(name), cut).run()
    for file in ("history", "model", "ended", "checkpoint"):
        ours, theirs = getattr(cut, file), getattr(whole, file)
        assert ours.read_bytes() == theirs.read_bytes(), file


def test_a_resume_after_a_discarded_round_changes_no_byte(tmp_path: Path) -> None:
    given = replace(training("fedavg"), controller=BeginsAgain(FedAvg()))
    whole, cut = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "cut")
    for folder in (whole, cut):
        folder.path.mkdir()
    assert Session(given, whole).run().history[0].returned
    seen = list[RoundRecord]()
    Session(given, cut, on_round=[seen.append], should_stop=lambda: len(seen) == 1).run()
    Session(given, cut).run()
    assert same_files(whole.path, cut.path)


def test_a_second_ctrl_c_ends_at_once() -> None:
    def press(_: RoundRecord) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        Session(training("fedavg"), on_round=[press]).run()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_signals_are_left_alone_in_other_threads() -> None:
    outcomes = list[str | None]()
    thread = threading.Thread(
        target=lambda: outcomes.append(Session(training("fedavg")).run().stopped_by)
    )
    thread.start()
    thread.join()
    assert outcomes[0] is not None


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_kill_at_any_write_leaves_something_that_a_resume_makes_right(
    tmp_path: Path, moment: str
) -> None:
    """Whatever was written last, a resume ends with the same files as an undisturbed run."""
    limits = {"rounds": 2}
    whole = RunFolder(tmp_path / "whole")
    whole.path.mkdir()

    def session(folder: RunFolder) -> Session:
        given = training("dynamite", limits=limits)
        return Session(given, folder, seconds_between_checkpoints=0.0)

    session(whole).run()
    for number in count():
        cut = RunFolder(tmp_path / f"cut-{number}")
        cut.path.mkdir()
        output = tmp_path / "output.txt"
        if not killed_at_write(lambda: session(cut).run(), number, moment, output):  # noqa: B023
            break
        if cut.is_finished:  # then nothing that a person looks at may be missing
            assert len(read_history(cut.history)) == limits["rounds"]
            assert cut.model.read_bytes() == whole.model.read_bytes()
        assert session(cut).run().stopped_by == "rounds"
        assert same_files(cut.path, whole.path), number
        assert not list(cut.path.glob(".writing-*")), number
    assert number == 8  # the empty history, twice history, model and checkpoint, once the end


@pytest.mark.parametrize("lost", ["model", "ended"])
def test_a_resume_of_a_finished_run_writes_again_what_was_lost(tmp_path: Path, lost: str) -> None:
    folder = RunFolder(tmp_path)
    Session(training("fedavg"), folder).run()
    file = getattr(folder, lost)
    before = file.read_bytes()
    file.unlink()
    Session(training("fedavg"), folder).run()
    assert file.read_bytes() == before


def test_torch_has_one_thread_meanwhile() -> None:
    import torch

    before, seen = torch.get_num_threads(), set[int]()
    torch.set_num_threads(2)
    try:
        Session(training("fedavg"), on_round=[lambda _: seen.add(torch.get_num_threads())]).run()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == {1}
